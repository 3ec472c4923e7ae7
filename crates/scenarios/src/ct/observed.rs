//! One log under observation: what is looked at beside the load, and at its end.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use lucarne_ct::CheckpointVerifier;
use lucarne_load::{Note, PrepareError, Recorder, Stop};
use parking_lot::Mutex;

use super::checks::{self, Finding, Recorded, Verdicts};
use super::fetch::{Fetch, Trouble};
use super::follower::{Follower, root_at};
use super::heads::{Head, Heads};
use super::options::Audit;
use super::outage::Outage;
use super::promises::Promises;
use super::remote::Remote;
use super::spine::Spine;
use super::target::{LogOptions, Target, configuration, faulty};
use super::{Submission, Submitted};

/// See the module.
pub(crate) struct Observed {
    pub(crate) target: Target,
    pub(crate) heads: Mutex<Heads>,
    pub(crate) spine: Arc<Spine>,
    pub(crate) outage: Arc<Outage>,
    pub(crate) promises: Mutex<Promises>,
    audit: Audit,
    mmd: Duration,
    interval: Duration,
    clock_tolerance: Duration,
    follower: tokio::sync::Mutex<Option<Follower>>,
    /// How many absences have been allowed for.
    excused: Mutex<usize>,
}

/// How long the end of a run waits for promises beyond the merge delay.
const PATIENCE: Duration = Duration::from_secs(2);

/// Follows all of these logs until `stop`.
pub(super) async fn follow<'l>(
    logs: impl Iterator<Item = &'l Observed>,
    recorder: Recorder,
    stop: Stop,
) {
    join_all(logs.map(|log| log.follow(recorder.clone(), stop.clone()))).await;
}

/// Audits all of these logs: a note for each.
pub(super) async fn audit<'l>(
    logs: impl Iterator<Item = &'l Observed>,
    recorder: Recorder,
) -> Vec<Note> {
    join_all(logs.map(|log| log.audit(&recorder))).await
}

impl Observed {
    /// Begins to observe: the tree that is there now is the first verified one.
    pub(crate) async fn begin(target: Target, options: &LogOptions) -> Result<Self, PrepareError> {
        let verifier = CheckpointVerifier::new(&target.origin, &target.spki)
            .map_err(|error| configuration(format!("the key of {}: {error}", target.url)))?;
        let heads = Heads::new(
            verifier,
            options.max_checkpoint_age,
            options.clock_tolerance,
        );
        let observed = Self {
            heads: Mutex::new(heads),
            spine: Arc::default(),
            outage: Arc::new(Outage::new(options.expect_restarts)),
            promises: Mutex::default(),
            audit: options.audit,
            mmd: options.mmd,
            interval: options.checkpoint_interval,
            clock_tolerance: options.clock_tolerance,
            follower: tokio::sync::Mutex::new(None),
            excused: Mutex::new(0),
            target,
        };
        if options.audit != Audit::None {
            observed.start().await?;
        }
        Ok(observed)
    }

    fn remote(&self) -> Remote {
        let (endpoint, client) = (&self.target.monitoring, &self.target.client);
        Remote::new(endpoint, client, Arc::clone(&self.outage))
    }

    async fn start(&self) -> Result<(), PrepareError> {
        let url = &self.target.url;
        let fail = |trouble: Trouble| match trouble {
            Trouble::Unreachable(reason) => PrepareError::Unreachable(format!("{url}: {reason}")),
            Trouble::Found(finding) => faulty(url, finding),
        };
        let mut remote = self.remote();
        let found = checks::Findings::default();
        let head = self.look(&mut remote, &found).await.map_err(fail)?;
        let head = head.ok_or_else(|| match found.take().into_iter().next() {
            Some(finding) => faulty(url, finding),
            None => configuration(format!("{url}: there is no checkpoint")),
        })?;
        let entries = self.audit == Audit::Full;
        let follower = Follower::start(Arc::clone(&self.spine), &mut remote, &head, entries);
        *self.follower.lock().await = Some(follower.await.map_err(fail)?);
        self.heads.lock().settled(head.size);
        Ok(())
    }

    /// Reads the checkpoint.
    async fn look(
        &self,
        fetch: &mut impl Fetch,
        verdicts: &dyn Verdicts,
    ) -> Result<Option<Head>, Trouble> {
        let floor = self.heads.lock().floor();
        let note = fetch.get("checkpoint").await?;
        verdicts.passed(checks::CHECKPOINT_SERVED);
        Ok(self.heads.lock().see(&note, floor, now_ms(), verdicts))
    }

    /// Looks at the log again and again, until `stop`.
    pub(crate) async fn follow(&self, recorder: Recorder, stop: Stop) {
        if self.audit == Audit::None {
            return stop.cancelled().await;
        }
        let recorded = self.recorded(&recorder);
        let mut remote = self.remote().telling(recorded.clone());
        while !stop.is_cancelled() {
            self.tick(&mut remote, false, &recorded).await;
            self.gauges(&recorded);
            tokio::select! {
                () = stop.cancelled() => break,
                // The time between two looks: `--checkpoint-interval`.
                () = tokio::time::sleep(self.interval) => (),
            }
        }
    }

    pub(crate) fn recorded(&self, recorder: &Recorder) -> Recorded {
        Recorded {
            tags: recorder.tags(&[("log", &self.target.origin)]),
            recorder: recorder.clone(),
        }
    }

    fn gauges(&self, recorded: &Recorded) {
        let size = self.spine.edge().size() as f64;
        let open = self.promises.lock().open() as f64;
        recorded.recorder.gauge(recorded.tags, "ct_tree_size", size);
        recorded
            .recorder
            .gauge(recorded.tags, "ct_promises_open", open);
    }

    /// One look: checkpoint, tree, promises, entries.
    async fn tick(&self, remote: &mut impl Fetch, all: bool, verdicts: &dyn Verdicts) {
        let asked = Instant::now();
        match self.advance(remote, all, asked, verdicts).await {
            Ok(()) => (),
            Err(Trouble::Found(finding)) => verdicts.found(finding),
            Err(Trouble::Unreachable(reason)) if !self.outage.expected() => {
                verdicts.found(Finding::new(checks::CHECKPOINT_SERVED, reason));
            }
            // Nobody is late while the log is known to be away.
            Err(Trouble::Unreachable(_)) => return,
        }
        for promise in self.promises.lock().overdue(asked) {
            let detail = format!(
                "entry {} was promised at {} and is in no checkpoint {:.1} s later",
                promise.index,
                promise.timestamp,
                self.mmd.as_secs_f64()
            );
            verdicts.found(Finding::new(checks::INCLUSION_IN_TIME, detail));
        }
        if let Some(follower) = self.follower.lock().await.as_mut() {
            let read = follower.read_entries(remote, &self.promises, all, verdicts);
            match read.await {
                Err(Trouble::Found(finding)) => verdicts.found(finding),
                // It will be tried again; the checkpoint tells of an absence.
                Err(Trouble::Unreachable(_)) | Ok(()) => (),
            }
        }
    }

    async fn advance(
        &self,
        remote: &mut impl Fetch,
        again: bool,
        asked: Instant,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let Some(head) = self.look(remote, verdicts).await? else {
            return Ok(());
        };
        self.excuse();
        let mut follower = self.follower.lock().await;
        let Some(follower) = follower.as_mut() else {
            return Ok(());
        };
        if again {
            follower.reconsider();
        }
        let unproven = self.heads.lock().unproven(head.size);
        let verified = follower.size();
        let (before, between): (Vec<_>, Vec<_>) = unproven
            .into_iter()
            .partition(|(size, _)| *size <= verified);
        for (size, root) in before {
            let computed = root_at(&self.spine, remote, size).await?;
            self.heads.lock().settled(size);
            verdicts.check(checks::CHECKPOINT_CONSISTENT, same(size, &root, &computed));
        }
        follower.grow(remote, &head, &between, verdicts).await?;
        for (size, _) in between {
            self.heads.lock().settled(size);
        }
        let settled = follower.settle(remote, &self.promises, asked, verdicts);
        settled.await
    }

    /// After an absence everybody has the whole merge delay again.
    fn excuse(&self) {
        if !self.outage.expected() {
            return;
        }
        let over = self.outage.over().len();
        let mut excused = self.excused.lock();
        if *excused < over {
            *excused = over;
            self.promises.lock().extend(Instant::now() + self.mmd);
        }
    }

    /// When a promise made now must be kept.
    pub(crate) fn due(&self) -> Instant {
        Instant::now() + self.mmd
    }

    /// By which the log's clock may differ from ours.
    pub(crate) fn clock_tolerance(&self) -> Duration {
        self.clock_tolerance
    }

    /// What the log must store of a submission besides what it signs, if entries are read.
    pub(crate) fn expects(&self, submission: &Submission) -> Option<Submitted> {
        (self.audit == Audit::Full).then(|| submission.submitted())
    }

    /// Whether promises are followed up.
    pub(crate) fn audits(&self) -> bool {
        self.audit != Audit::None
    }

    /// The end: waits for what is still promised, reads the rest of the entries
    /// and says what was found.
    pub(crate) async fn audit(&self, recorder: &Recorder) -> Note {
        let recorded = self.recorded(recorder);
        if self.audit == Audit::None {
            recorded.check(checks::AUDIT_COMPLETE, self.back());
            self.tell_absences(&recorded);
            return self.note(&[]);
        }
        let mut remote = self.remote().telling(recorded.clone());
        let mut end = Instant::now() + self.mmd.min(Duration::from_secs(3600)) + PATIENCE;
        if self.outage.is_down() {
            end += Duration::from_secs(30);
        }
        loop {
            self.tick(&mut remote, true, &recorded).await;
            let settled = self.promises.lock().open() == 0 && !self.outage.is_down();
            if settled || Instant::now() > end {
                break;
            }
            // Nobody but the log makes it grow: looked at again, a little sooner than before.
            tokio::time::sleep(self.interval.min(Duration::from_millis(200))).await;
        }
        self.gauges(&recorded);
        recorded.check(checks::AUDIT_COMPLETE, self.back().and(self.complete()));
        self.tell_absences(&recorded);
        let seen = self
            .follower
            .lock()
            .await
            .as_ref()
            .map(|follower| follower.seen);
        let lines = seen.map(|seen| {
            format!(
                "tree {} → {}, {} checkpoints, {} data tiles with {} entries, {} issuers",
                seen.first,
                seen.first + seen.leaves,
                self.heads.lock().seen,
                seen.data_tiles,
                seen.entries,
                seen.issuers
            )
        });
        self.note(lines.as_slice())
    }

    /// Records the absences of a log that may be restarted, whoever noticed their end.
    fn tell_absences(&self, recorded: &Recorded) {
        if self.outage.expected() {
            for away in self.outage.over() {
                recorded.recorder.trend(recorded.tags, "ct_outage", away);
            }
        }
    }

    /// Whether a log that may be restarted is there in the end.
    fn back(&self) -> Result<(), String> {
        match self.outage.is_down() {
            true => Err("the log has not come back".to_owned()),
            false => Ok(()),
        }
    }

    fn complete(&self) -> Result<(), String> {
        let promises = self.promises.lock();
        let tally = promises.tally;
        if promises.open() == 0 && tally.broken == 0 && tally.forgotten == 0 {
            return Ok(());
        }
        let first = promises.iter().next();
        let first = first.map_or_else(String::new, |promise| {
            format!("; the first in no checkpoint is entry {}", promise.index)
        });
        Err(format!(
            "of {} promised entries {} are in no checkpoint, {} are not where they were promised, {} were not followed{first}",
            tally.made,
            promises.open(),
            tally.broken,
            tally.forgotten
        ))
    }

    fn note(&self, lines: &[String]) -> Note {
        let promises = self.promises.lock();
        let tally = promises.tally;
        let mut all = Vec::new();
        if tally.made > 0 {
            all.push(format!(
                "{} entries promised: {} proven, {} late, {} missing",
                tally.made,
                tally.proven,
                tally.late,
                tally.broken + promises.open() as u64
            ));
        }
        all.extend_from_slice(lines);
        let over = self.outage.over();
        if self.outage.expected() {
            let longest = over.iter().max().copied().unwrap_or_default();
            let total: Duration = over.iter().sum();
            all.push(format!(
                "away {} times, {:.1} s in all, {:.1} s at the longest{}; {} requests without answer",
                over.len(),
                total.as_secs_f64(),
                longest.as_secs_f64(),
                if self.outage.is_down() { ", and away now" } else { "" },
                self.outage.errors()
            ));
        }
        Note {
            title: format!("log {}", self.target.origin),
            lines: all,
        }
    }
}

fn same(size: u64, root: &lucarne_tlog::Hash, computed: &lucarne_tlog::Hash) -> Result<(), String> {
    match root == computed {
        true => Ok(()),
        false => Err(format!(
            "the checkpoint of size {size} has the root {root}, the verified tree had {computed}"
        )),
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}
