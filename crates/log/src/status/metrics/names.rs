//! Names, units and help texts of the metric families.

use prometheus_client::registry::{Registry, Unit};

use super::Metrics;

impl Metrics {
    /// Registers all families, in the order of the exposition.
    pub(super) fn describe(&self, registry: &mut Registry) {
        let r = registry.sub_registry_with_prefix("lucarne");
        self.describe_rounds(r);
        self.describe_lanes(r);
        self.describe_index(r);
        self.describe_state(r);
        self.describe_storage(r);
        self.describe_files(r);
        self.describe_scrubber(r);
    }

    fn describe_rounds(&self, r: &mut Registry) {
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

    fn describe_index(&self, r: &mut Registry) {
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
    }

    fn describe_state(&self, r: &mut Registry) {
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
    }

    fn describe_storage(&self, r: &mut Registry) {
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
    }

    fn describe_files(&self, r: &mut Registry) {
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
}
