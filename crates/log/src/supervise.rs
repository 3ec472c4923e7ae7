//! Keeps one log open, whatever happens to it, and nobody else's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::dedup::Dedup;
use crate::recover::Recovered;
use crate::sequencer::Sequencer;
use crate::session::Session;
use crate::shared::Shared;
use crate::{Fatal, State, catchup, recover};

/// First pause before a stopped log is opened again; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause while a store or a database server is away: once it is back,
/// the log is, too.
const PASSING_BACKOFF: Duration = Duration::from_secs(5);
/// Longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

impl Shared {
    /// Keeps the log open until it is told to close.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let name = self.config.shortname.clone();
        self.show_published().await;
        let mut backoff = FIRST_BACKOFF;
        let mut rebuild = false;
        while !self.closing.load(Ordering::SeqCst) {
            if self.config.retired(self.now_ms()) {
                self.set_state(State::Retired);
                match self.finish().await {
                    Ok(()) => self.while_retired().await,
                    Err(fatal) => {
                        tracing::error!(log = name, error = %fatal, "retired, and not whole");
                        let pause = match fatal.is_passing() {
                            true => PASSING_BACKOFF,
                            false => MAX_BACKOFF,
                        };
                        self.pause(pause).await;
                    }
                }
                continue;
            }
            let opened = Instant::now();
            let Err(fatal) = self.clone().session(rebuild).await else {
                continue;
            };
            rebuild = matches!(fatal, Fatal::Dedup { damaged: true, .. });
            if opened.elapsed() > MAX_BACKOFF {
                backoff = FIRST_BACKOFF;
            }
            if fatal.is_passing() {
                backoff = backoff.min(PASSING_BACKOFF);
            }
            tracing::error!(log = name, error = %fatal, retry_in = ?backoff, "log stopped");
            self.stopped(&fatal, backoff);
            self.pause(backoff).await;
            backoff = (2 * backoff).min(MAX_BACKOFF);
        }
        self.set_state(State::Closed);
    }

    /// A retired log signs nothing more, but what a crash left in its journal
    /// is published all the same.
    async fn finish(&self) -> Result<(), Fatal> {
        let recovered = recover::recover(&self.config, &*self.assets, &*self.lock).await?;
        self.assets.settle(recovered.tree.size()).await?;
        let head = recover::Head::verify(recovered.committed, &self.config);
        let head = head.map_err(Fatal::Inconsistent)?;
        let edge = Arc::new(recovered.tree);
        self.reader.publish(head.published(), Some(edge));
        Ok(())
    }

    /// Until the log is closed, unless the clock that ended it was wrong.
    async fn while_retired(&self) {
        while self.config.retired(self.now_ms()) && !self.closing.load(Ordering::SeqCst) {
            self.pause(MAX_BACKOFF).await;
        }
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
        let since_ms = match &*self.state.lock() {
            State::Stopped { since_ms, .. } => *since_ms,
            _ => now_ms,
        };
        self.set_state(State::Stopped {
            reason: fatal.to_string(),
            since_ms,
            retry_at_ms: now_ms + backoff.as_millis() as u64,
        });
    }

    /// One session, in a task of its own: a panic is an error like others.
    async fn session(self: Arc<Self>, rebuild: bool) -> Result<(), Fatal> {
        let result = tokio::spawn(self.clone().run(rebuild)).await;
        if let Some(session) = self.session.swap(None) {
            session.end().await;
        }
        result.unwrap_or_else(|panic| Err(Fatal::Internal(panic.to_string())))
    }

    /// Opens the log and sequences until it is closed, or fails.
    async fn run(self: Arc<Self>, rebuild: bool) -> Result<(), Fatal> {
        let (recovered, dedup) = tokio::select! {
            opened = self.open(rebuild) => opened?,
            // Bringing an index up to date may take long.
            () = self.wake.notified() => return Ok(()),
        };
        let size = recovered.tree.size();
        self.metrics.dedup_indexed.set(size as i64);
        let session = Arc::new(Session::new(self.config.pool_size, dedup));
        let sequencer = Sequencer::new(self.clone(), session.clone(), recovered);
        sequencer.run(move || self.opened(session, size)).await
    }

    async fn open(&self, rebuild: bool) -> Result<(Recovered, Dedup), Fatal> {
        let recovered = recover::recover(&self.config, &*self.assets, &*self.lock).await?;
        let (cache, owner) = (&self.config.cache, self.config.key.log_id());
        let size = recovered.tree.size();
        let dedup = catchup::open(cache, owner, &*self.assets, size, rebuild).await?;
        Ok((recovered, dedup))
    }

    /// From now on submissions are taken.
    fn opened(&self, session: Arc<Session>, size: u64) {
        self.session.store(Some(session.clone()));
        if self.closing.load(Ordering::SeqCst) {
            session.pool.close();
        }
        self.set_state(State::Running);
        tracing::info!(log = self.config.shortname, size, "log open");
    }

    /// Reads go on even if the log cannot be opened.
    async fn show_published(&self) {
        match recover::published(&self.config, &*self.assets).await {
            Ok(Some(head)) => self.reader.publish(head.published(), None),
            Ok(None) => {}
            Err(fatal) => {
                tracing::error!(log = self.config.shortname, error = %fatal, "cannot serve");
            }
        }
    }
}
