//! Rounds, caches and the scrub of a log.

use std::time::Duration;

use lucarne_settings::form::{Boolean, Count, Durations, Shape, Sizes};
use lucarne_settings::{Key, Table};

use super::{SUNLIGHT, backlog};

pub(crate) static TABLE: Table = Table::of(&[
    &PERIOD,
    &POOLSIZE,
    &FRESHNESS,
    &BACKLOG,
    &CHECKPOINTINTERVAL,
    &MAXJOURNAL,
    &READCACHE,
    &DISKCACHE,
    &RFC6962READS,
    &SCRUB,
    &SCRUBWINDOW,
]);

pub(crate) static PERIOD: Key<Durations> = Key::new(
    "period",
    Durations::within(Duration::from_millis(1), Duration::from_secs(60)).numbers(1),
    "200ms; 1s in a bucket",
    "Shortest time between rounds. An idle log responds at once; a busy log collects entries for \
     this time. In a bucket, a round costs requests, regardless of the number of its entries: see \
     [storage.md](storage.md).",
)
.beside(SUNLIGHT);

pub(crate) static POOLSIZE: Key<Count> = Key::new(
    "poolsize",
    Count::within(0, 10_000_000, "entries"),
    "4000",
    "Maximum number of entries that wait for a round; above this number, 503 with Retry-After. 0 \
     means no \
     limit, as in Sunlight.",
)
.beside(SUNLIGHT);

pub(crate) static FRESHNESS: Key<Durations> = Key::new(
    "freshness",
    Durations::within(Duration::from_secs(60), Duration::from_secs(87_600 * 3600)),
    "28h",
    "Age of notBefore up to which a certificate without SCTs is fresh. Fresh entries come first; \
     see [limits.md](limits.md).",
);

pub(crate) static BACKLOG: Key<Shape> = Key::new(
    "backlog",
    Shape::Map(&backlog::TABLE),
    "none",
    "Limits of the entries that are not fresh: a map with the next two keys, `{rate: 100, pool: \
     500}`. Without this key, these entries can use the capacity that fresh entries leave.",
);

pub(crate) static CHECKPOINTINTERVAL: Key<Durations> = Key::new(
    "checkpointinterval",
    Durations::within(Duration::from_millis(100), Duration::from_secs(60)).numbers(1),
    "5s; 10s in a bucket",
    "Maximum age of an idle log's checkpoint; then the log signs a new one. In a bucket, each \
     checkpoint is a paid request, plus one for a lock in a bucket.",
);

pub(crate) static MAXJOURNAL: Key<Sizes> = Key::new(
    "maxjournal",
    Sizes::within(1 << 20, 1 << 40).former_numbers(1 << 20),
    "1GiB",
    "Maximum size of the data that a log can write before a sync completes. If the disk does not \
     complete a sync, submissions beyond this size get 503 with Retry-After. The log syncs after \
     each eighth of this size; in a directory, also after 32 MiB and after 256 rounds.",
);

pub(crate) static READCACHE: Key<Sizes> = Key::new(
    "readcache",
    Sizes::within(0, 1 << 40).former_numbers(1 << 20),
    "16MiB",
    "Memory for tiles that are read. A cached data tile also keeps its file open (12 descriptors \
     per MiB; all logs together use at most a quarter of the process's limit).",
);

pub(crate) static DISKCACHE: Key<Sizes> = Key::new(
    "diskcache",
    Sizes::within(0, 1 << 44).former_numbers(1 << 20),
    "1GiB",
    "Disk space within `cache` for tiles and issuers that are read from a bucket. 0 disables it.",
);

pub(crate) static RFC6962READS: Key<Boolean> = Key::new(
    "rfc6962reads",
    Boolean,
    "false",
    "Whether the log also serves the reads of RFC 6962, for tools without support for tiles: \
     [monitors.md](../how-to/monitors.md#rfc-6962-clients). They need an [index of leaf \
     hashes](#index-of-leaf-hashes) in `cache`.",
);

pub(crate) static SCRUB: Key<Shape> = Key::new(
    "scrub",
    Shape::Text,
    "5MB/s; `sample` in a bucket",
    "Rate at which the [scrubber](#scrubber) reads all files, in MB/s or kB/s of stored bytes; \
     each request counts as 4096 additional bytes. `sample` verifies random tiles, and `off` \
     disables the scrubber.",
);

pub(crate) static SCRUBWINDOW: Key<Shape> = Key::new(
    "scrubwindow",
    Shape::Text,
    "all day",
    "Time of the day, UTC, in which the scrub runs: `22:00-06:00`.",
);
