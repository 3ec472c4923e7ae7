//! Prometheus metrics of all logs of a process, labelled by short name.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::labels::{FromLabels, LaneLabels, LogLabels, PhaseLabels, ResultLabels};
use crate::config::lane::Lane;

mod labels;
mod names;
mod of_log;
mod removal;

pub(crate) use self::of_log::{LaneMetrics, LogMetrics, ReadCounters};

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Buckets from 0.2 ms to 13 s, each twice the previous one.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0002, 2.0, 17))
}

/// Buckets from 1 to 32,768 entries.
fn entries() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 16))
}

/// The metric families, registered once per process.
#[derive(Clone)]
pub struct Metrics {
    submissions: Family<ResultLabels, Counter>,
    submission_seconds: Seconds<LogLabels>,
    round_seconds: Seconds<PhaseLabels>,
    round_entries: Seconds<LogLabels>,
    tree_size: Family<LogLabels, Gauge>,
    checkpoint_timestamp: Family<LogLabels, Gauge>,
    pool_entries: Family<LogLabels, Gauge>,
    lane_entries: Family<LaneLabels, Gauge>,
    lane_refused: Family<LaneLabels, Counter>,
    lane_wait: Seconds<LaneLabels>,
    dedup_indexed: Family<LogLabels, Gauge>,
    dedup_backlog: Family<LogLabels, Gauge>,
    dedup_unknown: Family<LogLabels, Gauge>,
    dedup_wrong: Family<LogLabels, Counter>,
    up: Family<LogLabels, Gauge>,
    leads: Family<LogLabels, Gauge>,
    restarts: Family<LogLabels, Counter>,
    syncs: Family<LogLabels, Counter>,
    journal_bytes: Family<LogLabels, Counter>,
    published_bytes: Family<LogLabels, Counter>,
    headroom: Family<LogLabels, Gauge>,
    neglected: Family<LogLabels, Counter>,
    reads: Family<FromLabels, Counter>,
    read_cache: Family<LogLabels, Gauge>,
    damaged_reads: Family<LogLabels, Counter>,
    damaged_files: Family<LogLabels, Gauge>,
    restored_files: Family<LogLabels, Counter>,
    scrub_read: Family<LogLabels, Counter>,
    scrub_entries: Family<LogLabels, Gauge>,
    scrub_ended: Family<LogLabels, Gauge>,
    scrub_findings: Family<LogLabels, Counter>,
}

impl Metrics {
    /// Registers the families under the prefix `lucarne`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            submissions: Family::default(),
            submission_seconds: Family::new_with_constructor(seconds),
            round_seconds: Family::new_with_constructor(seconds),
            round_entries: Family::new_with_constructor(entries),
            tree_size: Family::default(),
            checkpoint_timestamp: Family::default(),
            pool_entries: Family::default(),
            lane_entries: Family::default(),
            lane_refused: Family::default(),
            lane_wait: Family::new_with_constructor(seconds),
            dedup_indexed: Family::default(),
            dedup_backlog: Family::default(),
            dedup_unknown: Family::default(),
            dedup_wrong: Family::default(),
            up: Family::default(),
            leads: Family::default(),
            restarts: Family::default(),
            syncs: Family::default(),
            journal_bytes: Family::default(),
            published_bytes: Family::default(),
            headroom: Family::default(),
            neglected: Family::default(),
            reads: Family::default(),
            read_cache: Family::default(),
            damaged_reads: Family::default(),
            damaged_files: Family::default(),
            restored_files: Family::default(),
            scrub_read: Family::default(),
            scrub_entries: Family::default(),
            scrub_ended: Family::default(),
            scrub_findings: Family::default(),
        };
        metrics.describe(registry);
        metrics
    }

    /// Returns the counters of the reads of one log.
    pub(crate) fn reads_of(&self, log: &str) -> ReadCounters {
        let from = |from| {
            self.reads.get_or_create_owned(&FromLabels {
                log: log.into(),
                from,
            })
        };
        ReadCounters {
            edge: from("edge"),
            memory: from("memory"),
            storage: from("storage"),
        }
    }

    /// Returns the counters of damage to the files of one log.
    pub(crate) fn damaged_of(&self, log: &str) -> (Counter, Gauge) {
        let label = LogLabels { log: log.into() };
        (
            self.damaged_reads.get_or_create_owned(&label),
            self.damaged_files.get_or_create_owned(&label),
        )
    }

    fn lane_of(&self, log: &str, lane: Lane) -> LaneMetrics {
        let label = LaneLabels {
            log: log.into(),
            lane: lane.name(),
        };
        LaneMetrics {
            waiting: self.lane_entries.get_or_create_owned(&label),
            refused: self.lane_refused.get_or_create_owned(&label),
            wait: self.lane_wait.get_or_create_owned(&label),
        }
    }

    fn submissions_of(&self, log: &str, result: &'static str) -> Counter {
        self.submissions.get_or_create_owned(&ResultLabels {
            log: log.into(),
            result,
        })
    }

    fn round_seconds_of(&self, log: &str, phase: &'static str) -> Histogram {
        self.round_seconds.get_or_create_owned(&PhaseLabels {
            log: log.into(),
            phase,
        })
    }

    /// Returns the metrics of one log, to look them up only once.
    pub(crate) fn of(&self, log: &str) -> LogMetrics {
        let label = LogLabels { log: log.into() };
        let result = |result| self.submissions_of(log, result);
        let phase = |phase| self.round_seconds_of(log, phase);
        LogMetrics {
            accepted: result("accepted"),
            duplicate: result("duplicate"),
            rejected: result("rejected"),
            full: result("full"),
            unavailable: result("unavailable"),
            submission_seconds: self.submission_seconds.get_or_create_owned(&label),
            prepare: phase("prepare"),
            stage: phase("stage"),
            commit: phase("commit"),
            publish: phase("publish"),
            total: phase("total"),
            round_entries: self.round_entries.get_or_create_owned(&label),
            tree_size: self.tree_size.get_or_create_owned(&label),
            checkpoint_timestamp: self.checkpoint_timestamp.get_or_create_owned(&label),
            pool_entries: self.pool_entries.get_or_create_owned(&label),
            fresh: self.lane_of(log, Lane::Fresh),
            old: self.lane_of(log, Lane::Old),
            dedup_indexed: self.dedup_indexed.get_or_create_owned(&label),
            dedup_backlog: self.dedup_backlog.get_or_create_owned(&label),
            dedup_unknown: self.dedup_unknown.get_or_create_owned(&label),
            dedup_wrong: self.dedup_wrong.get_or_create_owned(&label),
            up: self.up.get_or_create_owned(&label),
            leads: self.leads.get_or_create_owned(&label),
            failures: self.restarts.get_or_create_owned(&label),
            syncs: self.syncs.get_or_create_owned(&label),
            journal_bytes: self.journal_bytes.get_or_create_owned(&label),
            published_bytes: self.published_bytes.get_or_create_owned(&label),
            headroom: self.headroom.get_or_create_owned(&label),
            neglected: self.neglected.get_or_create_owned(&label),
            read_cache: self.read_cache.get_or_create_owned(&label),
            scrub_read: self.scrub_read.get_or_create_owned(&label),
            scrub_entries: self.scrub_entries.get_or_create_owned(&label),
            restored_files: self.restored_files.get_or_create_owned(&label),
            scrub_ended: self.scrub_ended.get_or_create_owned(&label),
            scrub_findings: self.scrub_findings.get_or_create_owned(&label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_log_leaves_no_metrics() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        for log in ["gone", "stays"] {
            metrics.of(log).up.set(1);
            metrics.reads_of(log).edge.inc();
            drop(metrics.damaged_of(log));
        }
        metrics.forget("gone");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains(r#"log="gone""#), "{text}");
        assert!(text.contains(r#"lucarne_log_up{log="stays"} 1"#), "{text}");
    }
}
