//! `instances`, and the keys under it.

use std::time::Duration;

use lucarne_log::Instances;
use lucarne_settings::form::{Durations, Shape};
use lucarne_settings::section;

const LEASES: Durations =
    Durations::within(Duration::from_millis(300), Duration::from_secs(60)).former_numbers(1);

section! {
    /// A map with the next four keys. The log's data must be in a bucket, its lock in a bucket or
    /// on a database server, and its key in `secret`. Cannot be combined with `handover`: a stopped
    /// instance hands over to another instance.
    instances: Shape = Shape::Map(&inside::TABLE), "none";
}

/// Keys under `instances`.
pub(crate) mod inside {
    use super::*;

    section! {
        #![following]

        /// Address at which the other instances reach this instance, as `host:port`.
        address: Shape = Shape::Text, "";

        /// Address on which this instance listens for the others, as `host:port` or `:port`. Logs
        /// of one process can share it.
        listen: Shape = Shape::Text, "`address`";

        /// A text of at least 32 characters that all instances share, from any source that `secret`
        /// accepts. An instance accepts only requests and responses that are authenticated with
        /// this key. Messages are not encrypted: they contain certificates that are about to become
        /// public.
        key: Shape = Shape::Secret, "";

        /// Time without a sign of the leader after which another instance takes over. The value
        /// must be the same in all instances. Each instance reads the lock six times within this
        /// time.
        lease: Durations = LEASES, is Instances::LEASE;
    }
}
