//! One log under `logs:`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use lucarne_ct::Policy;
use lucarne_log::{Clock, KnownCheckpoints, LaneConfig, LogConfig, Metadata, Signer};
use lucarne_settings::values::ValueError;
use lucarne_settings::{Located, Node, Reader, Report, Section, Value, join};

use super::distinct::{Claimant, Claims};
use super::instances::{self, InstanceSettings};
use super::place::DataPlace;
use super::root_sources::RootSources;
use super::scrub::{self, Scrub};
use super::values::Prefix;
use super::{accept, identity, keys, lanes, metadata, values};
use crate::known::{KnownPlaces, Place};

/// One log as the operator wants it.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The line where the log begins in the file.
    pub line: Option<usize>,
    /// Its name in metrics and messages.
    pub shortname: Located<String>,
    /// Free text for `log.v3.json`.
    pub description: String,
    /// Holds what else it says of the log.
    pub metadata: Metadata,
    /// The day on which `serve` may create the log.
    pub inception: Option<Located<Date>>,
    /// The checkpoint origin.
    pub origin: String,
    /// The prefix under which clients submit.
    pub submission: Located<Prefix>,
    /// The prefix under which clients read.
    pub monitoring: Located<Prefix>,
    /// Another prefix under which all of this is served.
    pub also_at: Option<Prefix>,
    /// The holder of the key.
    pub key: Signer,
    /// The file that has the key, or the credentials that fetch it, if there is one.
    pub secret: Option<Located<PathBuf>>,
    /// The file that has the credentials of the bucket, if the configuration names one.
    pub credentials: Option<Located<PathBuf>>,
    /// Directory for what can be lost: dedup index, index of leaf hashes, CCADB roots.
    pub cache: Located<PathBuf>,
    /// The place of the log's data.
    pub data: Located<DataPlace>,
    /// The sources of accepted roots.
    pub roots: RootSources,
    /// Shortest distance between rounds.
    pub period: Located<Duration>,
    /// Most entries waiting for a round.
    pub pool_size: Located<usize>,
    /// The lanes of submissions.
    pub lanes: LaneConfig,
    /// Longest age of an idle log's checkpoint.
    pub checkpoint_interval: Duration,
    /// Most that the journal may have while storage is not made durable, in bytes.
    pub journal: u64,
    /// Memory for tiles that are read, in bytes.
    pub read_cache: u64,
    /// Disk for tiles that are read from a bucket, in bytes.
    pub disk_cache: u64,
    /// Whether it answers the reads of RFC 6962, too.
    pub rfc6962_reads: bool,
    /// The reading of all its files again and again, if anybody does.
    pub scrub: Option<Scrub>,
    /// The policy of what the log accepts.
    pub policy: Policy,
    /// The URLs of checkpoints outside, which this log's must not be behind.
    pub known: Vec<Located<String>>,
    /// The part of this process among several instances of the log, if there are several.
    pub instances: Option<Located<InstanceSettings>>,
    /// The clock that it reads the time from.
    pub clock: Clock,
}

/// Shortest distance between rounds of a log on a disk if `period` is not given.
const PERIOD: Duration = Duration::from_millis(200);
/// The same of a log in a bucket: a round costs some requests, however many
/// entries it has, and some stores take one write to an object per second.
const BUCKET_PERIOD: Duration = Duration::from_secs(1);
/// Pool if `poolsize` is not given.
pub(super) const POOL_SIZE: usize = 4000;
/// Age of the checkpoint of an idle log on a disk if `checkpointinterval` is not given.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// The same of a log in a bucket, where a checkpoint is two paid requests: one for the lock, if that is
/// in a bucket, too, and one for what is published.
const BUCKET_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// Bounds of `period`, in milliseconds.
pub(super) const PERIODS: (u64, u64) = (1, 60_000);
/// Bounds of `checkpointinterval`, in milliseconds.
pub(super) const CHECKPOINT_INTERVALS: (u64, u64) = (100, 60_000);
/// Bytes of the journal if `maxjournal` is not given.
pub(super) const JOURNAL: u64 = 1 << 30;
/// Bytes of tiles in memory if `readcache` is not given.
pub(super) const READ_CACHE: u64 = 16 << 20;
/// Bytes of a bucket's tiles on disk if `diskcache` is not given.
pub(super) const DISK_CACHE: u64 = 1 << 30;

/// Shortest distance between rounds if `period` is not given.
pub(super) fn default_period(data: &DataPlace) -> Duration {
    match data {
        DataPlace::Directory(_) => PERIOD,
        DataPlace::Bucket(_) => BUCKET_PERIOD,
    }
}

/// Age of an idle checkpoint if `checkpointinterval` is not given.
pub(super) fn default_checkpoint_interval(data: &DataPlace) -> Duration {
    match data {
        DataPlace::Directory(_) => CHECKPOINT_INTERVAL,
        DataPlace::Bucket(_) => BUCKET_CHECKPOINT_INTERVAL,
    }
}

impl LogSettings {
    /// `logs[name].key`, for messages.
    pub(crate) fn key_path(&self, key: &str) -> String {
        match self.line {
            Some(_) => join(&format!("logs[{}]", self.shortname.value), key),
            None => keys::flag_of(key),
        }
    }

    /// Returns the file where CCADB roots are kept between starts.
    pub(crate) fn ccadb_file(&self) -> PathBuf {
        self.cache.value.join("ccadb.pem")
    }

    /// Returns the directory where tiles that are read from a bucket are kept.
    /// Its name has the key's: another log's tiles must never be served as this
    /// one's.
    pub(crate) fn tiles_directory(&self) -> PathBuf {
        let id = hex::encode(&self.key.log_id().0[..8]);
        self.cache.value.join(format!("tiles-{id}"))
    }

    /// Returns the places outside where a checkpoint of this log may be known.
    pub(crate) fn known_places(&self) -> KnownPlaces {
        let urls = self.known.iter().map(|url| Place::Url(url.value.clone()));
        KnownPlaces(urls.collect())
    }

    fn known_checkpoints(&self) -> Option<Arc<dyn KnownCheckpoints>> {
        (!self.known.is_empty()).then(|| Arc::new(self.known_places()) as _)
    }

    /// Returns what the `log` crate needs to know, with a verification of the log's own.
    pub(crate) fn to_log_config(&self) -> LogConfig {
        LogConfig {
            shortname: self.shortname.value.clone(),
            description: self.description.clone(),
            metadata: self.metadata.clone(),
            origin: self.origin.clone(),
            submission_prefix: self.submission.value.url.clone(),
            monitoring_prefix: self.monitoring.value.url.clone(),
            also_at: self.also_at.as_ref().map(|prefix| prefix.url.clone()),
            key: self.key.clone(),
            policy: self.policy.clone(),
            verification: Arc::default(),
            period: self.period.value,
            pool_size: self.pool_size.value,
            lanes: self.lanes.clone(),
            checkpoint_interval: self.checkpoint_interval,
            cache: self.cache.value.join("dedup"),
            journal_bytes: self.journal,
            read_cache_bytes: self.read_cache,
            rfc6962_reads: (self.rfc6962_reads).then(|| self.cache.value.join("leaves")),
            scrub: self.scrub.map(|scrub| scrub.config(&self.cache.value)),
            known: self.known_checkpoints(),
            instances: (self.instances.as_ref()).map(|instances| instances.value.config()),
            clock: self.clock.clone(),
        }
    }
}

/// Reads one log. All its problems are reported; one that cannot be used even
/// for looking further is `None`.
pub(super) fn read(
    index: usize,
    node: &Node,
    defaults: Option<Section<'_>>,
    directory: &Path,
    claims: &mut Claims,
    report: &mut Report,
) -> Option<LogSettings> {
    let path = format!("logs[{}]", name_or_index(index, node));
    let section = keys::open(node, &path, &keys::log(), report)?;
    let mut reader = Reader::new(section.or(defaults), &path, directory, report);
    let identity = identity::read(&mut reader);
    let inception = reader.parse("inception", values::date);
    let known = reader.list("known_checkpoints", values::checkpoint_url);
    let description = reader.text("description").map(|text| text.value.to_owned());
    let rounds = rounds(&mut reader);
    let roots = accept::roots(&mut reader);
    let policy = accept::policy(&mut reader);
    let (place, signer) = (identity.data.as_ref(), identity.key.as_ref());
    let (place, signer) = (place.map(|it| &it.value), signer.map(|it| &it.value));
    let instances = instances::read(&mut reader, place, signer);
    let prefixes = [&identity.submission, &identity.monitoring];
    let prefixes = prefixes.map(|prefix| prefix.as_ref().map(|prefix| &prefix.value));
    let likely = metadata::likely_use(&roots, &policy, &prefixes);
    let mut metadata = metadata::read(&mut reader, likely);
    if let Some(inception) = &inception {
        let midnight = || values::time(&inception.value.to_string()).ok();
        metadata.active_since = metadata.active_since.or_else(midnight);
    }
    let who = Claimant {
        index,
        path: &path,
        line: node.line,
    };
    identity.claim(who, claims, report);
    let key = identity.key?.value;
    let submission = identity.submission?;
    let origin = submission.value.origin().to_owned();
    let data = identity.data?;
    let scrub = rounds.scrub.of(&data.value);
    let period = rounds.period.unwrap_or(Located {
        value: default_period(&data.value),
        line: None,
    });
    let interval = rounds.checkpoint_interval;
    let checkpoint_interval = interval.unwrap_or_else(|| default_checkpoint_interval(&data.value));
    Some(LogSettings {
        line: Some(node.line),
        shortname: identity.shortname?,
        description: description.unwrap_or_else(|| origin.clone()),
        metadata,
        inception,
        origin,
        submission,
        monitoring: identity.monitoring?,
        also_at: None,
        key,
        secret: identity.secret,
        credentials: identity.credentials,
        cache: identity.cache?,
        data,
        roots,
        period,
        pool_size: rounds.pool_size,
        lanes: rounds.lanes,
        checkpoint_interval,
        journal: rounds.journal,
        read_cache: rounds.read_cache,
        disk_cache: rounds.disk_cache,
        rfc6962_reads: rounds.rfc6962_reads,
        scrub,
        policy,
        known,
        instances,
        clock: Clock::system(),
    })
}

/// The log's short name, or else its place in the list: for messages.
fn name_or_index(index: usize, node: &Node) -> String {
    let name = match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == "shortname"),
        _ => None,
    };
    match name.map(|entry| &entry.value.value) {
        Some(Value::Scalar(name)) => name.clone(),
        _ => index.to_string(),
    }
}

/// The settings of the log's sequencing.
struct Rounds {
    /// If it is given.
    period: Option<Located<Duration>>,
    pool_size: Located<usize>,
    lanes: LaneConfig,
    /// If it is given.
    checkpoint_interval: Option<Duration>,
    journal: u64,
    read_cache: u64,
    disk_cache: u64,
    rfc6962_reads: bool,
    scrub: scrub::Keys,
}

fn rounds(reader: &mut Reader<'_, '_>) -> Rounds {
    let period = reader.parse("period", values::milliseconds(PERIODS.0, PERIODS.1));
    let interval = reader.parse(
        "checkpointinterval",
        values::milliseconds(CHECKPOINT_INTERVALS.0, CHECKPOINT_INTERVALS.1),
    );
    let pool_size = reader.parse("poolsize", pool_size).unwrap_or(Located {
        value: POOL_SIZE,
        line: None,
    });
    let lanes = lanes::read(reader, pool_size.value);
    let journal = reader.parse("maxjournal", values::number(1, 1 << 20, "MiB"));
    let mebibytes = reader.parse("readcache", values::number(0, 1 << 20, "MiB"));
    let on_disk = reader.parse("diskcache", values::number(0, 1 << 24, "MiB"));
    let rfc6962_reads = reader.parse("rfc6962reads", values::boolean);
    Rounds {
        period,
        pool_size,
        lanes,
        checkpoint_interval: interval.map(|located| located.value),
        journal: journal.map_or(JOURNAL, |located| located.value << 20),
        read_cache: mebibytes.map_or(READ_CACHE, |located| located.value << 20),
        disk_cache: on_disk.map_or(DISK_CACHE, |located| located.value << 20),
        rfc6962_reads: rfc6962_reads.is_some_and(|located| located.value),
        scrub: scrub::read(reader),
    }
}

/// Reads `poolsize`. As in Sunlight, 0 is no limit.
pub(super) fn pool_size(text: &str) -> Result<usize, ValueError> {
    match values::number(0, 10_000_000, "entries")(text)? {
        0 => Ok(u32::MAX as usize),
        entries => Ok(entries as usize),
    }
}
