//! Prometheus metrics of all logs of a process, labelled by short name.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::check::damaged_files::DamagedFiles;
use crate::submit::lane::Lane;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LogLabels {
    log: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    log: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FromLabels {
    log: String,
    from: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    log: String,
    lane: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    log: String,
    phase: &'static str,
}

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
        metrics.describe(registry.sub_registry_with_prefix("lucarne"));
        metrics
    }

    fn describe(&self, r: &mut Registry) {
        r.register(
            "submissions",
            "Submissions by result",
            self.submissions.clone(),
        );
        r.register_with_unit(
            "submission",
            "Time from a decoded submission to its SCT",
            Unit::Seconds,
            self.submission_seconds.clone(),
        );
        r.register_with_unit(
            "round",
            "Time of each phase of a round: prepare, stage, commit, publish, and their total",
            Unit::Seconds,
            self.round_seconds.clone(),
        );
        r.register(
            "round_entries",
            "New entries per round",
            self.round_entries.clone(),
        );
        r.register(
            "tree_size",
            "Entries in the published checkpoint",
            self.tree_size.clone(),
        );
        r.register_with_unit(
            "checkpoint_timestamp",
            "Unix time of the published checkpoint",
            Unit::Seconds,
            self.checkpoint_timestamp.clone(),
        );
        r.register(
            "pool_entries",
            "Entries waiting for the next round",
            self.pool_entries.clone(),
        );
        self.describe_lanes(r);
        r.register(
            "dedup_indexed_entries",
            "Entries in the dedup index",
            self.dedup_indexed.clone(),
        );
        r.register(
            "dedup_backlog_entries",
            "Entries that the dedup index has not read from the tiles yet",
            self.dedup_backlog.clone(),
        );
        r.register(
            "dedup_unknown_entries",
            "Entries that the dedup index does not know because their tiles are damaged",
            self.dedup_unknown.clone(),
        );
        r.register(
            "dedup_wrong_places",
            "Duplicates for which the dedup index named another entry: no SCT was signed",
            self.dedup_wrong.clone(),
        );
        r.register(
            "log_up",
            "1 while the log accepts submissions",
            self.up.clone(),
        );
        r.register(
            "log_leads",
            "1 while this process sequences the log: one of several instances does",
            self.leads.clone(),
        );
        r.register(
            "log_failures",
            "Times the log was stopped by a fatal error",
            self.restarts.clone(),
        );
        r.register(
            "storage_syncs",
            "Operations that waited for stable storage",
            self.syncs.clone(),
        );
        r.register_with_unit(
            "storage_journal",
            "Bytes written to the journal",
            Unit::Bytes,
            self.journal_bytes.clone(),
        );
        r.register_with_unit(
            "storage_published",
            "Bytes written to public files",
            Unit::Bytes,
            self.published_bytes.clone(),
        );
        r.register_with_unit(
            "storage_headroom",
            "Free space, as of the last health check",
            Unit::Bytes,
            self.headroom.clone(),
        );
        r.register(
            "housekeeping_failures",
            "Failed removals of journal or superseded partial tiles, which are retried",
            self.neglected.clone(),
        );
        r.register(
            "reads",
            "Tiles and issuers that readers requested, by source: the right edge, memory, or \
             storage (with its cache on disk)",
            self.reads.clone(),
        );
        r.register_with_unit(
            "read_cache",
            "Tiles and issuers kept in memory, as of the last round",
            Unit::Bytes,
            self.read_cache.clone(),
        );
        r.register(
            "damaged_reads",
            "Reads of tiles and issuers that found other bytes than the log wrote, or none",
            self.damaged_reads.clone(),
        );
        r.register(
            "damaged_files",
            "Tiles and issuers that were damaged when they were last read; /health names them",
            self.damaged_files.clone(),
        );
        r.register(
            "restored_files",
            "Damaged files that the log restored from its own data; the damaged ones are kept",
            self.restored_files.clone(),
        );
        self.describe_scrubber(r);
    }

    fn describe_lanes(&self, r: &mut Registry) {
        r.register(
            "lane_entries",
            "Entries waiting for a round, by lane: fresh, or old",
            self.lane_entries.clone(),
        );
        r.register(
            "lane_refused",
            "Submissions refused because the lane was full or exceeded its rate",
            self.lane_refused.clone(),
        );
        r.register_with_unit(
            "lane_wait",
            "Time from adding an entry to its lane until its round is published",
            Unit::Seconds,
            self.lane_wait.clone(),
        );
    }

    fn describe_scrubber(&self, r: &mut Registry) {
        r.register_with_unit(
            "scrub_read",
            "Bytes read by the scrubber, as stored",
            Unit::Bytes,
            self.scrub_read.clone(),
        );
        r.register(
            "scrub_entries",
            "Entries that the scrubber has checked in its pass",
            self.scrub_entries.clone(),
        );
        r.register_with_unit(
            "scrub_ended_timestamp",
            "Unix time when the last whole pass of the scrubber ended",
            Unit::Seconds,
            self.scrub_ended.clone(),
        );
        r.register(
            "scrub_findings",
            "Problems that the scrubber has found; /health names the files",
            self.scrub_findings.clone(),
        );
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
    pub(crate) fn damaged_of(&self, log: &str) -> DamagedFiles {
        let label = LogLabels { log: log.into() };
        DamagedFiles::new(
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

    /// Removes the metrics of a log that this process no longer has.
    pub fn forget(&self, log: &str) {
        let label = LogLabels { log: log.into() };
        for gauge in [
            &self.tree_size,
            &self.checkpoint_timestamp,
            &self.pool_entries,
            &self.dedup_indexed,
            &self.dedup_backlog,
            &self.dedup_unknown,
            &self.up,
            &self.leads,
            &self.headroom,
            &self.read_cache,
            &self.damaged_files,
            &self.scrub_entries,
            &self.scrub_ended,
        ] {
            gauge.remove(&label);
        }
        for counter in [
            &self.dedup_wrong,
            &self.restarts,
            &self.syncs,
            &self.journal_bytes,
            &self.published_bytes,
            &self.neglected,
            &self.damaged_reads,
            &self.restored_files,
            &self.scrub_read,
            &self.scrub_findings,
        ] {
            counter.remove(&label);
        }
        self.submission_seconds.remove(&label);
        self.round_entries.remove(&label);
        self.forget_parts(log);
    }

    /// Removes the metrics of a log that have a second label.
    fn forget_parts(&self, log: &str) {
        for result in ["accepted", "duplicate", "rejected", "full", "unavailable"] {
            self.submissions.remove(&ResultLabels {
                log: log.into(),
                result,
            });
        }
        for phase in ["prepare", "stage", "commit", "publish", "total"] {
            self.round_seconds.remove(&PhaseLabels {
                log: log.into(),
                phase,
            });
        }
        for from in ["edge", "memory", "storage"] {
            self.reads.remove(&FromLabels {
                log: log.into(),
                from,
            });
        }
        for lane in [Lane::Fresh, Lane::Old] {
            let label = LaneLabels {
                log: log.into(),
                lane: lane.name(),
            };
            self.lane_entries.remove(&label);
            self.lane_refused.remove(&label);
            self.lane_wait.remove(&label);
        }
    }

    /// Returns the metrics of one log, to look them up only once.
    pub(crate) fn of(&self, log: &str) -> LogMetrics {
        let label = LogLabels { log: log.into() };
        let result = |result| {
            self.submissions.get_or_create_owned(&ResultLabels {
                log: log.into(),
                result,
            })
        };
        let phase = |phase| {
            self.round_seconds.get_or_create_owned(&PhaseLabels {
                log: log.into(),
                phase,
            })
        };
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

/// The metrics of one log.
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
    fresh: LaneMetrics,
    old: LaneMetrics,
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
    pub(crate) scrub_read: Counter,
    pub(crate) scrub_entries: Gauge,
    pub(crate) restored_files: Counter,
    pub(crate) scrub_ended: Gauge,
    pub(crate) scrub_findings: Counter,
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

impl LogMetrics {
    /// Returns the metrics of one lane.
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
