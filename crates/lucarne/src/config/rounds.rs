//! Rounds, caches and the scrub of a log.

use std::time::Duration;

use lucarne_log::{NoWindow, RoundConfig, ScrubWindow};
use lucarne_settings::form::{Boolean, Count, Durations, One, Parsed, Shape, Sizes};
use lucarne_settings::values::ValueError;
use lucarne_settings::{Reader, section};

use super::keys::{self, SUNLIGHT};
use super::place::DataPlace;
use super::scrub::{self, Extent, Scrub};

/// Settings of a log's rounds, caches and scrub.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// Settings for the `log` crate.
    pub sequencer: RoundConfig,
    /// Disk space for cached tiles of a bucket, in bytes.
    pub disk_cache: u64,
    /// Whether the log also serves the read endpoints of RFC 6962.
    pub rfc6962_reads: bool,
    /// Periodic verification of all files.
    pub scrub: Scrub,
}

const MINUTE: Duration = Duration::from_secs(60);
const TEN_YEARS: Duration = Duration::from_secs(87_600 * 3600);

section! {
    for Rounds = [Rounds::default(), Rounds::in_bucket()];

    /// Shortest time between rounds. An idle log responds at once; a busy log collects entries for
    /// this time. In a bucket, a round costs requests, regardless of the number of its entries: see
    /// [storage.md](storage.md).
    #[beside(SUNLIGHT)]
    period: Durations =
        Durations::within(Duration::from_millis(1), MINUTE).numbers(1) => sequencer.period;

    /// Maximum number of entries that wait for a round; above this number, 503 with Retry-After. 0
    /// means no limit, as in Sunlight.
    #[beside(SUNLIGHT)]
    poolsize: One<u64, ValueError> = POOL_SIZES => sequencer.pool_size;

    /// Age of notBefore up to which a certificate without SCTs is fresh. Fresh entries come first;
    /// see [limits.md](limits.md).
    freshness: Durations = Durations::within(MINUTE, TEN_YEARS) => sequencer.lanes.freshness;

    /// Limits of the entries that are not fresh: a map with the next two keys, `{rate: 100, pool:
    /// 500}`. Without this key, these entries can use the capacity that fresh entries leave.
    backlog: Shape = Shape::Map(&backlog::TABLE), "none";

    /// Maximum age of an idle log's checkpoint; then the log signs a new one. In a bucket, each
    /// checkpoint is a paid request, plus one for a lock in a bucket.
    checkpointinterval: Durations =
        Durations::within(Duration::from_millis(100), MINUTE).numbers(1)
        => sequencer.max_checkpoint_age;

    /// A [policy](https://c2sp.org/tlog-policy) with witnesses: after each publication, the log
    /// requests a cosignature from each witness with a URL, and publishes the checkpoint again with
    /// the responses until the next round, for at most 2 s. `period` must be longer than their
    /// responses take, and in GCS longer than 1 s. Rounds and SCTs do not wait for witnesses.
    witnesses: Shape = Shape::Text, "none";

    /// A policy with mirrors, in the same format: the log uploads its entries to each mirror
    /// ([tlog-mirror](https://c2sp.org/tlog-mirror)), and publishes the cosignatures as those of
    /// witnesses. The quorum needs both policies.
    mirrors: Shape = Shape::Text, "none";

    /// Maximum size of the data that a log can write before a sync completes. If the disk does not
    /// complete a sync, submissions beyond this size get 503 with Retry-After. The log syncs after
    /// each eighth of this size; in a directory, also after 32 MiB and after 256 rounds.
    maxjournal: Sizes = Sizes::within(1 << 20, 1 << 40).former_numbers(1 << 20)
        => sequencer.journal_bytes;

    /// Memory for tiles that are read. A cached data tile also keeps its file open (12 descriptors
    /// per MiB; all logs together use at most a quarter of the process's limit).
    readcache: Sizes = Sizes::within(0, 1 << 40).former_numbers(1 << 20)
        => sequencer.read_cache_bytes;

    /// Disk space within `cache` for tiles and issuers that are read from a bucket. 0 disables it.
    diskcache: Sizes = Sizes::within(0, 1 << 44).former_numbers(1 << 20) => disk_cache;

    /// Whether the log also serves the reads of RFC 6962, for tools without support for tiles:
    /// [monitors.md](../how-to/monitors.md#rfc-6962-clients). They need an [index of leaf
    /// hashes](#index-of-leaf-hashes) in `cache`.
    rfc6962reads: Boolean = Boolean => rfc6962_reads;

    /// Rate at which the [scrubber](#scrubber) reads all files, in MB/s or kB/s of stored bytes;
    /// each request counts as 4096 additional bytes. `sample` verifies random tiles, and `off`
    /// disables the scrubber.
    scrub: One<Extent, &'static str> = scrub::EXTENTS => scrub.extent;

    /// Time of the day, UTC, in which the scrub runs: `22:00-06:00`.
    scrubwindow: One<ScrubWindow, NoWindow> = One::new(str::parse), "all day"
        => scrub.window;
}

/// Limits of the entries that are not fresh.
pub(super) mod backlog {
    use lucarne_log::LaneConfig;

    use super::*;

    section! {
        #![following]
        for LaneConfig = [LaneConfig::default()];

        /// New entries per second of the backlog, on average; above this rate, 503 with
        /// Retry-After.
        rate: Count = Count::within(1, 1_000_000, "entries a second"), "the rate of the rounds"
            => old_rate;

        /// Maximum number of entries of the backlog that wait for a round; above this number, 503
        /// with Retry-After.
        pool: Count = Count::within(1, 10_000_000, "entries"), "a quarter of `poolsize`"
            => old_pool;
    }
}

impl Default for Rounds {
    /// Returns the settings of a log on a disk.
    fn default() -> Self {
        Rounds {
            sequencer: RoundConfig::default(),
            disk_cache: 1 << 30,
            rfc6962_reads: false,
            scrub: Scrub::default(),
        }
    }
}

impl Rounds {
    fn in_bucket() -> Self {
        Rounds {
            sequencer: RoundConfig::in_bucket(),
            scrub: Scrub::in_bucket(),
            ..Rounds::default()
        }
    }

    /// Returns the defaults of a log with these data.
    pub(super) fn of(data: Option<&DataPlace>) -> Self {
        match data {
            Some(DataPlace::Bucket(_)) => Rounds::in_bucket(),
            Some(DataPlace::Directory(_)) | None => Rounds::default(),
        }
    }

    /// Reads the settings of a log with these data.
    pub(super) fn read(reader: &mut Reader<'_, '_>, data: Option<&DataPlace>) -> Self {
        let mut rounds = Rounds::of(data);
        read(reader, &mut rounds);
        let sequencer = &mut rounds.sequencer;
        let pool_size = sequencer.pool_size;
        if let Some(mut inside) = keys::inside(reader, &KEYS.backlog, &backlog::TABLE) {
            backlog::read(&mut inside, &mut sequencer.lanes);
            if let Some(entries) = sequencer
                .lanes
                .old_pool
                .filter(|entries| *entries > pool_size)
            {
                let message = format!(
                    "{entries} entries are more than `poolsize` ({pool_size}), which includes them"
                );
                let pool = &backlog::KEYS.pool;
                inside.problem(inside.line(pool), pool, message);
            }
        }
        rounds
    }
}

/// Numbers of entries.
const ENTRIES: Count = Count::within(0, 10_000_000, "entries");
const POOL_SIZES: One<u64, ValueError> = One::new(pool_size)
    .shaped(Shape::Number(ENTRIES.least, ENTRIES.most))
    .shown(u64::to_string);

/// Parses the size of a pool. As in Sunlight, 0 means no limit.
fn pool_size(text: &str) -> Result<u64, ValueError> {
    Ok(match ENTRIES.parse(text)? {
        0 => u32::MAX.into(),
        entries => entries,
    })
}
