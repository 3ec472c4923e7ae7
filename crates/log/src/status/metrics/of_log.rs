//! The metrics of one log.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::labels::{LogLabels, WitnessLabels, WitnessResultLabels};
use crate::config::lane::Lane;
use crate::status::witness_status::Outcome;

pub(crate) struct LogMetrics {
    pub(crate) accepted: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) rejected: Counter,
    pub(crate) full: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) submission_seconds: Histogram,
    pub(crate) prepare: Histogram,
    pub(crate) stage: Histogram,
    pub(crate) commit: Histogram,
    pub(crate) publish: Histogram,
    pub(crate) total: Histogram,
    pub(crate) round_entries: Histogram,
    pub(crate) tree_size: Gauge,
    pub(crate) checkpoint_timestamp: Gauge,
    pub(crate) pool_entries: Gauge,
    pub(super) fresh: LaneMetrics,
    pub(super) old: LaneMetrics,
    pub(crate) dedup_indexed: Gauge,
    pub(crate) dedup_backlog: Gauge,
    pub(crate) dedup_unknown: Gauge,
    pub(crate) dedup_wrong: Counter,
    pub(crate) up: Gauge,
    pub(crate) leads: Gauge,
    pub(crate) failures: Counter,
    pub(crate) syncs: Counter,
    pub(crate) journal_bytes: Counter,
    pub(crate) published_bytes: Counter,
    pub(crate) headroom: Gauge,
    pub(crate) neglected: Counter,
    pub(crate) read_cache: Gauge,
    pub(crate) witnesses: WitnessMetrics,
    pub(crate) scrub_read: Counter,
    pub(crate) scrub_entries: Gauge,
    pub(crate) restored_files: Counter,
    pub(crate) scrub_ended: Gauge,
    pub(crate) scrub_findings: Counter,
}

impl LogMetrics {
    pub(crate) fn lane(&self, lane: Lane) -> &LaneMetrics {
        match lane {
            Lane::Fresh => &self.fresh,
            Lane::Old => &self.old,
        }
    }

    /// Raises the storage counters to the values in `stats`.
    pub(crate) fn note_storage(&self, stats: &lucarne_storage::Stats) {
        let raise = |counter: &Counter, to: u64| {
            counter.inc_by(to.saturating_sub(counter.get()));
        };
        raise(&self.syncs, stats.syncs());
        raise(&self.journal_bytes, stats.journal_bytes());
        raise(&self.published_bytes, stats.published_bytes());
    }
}

/// The metrics of the witnesses of one log. A metric exists from its first value on.
pub(crate) struct WitnessMetrics {
    pub(super) log: String,
    pub(super) responses: Family<WitnessResultLabels, Counter>,
    pub(super) cosigned: Family<WitnessLabels, Gauge>,
    pub(super) stored: Family<WitnessLabels, Gauge>,
    pub(super) quorum: Family<LogLabels, Gauge>,
}

impl WitnessMetrics {
    /// Counts a request to a witness.
    pub(crate) fn responded(&self, witness: &str, outcome: Outcome) {
        let (log, witness) = (self.log.clone(), witness.to_owned());
        let label = WitnessResultLabels {
            log,
            witness,
            result: outcome.label(),
        };
        self.responses.get_or_create(&label).inc();
    }

    /// Records the time of a published cosignature, in seconds since 1970.
    pub(crate) fn cosigned(&self, witness: &str, time: u64) {
        self.set(&self.cosigned, witness, time);
    }

    /// Records the number of entries that a mirror has.
    pub(crate) fn stored(&self, mirror: &str, entries: u64) {
        self.set(&self.stored, mirror, entries);
    }

    fn set(&self, gauges: &Family<WitnessLabels, Gauge>, witness: &str, value: u64) {
        let (log, witness) = (self.log.clone(), witness.to_owned());
        let gauge = gauges.get_or_create_owned(&WitnessLabels { log, witness });
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Removes the gauges of a witness and of the quorum.
    pub(crate) fn forget(&self, witness: &str) {
        let (log, witness) = (self.log.clone(), witness.to_owned());
        self.quorum.remove(&LogLabels { log: log.clone() });
        let labels = WitnessLabels { log, witness };
        self.cosigned.remove(&labels);
        self.stored.remove(&labels);
    }

    /// Records whether the quorum was met.
    pub(crate) fn decided(&self, met: bool) {
        let log = self.log.clone();
        let gauge = self.quorum.get_or_create_owned(&LogLabels { log });
        gauge.set(i64::from(met));
    }
}

/// The metrics of one lane of one log.
pub(crate) struct LaneMetrics {
    pub(crate) waiting: Gauge,
    pub(crate) refused: Counter,
    pub(crate) wait: Histogram,
}

/// The counters of reads, by the source of the data.
#[derive(Default)]
pub(crate) struct ReadCounters {
    /// The rightmost tiles, which every round keeps in memory.
    pub(crate) edge: Counter,
    /// The cache in memory.
    pub(crate) memory: Counter,
    /// The storage of the log.
    pub(crate) storage: Counter,
}
