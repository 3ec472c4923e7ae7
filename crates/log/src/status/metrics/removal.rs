//! Removal of the metrics of a log that this process no longer has.

use super::Metrics;
use super::labels::{
    FromLabels, LaneLabels, LogLabels, PhaseLabels, ResultLabels, WitnessLabels,
    WitnessResultLabels,
};
use crate::config::lane::Lane;
use crate::status::witness_status::Outcome;

impl Metrics {
    /// Removes the metrics of a log that this process no longer has, and of its witnesses.
    pub fn forget(&self, log: &str, witnesses: impl IntoIterator<Item = String>) {
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
            &self.cosigned_quorum,
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
        for witness in witnesses {
            self.forget_witness(log, &witness);
        }
    }

    fn forget_witness(&self, log: &str, witness: &str) {
        for outcome in Outcome::ALL {
            self.witness_responses.remove(&WitnessResultLabels {
                log: log.into(),
                witness: witness.into(),
                result: outcome.label(),
            });
        }
        let labels = WitnessLabels {
            log: log.into(),
            witness: witness.into(),
        };
        self.cosigned_timestamp.remove(&labels);
        self.mirrored_entries.remove(&labels);
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
}
