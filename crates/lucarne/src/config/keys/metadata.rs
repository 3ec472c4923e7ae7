//! Published metadata of a log.

use lucarne_log::{IntendedUse, Status};
use lucarne_settings::form::{Count, Shape, Time, Words};
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::join(&[&SHARED, &OWN]);

/// Keys that `defaults` may have.
pub(crate) static SHARED: Table = Table::of(&[
    &INTENDED_USE,
    &SUBMISSION_RATE_LIMIT,
    &MONITORING_RATE_LIMIT,
]);

/// Keys that identify one log.
pub(crate) static OWN: Table = Table::of(&[&STATUS_TIMESTAMP, &PLANNED_CHANGES]);

/// Keys of an entry of `planned_changes`.
pub(crate) static PLANNED_CHANGE: Table =
    Table::of(&[&NEW_STATUS, &EFFECTIVE_DATE, &COMMENT]).following();

/// Keys of a rate limit.
pub(crate) static RATE_LIMIT: Table =
    Table::of(&[&REQUESTS, &INTERVAL_SECONDS, &SCOPE]).following();

pub(crate) static INTENDED_USE: Key<Words<IntendedUse>> = Key::new(
    "intended_use",
    Words(&[
        ("production", IntendedUse::Production),
        ("test", IntendedUse::Test),
        ("decommissioned", IntendedUse::Decommissioned),
    ]),
    "see below",
    "`production`, `test`, or `decommissioned` after the end of the log. `log_type` follows from \
     this value: `prod`, `test`, or no value.",
);

pub(crate) static STATUS_TIMESTAMP: Key<Time> = Key::new(
    "status_timestamp",
    Time,
    "`inception`",
    "Time from which the log is active.",
);

pub(crate) static PLANNED_CHANGES: Key<Shape> = Key::new(
    "planned_changes",
    Shape::List(&Shape::Map(&PLANNED_CHANGE)),
    "none",
    "Future changes of the log: a list of maps with the next three keys. Past changes are not \
     shown.",
);

pub(crate) static NEW_STATUS: Key<Words<Status>> = Key::new(
    "new_status",
    Words(&[
        ("active", Status::Active),
        ("readonly", Status::ReadOnly),
        ("inactive", Status::Inactive),
    ]),
    "required",
    "Of a planned change: `active`, `readonly` or `inactive`.",
);

pub(crate) static EFFECTIVE_DATE: Key<Time> =
    Key::new("effective_date", Time, "required", "Date of the change.");

pub(crate) static COMMENT: Key<Shape> =
    Key::new("comment", Shape::Text, "none", "Reason, for people.");

pub(crate) static SUBMISSION_RATE_LIMIT: Key<Shape> = Key::new(
    "submission_rate_limit",
    Shape::Map(&RATE_LIMIT),
    "none",
    "Limit for submissions: a map with the next three keys. The map describes the limit of a proxy \
     in front of the log; Lucarne does not enforce it.",
);

pub(crate) static MONITORING_RATE_LIMIT: Key<Shape> = Key::new(
    "monitoring_rate_limit",
    Shape::Map(&RATE_LIMIT),
    "none",
    "The same for reads. Lucarne's own limits ([`read_limits`](#read_limits)) are in `log.v3.json` \
     automatically.",
);

pub(crate) static REQUESTS: Key<Count> = Key::new(
    "requests",
    Count::within(0, u64::MAX, "requests"),
    "required",
    "Of a rate limit: maximum number of requests within the interval.",
);

pub(crate) static INTERVAL_SECONDS: Key<Count> = Key::new(
    "interval_seconds",
    Count::within(1, 1 << 32, "seconds"),
    "required",
    "The interval, in seconds.",
);

pub(crate) static SCOPE: Key<Words<&str>> = Key::new(
    "scope",
    Words(&[
        ("ip", "ip"),
        ("asn", "asn"),
        ("subnet", "subnet"),
        ("user-agent", "user-agent"),
        ("geography", "geography"),
        ("global", "global"),
    ]),
    "none",
    "Unit of the count: `ip`, `asn`, `subnet`, `user-agent`, `geography` or `global`.",
);
