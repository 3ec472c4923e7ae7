//! Prometheus metrics of all logs of a process, labelled by short name.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use self::labels::{
    FromLabels, LaneLabels, LogLabels, PhaseLabels, ResultLabels, WitnessLabels,
    WitnessResultLabels,
};
use crate::config::lane::Lane;

mod labels;
mod of_log;
mod removal;

pub(crate) use self::of_log::{LaneMetrics, LogMetrics, ReadCounters, WitnessMetrics};

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Buckets from 0.2 ms to 13 s, each twice the previous one.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0002, 2.0, 17))
}

/// Buckets from 1 to 32,768 entries.
fn entries() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 16))
}

lucarne_metrics::metrics! {
    /// The metric families, registered once per process.
    #[derive(Clone)]
    pub struct Metrics, prefix "lucarne" {
        submissions: Family<ResultLabels, Counter> = ("submissions", "Submissions by result");
        submission_seconds: Seconds<LogLabels> =
            ("submission", "Time from a decoded submission to its SCT", Unit::Seconds) with seconds;
        round_seconds: Seconds<PhaseLabels> = (
            "round",
            "Time of each phase of a round: prepare, stage, commit, publish, and their total",
            Unit::Seconds
        ) with seconds;
        round_entries: Seconds<LogLabels> = ("round_entries", "New entries per round") with entries;
        tree_size: Family<LogLabels, Gauge> = ("tree_size", "Entries in the published checkpoint");
        checkpoint_timestamp: Family<LogLabels, Gauge> =
            ("checkpoint_timestamp", "Unix time of the published checkpoint", Unit::Seconds);
        pool_entries: Family<LogLabels, Gauge> =
            ("pool_entries", "Entries waiting for the next round");

        lane_entries: Family<LaneLabels, Gauge> =
            ("lane_entries", "Entries waiting for a round, by lane: fresh, or old");
        lane_refused: Family<LaneLabels, Counter> =
            ("lane_refused", "Submissions refused because the lane was full or exceeded its rate");
        lane_wait: Seconds<LaneLabels> = (
            "lane_wait",
            "Time from adding an entry to its lane until its round is published",
            Unit::Seconds
        ) with seconds;

        dedup_indexed: Family<LogLabels, Gauge> =
            ("dedup_indexed_entries", "Entries in the dedup index");
        dedup_backlog: Family<LogLabels, Gauge> = (
            "dedup_backlog_entries",
            "Entries that the dedup index has not read from the tiles yet"
        );
        dedup_unknown: Family<LogLabels, Gauge> = (
            "dedup_unknown_entries",
            "Entries that the dedup index does not know because their tiles are damaged"
        );
        dedup_wrong: Family<LogLabels, Counter> = (
            "dedup_wrong_places",
            "Duplicates for which the dedup index named another entry: no SCT was signed"
        );

        up: Family<LogLabels, Gauge> = ("log_up", "1 while the log accepts submissions");
        leads: Family<LogLabels, Gauge> =
            ("log_leads", "1 while this process sequences the log: one of several instances does");
        restarts: Family<LogLabels, Counter> =
            ("log_failures", "Times the log was stopped by a fatal error");

        syncs: Family<LogLabels, Counter> =
            ("storage_syncs", "Operations that waited for stable storage");
        journal_bytes: Family<LogLabels, Counter> =
            ("storage_journal", "Bytes written to the journal", Unit::Bytes);
        published_bytes: Family<LogLabels, Counter> =
            ("storage_published", "Bytes written to public files", Unit::Bytes);
        headroom: Family<LogLabels, Gauge> =
            ("storage_headroom", "Free space, as of the last health check", Unit::Bytes);
        neglected: Family<LogLabels, Counter> = (
            "housekeeping_failures",
            "Failed removals of journal or superseded partial tiles, which are retried"
        );

        reads: Family<FromLabels, Counter> = (
            "reads",
            "Tiles and issuers that readers requested, by source: the right edge, memory, or \
             storage (with its cache on disk)"
        );
        read_cache: Family<LogLabels, Gauge> =
            ("read_cache", "Tiles and issuers kept in memory, as of the last round", Unit::Bytes);
        damaged_reads: Family<LogLabels, Counter> = (
            "damaged_reads",
            "Reads of tiles and issuers that found other bytes than the log wrote, or none"
        );
        damaged_files: Family<LogLabels, Gauge> = (
            "damaged_files",
            "Tiles and issuers that were damaged when they were last read; /health names them"
        );
        restored_files: Family<LogLabels, Counter> = (
            "restored_files",
            "Damaged files that the log restored from its own data; the damaged ones are kept"
        );

        witness_responses: Family<WitnessResultLabels, Counter> = (
            "witness_responses",
            "Requests for cosignatures by result: cosigned, outdated (after the next checkpoint), \
             or the reason of the failure"
        );
        cosigned_timestamp: Family<WitnessLabels, Gauge> = (
            "cosigned_timestamp",
            "Unix time of the newest published cosignature of the witness",
            Unit::Seconds
        );
        mirrored_entries: Family<WitnessLabels, Gauge> =
            ("mirrored_entries", "Entries that the mirror has, as of its last response");
        cosigned_quorum: Family<LogLabels, Gauge> = (
            "cosigned_quorum",
            "1 if the published cosignatures of the last checkpoint met the quorum of the policy"
        );

        scrub_read: Family<LogLabels, Counter> =
            ("scrub_read", "Bytes read by the scrubber, as stored", Unit::Bytes);
        scrub_entries: Family<LogLabels, Gauge> =
            ("scrub_entries", "Entries that the scrubber has checked in its pass");
        scrub_ended: Family<LogLabels, Gauge> = (
            "scrub_ended_timestamp",
            "Unix time when the last whole pass of the scrubber ended",
            Unit::Seconds
        );
        scrub_findings: Family<LogLabels, Counter> =
            ("scrub_findings", "Problems that the scrubber has found; /health names the files");
    }
}

impl Metrics {
    /// Registers the metric families in `registry`. Must be called once per process.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics::default();
        metrics.describe(registry);
        metrics
    }

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
            witnesses: WitnessMetrics {
                log: log.into(),
                responses: self.witness_responses.clone(),
                cosigned: self.cosigned_timestamp.clone(),
                stored: self.mirrored_entries.clone(),
                quorum: self.cosigned_quorum.clone(),
            },
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
    use crate::status::witness_status::Outcome;

    #[test]
    fn a_removed_log_leaves_no_metrics() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        for log in ["gone", "stays"] {
            metrics.of(log).up.set(1);
            metrics.reads_of(log).edge.inc();
            drop(metrics.damaged_of(log));
            let witnesses = metrics.of(log).witnesses;
            for outcome in Outcome::ALL {
                witnesses.responded("A", *outcome);
            }
            witnesses.cosigned("A", 1);
            witnesses.stored("A", 1);
            witnesses.decided(true);
        }
        metrics.forget("gone", ["A".to_owned()]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains(r#"log="gone""#), "{text}");
        assert!(text.contains(r#"lucarne_log_up{log="stays"} 1"#), "{text}");
    }
}
