//! Monitoring of one log during the load, and its audit at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lucarne_ct::CheckpointVerifier;
use lucarne_ctread::{Source, VerifiedTree};
use lucarne_load::{Failure, Iteration, Note, PrepareError, Recorder, Stop};
use lucarne_mint::now_ms;
use lucarne_tlog::Hash;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::checks::{self, CheckSink, Finding, TaggedRecorder};
use super::fetch::{self, FetchError};
use super::http_fetcher::HttpFetcher;
use super::monitor::{Inconsistency, Monitor};
use super::options::{AuditLevel, LogOptions};
use super::outage::Outage;
use super::pending_scts::{PendingScts, SctCounts};
use super::target::{Target, faulty};
use super::tree_heads::{TreeHead, TreeHeads};
use super::{ExtraData, Submission};
use crate::connection_options::wrong;

/// A monitored log.
pub(crate) struct MonitoredLog {
    pub(crate) target: Target,
    pub(crate) tree_heads: Mutex<TreeHeads>,
    pub(crate) tree: Arc<VerifiedTree>,
    pub(crate) outage: Arc<Outage>,
    pub(crate) pending_scts: Mutex<PendingScts>,
    audit: AuditLevel,
    mmd: Duration,
    interval: Duration,
    clock_tolerance: Duration,
    monitor: tokio::sync::Mutex<Option<Monitor>>,
    /// Number of absences that have been excused.
    excused: Mutex<usize>,
    /// Whether a poll was cancelled, so that its unfinished checks are lost.
    cut_off: AtomicBool,
}

/// The reasons why the audit at the end did not prove all promises.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("the log is still unavailable")]
    Down,
    #[error("the log did not respond in time: the audit was cut off")]
    CutOff,
    #[error(
        "of {} promised entries {open} are in no checkpoint, {} are not at their promised \
         index, {} were not tracked{}",
        counts.issued,
        counts.misplaced,
        counts.untracked,
        first.map_or_else(String::new, |index| format!("; the first entry in no checkpoint is {index}"))
    )]
    Incomplete {
        counts: SctCounts,
        open: usize,
        /// Index of the first entry in no checkpoint.
        first: Option<u64>,
    },
}

/// Time to wait for promises at the end of a run, beyond the merge delay.
const PROMISE_GRACE: Duration = Duration::from_secs(2);
/// Time without a response after which the last poll is cancelled.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to wait at the end of a run for the return of a log that may be restarted.
const RETURN: Duration = Duration::from_secs(30);
/// Longest merge delay that the monitor waits for.
const LONGEST_MMD: Duration = Duration::from_secs(3600);
/// Time that a poll may take after the end of polling, if the log responds.
const LAST_LOOK: Duration = Duration::from_secs(30);

/// Returns the longest time after the load for a merge delay of `mmd`: the current poll, the
/// probes, the wait for promises, and the last poll.
pub(super) fn grace(mmd: Duration) -> Duration {
    mmd.min(LONGEST_MMD) + Duration::from_secs(120)
}

/// Logs of a scenario, each with the state that the scenario keeps for the log. Opened once for all
/// users.
pub(super) struct OpenedLogs<L>(OnceCell<Vec<L>>);

impl<L> Default for OpenedLogs<L> {
    fn default() -> Self {
        OpenedLogs(OnceCell::new())
    }
}

impl<L: AsRef<MonitoredLog>> OpenedLogs<L> {
    /// Opens the logs on the first call.
    pub(super) async fn open(
        &self,
        open: impl Future<Output = Result<Vec<L>, PrepareError>>,
    ) -> Result<(), PrepareError> {
        self.0.get_or_try_init(|| open).await.map(drop)
    }

    /// Returns all logs; an empty slice before [`open`](Self::open).
    pub(super) fn all(&self) -> &[L] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the log of an iteration, and the session of the user with this log. Fails the
    /// iteration before [`open`](Self::open).
    pub(super) fn of_iteration<'l, S>(
        &'l self,
        sessions: &'l mut [S],
        iteration: &mut Iteration,
    ) -> Option<(&'l L, &'l mut S)> {
        let number = (iteration.number() % self.all().len().max(1) as u64) as usize;
        let opened = self.all().get(number).zip(sessions.get_mut(number));
        if opened.is_none() {
            let failure = Failure::new("not_prepared", "the scenario was not prepared");
            iteration.fail(failure);
        }
        opened
    }

    /// Returns the monitored part of each log.
    pub(super) fn monitored(&self) -> impl Iterator<Item = &MonitoredLog> {
        self.all().iter().map(AsRef::as_ref)
    }
}

/// Polls all these logs until `stop`.
pub(super) async fn follow<'l>(
    logs: impl Iterator<Item = &'l MonitoredLog>,
    recorder: Recorder,
    stop: Stop,
) {
    join_all(logs.map(|log| log.follow(recorder.clone(), stop.clone()))).await;
}

/// Audits all these logs. Returns a note for each log.
pub(super) async fn audit<'l>(
    logs: impl Iterator<Item = &'l MonitoredLog>,
    recorder: Recorder,
) -> Vec<Note> {
    join_all(logs.map(|log| log.audit(&recorder))).await
}

impl MonitoredLog {
    /// Starts monitoring, with the level of the audit and the maximum merge delay. The current tree
    /// is the first verified tree.
    pub(crate) async fn begin(
        target: Target,
        options: &LogOptions,
        audit: AuditLevel,
        mmd: Duration,
    ) -> Result<Self, PrepareError> {
        let verifier = CheckpointVerifier::new(&target.origin, &target.spki)
            .map_err(|error| wrong(format!("the key of {}: {error}", target.url)))?;
        let tree_heads = TreeHeads::new(
            verifier,
            options.max_checkpoint_age.0,
            options.clock_tolerance.0,
        );
        let monitored = Self {
            tree_heads: Mutex::new(tree_heads),
            tree: Arc::default(),
            outage: Arc::new(Outage::new(options.expect_restarts)),
            pending_scts: Mutex::default(),
            audit,
            mmd,
            interval: options.poll_interval.0,
            clock_tolerance: options.clock_tolerance.0,
            monitor: tokio::sync::Mutex::new(None),
            excused: Mutex::new(0),
            cut_off: AtomicBool::new(false),
            target,
        };
        if audit != AuditLevel::None {
            monitored.start().await?;
        }
        Ok(monitored)
    }

    fn fetcher(&self) -> HttpFetcher {
        let (endpoint, client) = (&self.target.monitoring, &self.target.client);
        HttpFetcher::new(endpoint, client, Arc::clone(&self.outage))
    }

    async fn start(&self) -> Result<(), PrepareError> {
        let url = &self.target.url;
        let fail = |error: FetchError| match error {
            FetchError::Unreachable(reason) => {
                PrepareError::Unreachable(format!("{url}: {reason}"))
            }
            FetchError::Faulty(finding) => faulty(url, finding),
        };
        let fetcher = self.fetcher().preparing(self.target.retries);
        let found = checks::Findings::default();
        let head = self.look(&fetcher, &found).await.map_err(fail)?;
        let head = head.ok_or_else(|| match found.take().into_iter().next() {
            Some(finding) => faulty(url, finding),
            None => wrong(format!("{url}: there is no checkpoint")),
        })?;
        let entries = self.audit == AuditLevel::Full;
        let monitor = Monitor::start(Arc::clone(&self.tree), &fetcher, &head, entries);
        *self.monitor.lock().await = Some(monitor.await.map_err(fail)?);
        self.tree_heads.lock().mark_checked(head.size);
        Ok(())
    }

    /// Reads the checkpoint.
    async fn look(
        &self,
        source: &dyn Source,
        sink: &dyn CheckSink,
    ) -> Result<Option<TreeHead>, FetchError> {
        let prior = self.tree_heads.lock().prior();
        let note = fetch::get(source, "checkpoint").await?;
        sink.passed(checks::CHECKPOINT_SERVED);
        Ok(self.tree_heads.lock().observe(&note, prior, now_ms(), sink))
    }

    /// Polls the log until `stop`.
    pub(crate) async fn follow(&self, recorder: Recorder, stop: Stop) {
        if self.audit == AuditLevel::None {
            return stop.cancelled().await;
        }
        let tagged = self.tagged(&recorder);
        let fetcher = self.fetcher().telling(tagged.clone());
        while !stop.is_cancelled() {
            tokio::select! {
                () = self.tick(&fetcher, false, &tagged) => (),
                () = self.too_late(stop.cancelled()) => break,
            }
            self.gauges(&tagged);
            tokio::select! {
                () = stop.cancelled() => break,
                // Interval between polls: `--checkpoint-interval`.
                () = tokio::time::sleep(self.interval) => (),
            }
        }
    }

    /// Completes when a poll has taken too long beyond `end`, and earlier if the log has stopped
    /// responding. The caller must then cancel that poll.
    async fn too_late(&self, end: impl Future<Output = ()>) {
        end.await;
        let last = Instant::now() + LAST_LOOK;
        let mut silent = None;
        while Instant::now() < last {
            if self.outage.is_down() && !self.outage.expected() {
                if silent.get_or_insert_with(Instant::now).elapsed() > SILENCE_TIMEOUT {
                    break;
                }
            } else {
                silent = None;
            }
            // Polls, because there is no notification of the log's state.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.cut_off.store(true, Ordering::Relaxed);
    }

    pub(crate) fn tagged(&self, recorder: &Recorder) -> TaggedRecorder {
        TaggedRecorder {
            tags: recorder.tags(&[("log", &self.target.origin)]),
            recorder: recorder.clone(),
        }
    }

    fn gauges(&self, tagged: &TaggedRecorder) {
        let size = self.tree.edge().size() as f64;
        let open = self.pending_scts.lock().open() as f64;
        tagged.recorder.gauge(tagged.tags, "ct_tree_size", size);
        tagged.recorder.gauge(tagged.tags, "ct_promises_open", open);
    }

    /// Polls once: checkpoint, tree, promises, entries.
    async fn tick(&self, source: &dyn Source, all: bool, sink: &dyn CheckSink) {
        let asked = Instant::now();
        match self.advance(source, all, asked, sink).await {
            Ok(()) => (),
            Err(FetchError::Faulty(finding)) => sink.failed(finding),
            Err(FetchError::Unreachable(reason)) if !self.outage.expected() => {
                sink.failed(Finding::new(checks::CHECKPOINT_SERVED, reason));
            }
            // No promise is late while the log is known to be unavailable.
            Err(FetchError::Unreachable(_)) => return,
        }
        for sct in self.pending_scts.lock().overdue(asked) {
            let detail = format!(
                "entry {} was promised at {} and is in no checkpoint {:.1} s later",
                sct.index,
                sct.timestamp,
                self.mmd.as_secs_f64()
            );
            sink.failed(Finding::new(checks::INCLUSION_IN_TIME, detail));
        }
        if let Some(monitor) = self.monitor.lock().await.as_mut() {
            let read = monitor.read_entries(source, &self.pending_scts, all, sink);
            match read.await {
                Err(FetchError::Faulty(finding)) => sink.failed(finding),
                // The next poll retries; an absence is reported for the checkpoint.
                Err(FetchError::Unreachable(_)) | Ok(()) => (),
            }
        }
    }

    async fn advance(
        &self,
        source: &dyn Source,
        again: bool,
        asked: Instant,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let Some(head) = self.look(source, sink).await? else {
            return Ok(());
        };
        self.excuse();
        let mut monitor = self.monitor.lock().await;
        let Some(monitor) = monitor.as_mut() else {
            return Ok(());
        };
        if again {
            monitor.reconsider();
        }
        let unproven = self.tree_heads.lock().unproven(head.size);
        let verified = monitor.size();
        let (before, between): (Vec<_>, Vec<_>) = unproven
            .into_iter()
            .partition(|(size, _)| *size <= verified);
        for (size, root) in before {
            let computed = self.tree.root_at(source, size).await?;
            self.tree_heads.lock().mark_checked(size);
            sink.check(checks::CHECKPOINT_CONSISTENT, same(size, root, computed));
        }
        monitor.advance(source, &head, &between, sink).await?;
        for (size, _) in between {
            self.tree_heads.lock().mark_checked(size);
        }
        let settled = monitor.verify_inclusion(source, &self.pending_scts, asked, sink);
        settled.await
    }

    /// Restarts the merge delay of all promises after an absence.
    fn excuse(&self) {
        if !self.outage.expected() {
            return;
        }
        let over = self.outage.over().len();
        let mut excused = self.excused.lock();
        if *excused < over {
            *excused = over;
            self.pending_scts.lock().extend(Instant::now() + self.mmd);
        }
    }

    /// Returns the deadline for the entry of an SCT that the log issues now.
    pub(crate) fn due(&self) -> Instant {
        Instant::now() + self.mmd
    }

    /// Returns the allowed difference between the clocks.
    pub(crate) fn clock_tolerance(&self) -> Duration {
        self.clock_tolerance
    }

    /// Returns the extra data that the log must store for a submission, if entries are checked.
    pub(crate) fn expects(&self, submission: &Submission) -> Option<ExtraData> {
        (self.audit == AuditLevel::Full).then(|| submission.extra_data())
    }

    /// Returns whether promises are checked.
    pub(crate) fn audits(&self) -> bool {
        self.audit != AuditLevel::None
    }

    /// Finishes: waits for open promises, checks the remaining entries, and returns the results.
    pub(crate) async fn audit(&self, recorder: &Recorder) -> Note {
        let tagged = self.tagged(recorder);
        if self.audit == AuditLevel::None {
            tagged.check(checks::AUDIT_COMPLETE, self.back());
            self.tell_absences(&tagged);
            return self.note(&[]);
        }
        let fetcher = self.fetcher().telling(tagged.clone());
        let end = Instant::now() + self.patience();
        loop {
            tokio::select! {
                () = self.tick(&fetcher, true, &tagged) => (),
                () = self.too_late(tokio::time::sleep_until(end.into())) => break,
            }
            let settled = self.pending_scts.lock().open() == 0 && !self.outage.is_down();
            if settled || Instant::now() > end {
                break;
            }
            // Only the log can extend the tree: poll again after at most 200 ms.
            tokio::time::sleep(self.interval.min(Duration::from_millis(200))).await;
        }
        self.gauges(&tagged);
        tagged.check(checks::AUDIT_COMPLETE, self.back().and(self.complete()));
        self.tell_absences(&tagged);
        let seen = self
            .monitor
            .lock()
            .await
            .as_ref()
            .map(|monitor| monitor.seen);
        let lines = seen.map(|seen| {
            format!(
                "tree {} → {}, {} checkpoints, {} data tiles with {} entries, {} issuers",
                seen.first,
                seen.first + seen.leaves,
                self.tree_heads.lock().seen,
                seen.data_tiles,
                seen.entries,
                seen.issuers
            )
        });
        self.note(lines.as_slice())
    }

    /// Returns the wait for open promises and for the return of the log.
    fn patience(&self) -> Duration {
        let promised = match self.pending_scts.lock().open() {
            0 => Duration::ZERO,
            _ => self.mmd.min(LONGEST_MMD),
        };
        let down = if self.outage.is_down() && self.outage.expected() {
            RETURN
        } else {
            Duration::ZERO
        };
        promised + down + PROMISE_GRACE
    }

    /// Records the absences of a log that may be restarted. Any client of the log may have noticed
    /// the end of an absence.
    fn tell_absences(&self, tagged: &TaggedRecorder) {
        if self.outage.expected() {
            for away in self.outage.over() {
                tagged.recorder.trend(tagged.tags, "ct_outage", away);
            }
        }
    }

    /// Returns an error if the log is unavailable at the end.
    fn back(&self) -> Result<(), AuditError> {
        if self.outage.is_down() {
            Err(AuditError::Down)
        } else {
            Ok(())
        }
    }

    fn complete(&self) -> Result<(), AuditError> {
        if self.cut_off.load(Ordering::Relaxed) {
            return Err(AuditError::CutOff);
        }
        let pending_scts = self.pending_scts.lock();
        let counts = pending_scts.counts;
        let open = pending_scts.open();
        if open == 0 && counts.misplaced == 0 && counts.untracked == 0 {
            return Ok(());
        }
        Err(AuditError::Incomplete {
            counts,
            open,
            first: pending_scts.iter().next().map(|sct| sct.index),
        })
    }

    fn note(&self, lines: &[String]) -> Note {
        let pending_scts = self.pending_scts.lock();
        let counts = pending_scts.counts;
        let mut all = Vec::new();
        if counts.issued > 0 {
            all.push(format!(
                "{} entries promised: {} proven, {} late, {} missing",
                counts.issued,
                counts.included,
                counts.late,
                counts.misplaced + pending_scts.open() as u64
            ));
        }
        all.extend_from_slice(lines);
        let over = self.outage.over();
        if self.outage.expected() {
            let longest = over.iter().max().copied().unwrap_or_default();
            let total: Duration = over.iter().sum();
            all.push(format!(
                "unavailable {} times, {:.1} s in total, {:.1} s at the longest{}; \
                 {} requests without a response",
                over.len(),
                total.as_secs_f64(),
                longest.as_secs_f64(),
                if self.outage.is_down() {
                    ", and unavailable now"
                } else {
                    ""
                },
                self.outage.errors()
            ));
        }
        Note {
            title: format!("log {}", self.target.origin),
            lines: all,
        }
    }
}

fn same(size: u64, root: Hash, computed: Hash) -> Result<(), Inconsistency> {
    if root == computed {
        Ok(())
    } else {
        Err(Inconsistency::Earlier {
            size,
            root,
            computed,
        })
    }
}
