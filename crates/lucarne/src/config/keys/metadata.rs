//! Published metadata of a log.

use lucarne_log::{IntendedUse, Status};
use lucarne_settings::form::{Count, Shape, Time, Words};
use lucarne_settings::{Table, section};

pub(crate) static TABLE: Table = Table::join(&[&shared::TABLE, &own::TABLE]);

/// Keys that `defaults` may have.
pub(crate) mod shared {
    use super::*;

    section! {
        /// `production`, `test`, or `decommissioned` after the end of the log. `log_type` follows
        /// from this value: `prod`, `test`, or no value.
        intended_use: Words<IntendedUse> =
            Words(&[
                ("production", IntendedUse::Production),
                ("test", IntendedUse::Test),
                ("decommissioned", IntendedUse::Decommissioned),
            ]),
            "see below";

        /// Limit for submissions: a map with the next three keys. The map describes the limit of a
        /// proxy in front of the log; Lucarne does not enforce it.
        submission_rate_limit: Shape = Shape::Map(&rate_limit::TABLE), "none";

        /// The same for reads. Lucarne's own limits ([`read_limits`](#read_limits)) are in
        /// `log.v3.json` for clients that have limits.
        monitoring_rate_limit: Shape = Shape::Map(&rate_limit::TABLE), "none";
    }
}

/// Keys that identify one log.
pub(crate) mod own {
    use super::*;

    section! {
        /// Time from which the log is active.
        status_timestamp: Time = Time, "`inception`";

        /// Future changes of the log: a list of maps with the next three keys. Past changes are not
        /// shown.
        planned_changes: Shape = Shape::List(&Shape::Map(&planned_change::TABLE)), "none";
    }
}

/// Keys of an entry of `planned_changes`.
pub(crate) mod planned_change {
    use super::*;

    section! {
        #![following]

        /// Status after a planned change: `active`, `readonly` or `inactive`.
        new_status: Words<Status> =
            Words(&[
                ("active", Status::Active),
                ("readonly", Status::ReadOnly),
                ("inactive", Status::Inactive),
            ]),
            "required";

        /// Date of the change.
        effective_date: Time = Time, "required";

        /// Reason, for people.
        comment: Shape = Shape::Text, "none";
    }
}

/// Keys of a rate limit.
pub(crate) mod rate_limit {
    use super::*;

    section! {
        #![following]

        /// Maximum number of requests within the interval of a rate limit.
        requests: Count = Count::within(0, u64::MAX, "requests"), "required";

        /// The interval, in seconds.
        interval_seconds: Count = Count::within(1, 1 << 32, "seconds"), "required";

        /// Unit of the count: `ip`, `asn`, `subnet`, `user-agent`, `geography` or `global`.
        scope: Words<&'static str> =
            Words(&[
                ("ip", "ip"),
                ("asn", "asn"),
                ("subnet", "subnet"),
                ("user-agent", "user-agent"),
                ("geography", "geography"),
                ("global", "global"),
            ]),
            "none";
    }
}
