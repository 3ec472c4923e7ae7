//! `instances`, and the keys under it.

use std::time::Duration;

use lucarne_settings::form::{Durations, Shape};
use lucarne_settings::{Key, Table};

/// The key of the map.
pub(crate) static GROUP: Table = Table::of(&[&INSTANCES]);

/// Keys under `instances`.
pub(crate) static TABLE: Table = Table::of(&[&ADDRESS, &LISTEN, &KEY, &LEASE]).following();

pub(crate) static INSTANCES: Key<Shape> = Key::new(
    "instances",
    Shape::Map(&TABLE),
    "none",
    "A map with the next four keys. The log's data must be in a bucket, its lock in a bucket or on \
     a database server, and its key in `secret`. Cannot be combined with `handover`: a stopped \
     instance hands over to another instance.",
);

pub(crate) static ADDRESS: Key<Shape> = Key::new(
    "address",
    Shape::Text,
    "",
    "Address at which the other instances reach this instance, as `host:port`.",
);

pub(crate) static LISTEN: Key<Shape> = Key::new(
    "listen",
    Shape::Text,
    "`address`",
    "Address on which this instance listens for the others, as `host:port` or `:port`. Logs of one \
     process can share it.",
);

pub(crate) static KEY: Key<Shape> = Key::new(
    "key",
    Shape::Secret,
    "",
    "A text of at least 32 characters that all instances share, from any source that `secret` \
     accepts. An instance accepts only requests and responses that are authenticated with this \
     key. Messages are not encrypted: they contain certificates that are about to become public.",
);

pub(crate) static LEASE: Key<Durations> = Key::new(
    "lease",
    Durations::within(Duration::from_millis(300), Duration::from_secs(60)).former_numbers(1),
    "1.5s",
    "Time without a sign of the leader after which another instance takes over. The value must be \
     the same in all instances. Each instance reads the lock six times within this time.",
);
