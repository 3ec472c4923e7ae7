//! Keys of a log's `backlog`.

use lucarne_settings::form::Count;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[&RATE, &POOL]).following();

pub(crate) static RATE: Key<Count> = Key::new(
    "rate",
    Count::within(1, 1_000_000, "entries a second"),
    "the rate of the rounds",
    "Of the backlog: new entries per second, on average; above this rate, 503 with Retry-After.",
);

pub(crate) static POOL: Key<Count> = Key::new(
    "pool",
    Count::within(1, 10_000_000, "entries"),
    "a quarter of `poolsize`",
    "Of the backlog: maximum number of entries that wait for a round; above this number, 503 with \
     Retry-After.",
);
