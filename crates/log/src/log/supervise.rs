//! The supervision of one log: opens the log, and reopens it after failures, independently of other
//! logs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::config::instances::AGAIN;
use crate::data::tree_head;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::index::catchup;
use crate::index::dedup::Dedup;
use crate::instances::follow;
use crate::recovery::known_checkpoints;
use crate::recovery::recover::{self, Recovered};
use crate::sequence::sequencer::Sequencer;
use crate::shared::Shared;
use crate::status::state::State;
use crate::submit::session::Session;

/// First pause before a stopped log is opened again. The pause doubles each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause while a store or a database server is unavailable, so that the log opens soon
/// after the store returns.
const PASSING_BACKOFF: Duration = Duration::from_secs(5);
/// Longest pause after other errors.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The required time without other signatures before the log is opened again, after another process
/// has signed.
const QUIET: Duration = Duration::from_secs(6);
/// The required time without other signatures after another process has signed twice. An idle
/// TesseraCT signs again at shorter intervals.
const LONG_QUIET: Duration = Duration::from_secs(45);
/// [`LONG_QUIET`] applies if another process stops this process twice within this time.
const AGAIN_WITHIN: Duration = Duration::from_secs(600);
/// Time for the recovery of a start before readers see the published checkpoint.
const RECOVERED_WITHIN: Duration = Duration::from_secs(10);
/// The interval at which lock and storage are read while this process waits for quiet.
const QUIET_LOOK: Duration = Duration::from_secs(1);

impl Shared {
    /// Keeps the log open until it is closed.
    pub(crate) async fn supervise(self: Arc<Self>) {
        self.await_turn().await;
        tokio::join!(self.clone().keep_open(), self.show_in_time());
        self.status.set_state(State::Closed);
    }

    async fn keep_open(self: Arc<Self>) {
        let name = self.config.shortname.clone();
        let mut backoff = FIRST_BACKOFF;
        let mut overtaken: Option<Instant> = None;
        while !self.status.is_closing() {
            if self.config.retired(self.status.now_ms()) {
                self.retire().await;
                continue;
            }
            let opened = Instant::now();
            let shared = self.config.instances.is_some();
            let Err(fatal) = self.clone().session().await else {
                continue;
            };
            self.show_without_session(&fatal).await;
            if shared && fatal.is_overtaken() {
                tracing::warn!(log = name, reason = %fatal, "following");
                self.status.set_state(State::Following { leader: None });
                self.pause(AGAIN).await;
                continue;
            }
            if fatal.is_overtaken() {
                let again = overtaken.is_some_and(|last| last.elapsed() < AGAIN_WITHIN);
                let quiet = if again {
                    LONG_QUIET
                } else {
                    QUIET.max(self.config.rounds.max_checkpoint_age + Duration::from_secs(2))
                };
                tracing::error!(log = name, error = %fatal, goes_on_after_quiet = ?quiet, "log stopped");
                self.await_quiet(&fatal, quiet).await;
                overtaken = Some(Instant::now());
                continue;
            }
            if matches!(fatal, Fatal::Dedup { damaged: true, .. }) {
                self.index.set_failed(true);
            }
            if opened.elapsed() > MAX_BACKOFF {
                backoff = FIRST_BACKOFF;
            }
            if fatal.is_passing() || matches!(fatal, Fatal::Dedup { damaged: false, .. }) {
                backoff = backoff.min(PASSING_BACKOFF);
            }
            tracing::error!(log = name, error = %fatal, retry_in = ?backoff, "log stopped");
            self.stopped(&fatal, backoff);
            self.pause(backoff).await;
            backoff = (2 * backoff).min(MAX_BACKOFF);
        }
        self.current.send_replace(true);
    }

    /// Finishes a retired log, and waits while the log is retired. After a failure, waits before
    /// the next attempt.
    async fn retire(&self) {
        self.status.set_state(State::Retired);
        let Err(fatal) = self.finish().await else {
            return self.while_retired().await;
        };
        self.show_without_session(&fatal).await;
        let log = &self.config.shortname;
        tracing::error!(log, error = %fatal, "the log is retired, but its last rounds cannot be \
                                              published: retrying");
        let pause = if fatal.is_passing() {
            PASSING_BACKOFF
        } else {
            MAX_BACKOFF
        };
        self.pause(pause).await;
    }

    /// Publishes the rounds that a crash left in the journal of a retired log. A retired log signs
    /// nothing.
    async fn finish(&self) -> Result<(), Fatal> {
        // A signer that was shut down together with the log is not needed for reading.
        let signed = match tree_head::last_signed(&self.config).await {
            Err(error) if error.is_passing() => None,
            signed => signed?,
        };
        let known = known_checkpoints::ask(&self.config);
        let recovered = self.recover(signed, known).await?;
        self.settle(recovered.tree.size()).await?;
        self.show_recovered(&recovered).await;
        Ok(())
    }

    /// Waits until the log is closed, or until a corrected clock shows that the log is not retired.
    async fn while_retired(&self) {
        while self.config.retired(self.status.now_ms()) && !self.status.is_closing() {
            self.pause(MAX_BACKOFF).await;
        }
    }

    /// Waits until no other process has committed or published anything for this time. Otherwise,
    /// two processes could sign in turn, each after the signature of the other process.
    async fn await_quiet(&self, fatal: &Fatal, quiet: Duration) {
        let mut last = self.signed_meanwhile().await;
        let mut since = Instant::now();
        self.stopped(fatal, quiet);
        while since.elapsed() < quiet && !self.status.is_closing() {
            self.pause(QUIET_LOOK).await;
            let now = self.signed_meanwhile().await;
            if now != last {
                last = now;
                since = Instant::now();
            }
        }
    }

    /// Returns the checkpoints in the lock and in storage, if they can be read.
    async fn signed_meanwhile(&self) -> (Option<Vec<u8>>, Option<Bytes>) {
        let committed = self.lock.load(&self.config.key.log_id().0).await;
        let published = self.assets.get("checkpoint").await;
        (committed.ok().flatten(), published.ok().flatten())
    }

    async fn pause(&self, time: Duration) {
        tokio::select! {
            // The back-off before the log is opened again.
            () = tokio::time::sleep(time) => {}
            () = self.wake.notified() => {}
        }
    }

    fn stopped(&self, fatal: &Fatal, backoff: Duration) {
        self.metrics.failures.inc();
        let now_ms = self.config.clock.now_ms();
        let since_ms = match self.status.state() {
            State::Stopped { since_ms, .. } => since_ms,
            _ => now_ms,
        };
        self.status.set_state(State::Stopped {
            reason: fatal.to_string(),
            since_ms,
            retry_at_ms: now_ms + backoff.as_millis() as u64,
        });
    }

    /// Runs one session in its own task, so that a panic becomes an error.
    async fn session(self: Arc<Self>) -> Result<(), Fatal> {
        let result = tokio::spawn(self.clone().run()).await;
        self.status.set_stalled(false);
        if let Some(session) = self.submissions.session.swap(None) {
            // `run` does this at its end, but a panic skips that end, and `run` may fail before
            // the log is open.
            self.note_index(&session);
            session.end().await;
        }
        let result = result.unwrap_or_else(|panic| Err(Fatal::Internal(panic.to_string())));
        result.map_err(|fatal| match self.reader.tree() {
            Some(tree) => recover::not_new(fatal, tree.size(), &*self.assets, &*self.lock),
            None => fatal,
        })
    }

    /// Opens the log and sequences until the log is closed or fails. With several instances,
    /// follows while another instance leads.
    async fn run(self: Arc<Self>) -> Result<(), Fatal> {
        if let Some(instances) = self.config.instances.clone() {
            return follow::take_part(self, instances).await;
        }
        let (recovered, dedup) = tokio::select! {
            opened = self.open() => opened?,
            // Updating an index may take long, so closing the log must cancel the update.
            () = self.wake.notified() => return Ok(()),
        };
        let tree = recovered.tree.clone();
        let size = tree.size();
        self.index.note(&dedup);
        let session = Arc::new(Session::new(&self.config, dedup)?);
        let sequencer = Sequencer::new(self.clone(), session.clone(), recovered, None);
        let (log, shared) = (self.clone(), session.clone());
        let fail = |fatal| session.pool.fail(fatal);
        let ended = tokio::select! {
            ended = sequencer.run(move || log.opened(shared, size)) => ended,
            never = catchup::attend(&self.index, &session.dedup, fail, &tree) => match never {},
        };
        self.note_index(&session);
        ended
    }

    async fn open(&self) -> Result<(Recovered, Arc<Dedup>), Fatal> {
        let known = known_checkpoints::ask(&self.config);
        let signed = tree_head::last_signed(&self.config).await?;
        let remembered = signed.as_ref().map(VerifiedCheckpoint::head);
        let recovered = self.recover(signed, known).await?;
        self.reader.recovered();
        self.show_recovered(&recovered).await;
        self.remind(&recovered, remembered).await?;
        let dedup = catchup::open(&self.index, &recovered.tree).await?;
        Ok((recovered, dedup))
    }

    /// Returns whether readers already see this checkpoint.
    fn shows(&self, head: &VerifiedCheckpoint) -> bool {
        let shown = self.reader.published();
        shown.is_some_and(|shown| shown.checkpoint == head.note)
    }

    /// Returns whether readers see the newest checkpoint, see [`Shared::current`].
    pub(crate) fn is_current(&self) -> bool {
        *self.current.borrow()
    }

    /// Waits until another process has released the log. Afterwards readers see at least the last
    /// checkpoint that the other process published.
    async fn await_turn(&self) {
        // An instance shows the checkpoint that its leader publishes.
        if self.turn.has_come() && self.config.instances.is_none() {
            return;
        }
        if !self.turn.has_come() {
            self.show_published().await;
        }
        tokio::select! {
            () = self.turn.comes() => {}
            () = self.wake.notified() => {}
        }
        let _last = self.following.lock().await;
        // After an error, the readers wait for the first session.
        if self.show_published().await {
            self.current.send_replace(true);
        }
    }

    /// Shows the newest checkpoint of the process that still runs the log, if the turn has not come
    /// yet. Readers of this process therefore never see an older checkpoint than readers of the
    /// other process. After the turn, waits until readers see the newest checkpoint.
    pub(crate) async fn follow(&self) {
        if !self.turn.has_come() {
            let _one_by_one = self.following.lock().await;
            if !self.turn.has_come() {
                self.show_published().await;
                return;
            }
        }
        // The sender lives as long as `self`.
        let _ = self.current.subscribe().wait_for(|current| *current).await;
    }

    /// Shows the recovered tree. A power cut may have undone the publication of its last rounds,
    /// which clients have seen, so no read may come before.
    async fn show_recovered(&self, recovered: &Recovered) {
        let _not_over_a_newer_one = self.following.lock().await;
        self.show(&Arc::new(recovered.tree.clone()), &recovered.published);
        self.current.send_replace(true);
    }

    /// Shows the published checkpoint, so that reads work even if the log cannot be opened. If the
    /// log is refused because other places have seen more of it, readers see nothing: they would
    /// see the log shrink.
    async fn show_without_session(&self, fatal: &Fatal) {
        match fatal {
            Fatal::Known(_) => {
                self.reader.withdraw();
                self.current.send_replace(true);
            }
            _ => self.show_instead().await,
        }
    }

    /// Shows the published checkpoint if lock and journal do not respond in time.
    async fn show_in_time(&self) {
        let mut current = self.current.subscribe();
        let recovered = current.wait_for(|current| *current);
        if tokio::time::timeout(RECOVERED_WITHIN, recovered)
            .await
            .is_err()
        {
            self.show_instead().await;
        }
    }

    async fn show_instead(&self) {
        let _one_by_one = self.following.lock().await;
        if !self.is_current() {
            self.show_published().await;
            self.current.send_replace(true);
        }
    }

    /// Shows the published checkpoint. Returns whether readers see it, or nothing is published.
    async fn show_published(&self) -> bool {
        match recover::published(&self.config, &*self.assets).await {
            Ok(Some(head)) if self.shows(&head) => {}
            Ok(Some(head)) => self.reader.publish(head.published(), None),
            Ok(None) => {}
            // Opening the log reports missing storage, if the lock shows that the log exists.
            Err(Fatal::Storage(error)) if error.is_absence() => {}
            Err(fatal) => {
                tracing::error!(log = self.config.shortname, error = %fatal, "cannot read the \
                                                                              published checkpoint \
                                                                              for readers");
                return false;
            }
        }
        true
    }
}
