//! Keeps one log open, whatever happens to it, and nobody else's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::sequencer::Sequencer;
use crate::session::Session;
use crate::shared::Shared;
use crate::{Fatal, State, catchup, recover};

/// First pause before a stopped log is opened again; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

impl Shared {
    /// Keeps the log open until it is told to close.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let name = self.config.shortname.clone();
        self.show_published().await;
        let mut backoff = FIRST_BACKOFF;
        while !self.closing.load(Ordering::SeqCst) {
            if self.config.retired(self.config.clock.now_ms()) {
                self.set_state(State::Retired);
                self.wake.notified().await;
                continue;
            }
            let opened = Instant::now();
            let Err(fatal) = self.clone().session().await else {
                continue;
            };
            if opened.elapsed() > MAX_BACKOFF {
                backoff = FIRST_BACKOFF;
            }
            tracing::error!(log = name, error = %fatal, retry_in = ?backoff, "log stopped");
            self.stopped(&fatal, backoff);
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                () = self.wake.notified() => {}
            }
            backoff = (2 * backoff).min(MAX_BACKOFF);
        }
        self.set_state(State::Closed);
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
    async fn session(self: Arc<Self>) -> Result<(), Fatal> {
        let result = tokio::spawn(self.clone().run()).await;
        if let Some(session) = self.session.swap(None) {
            session.end().await;
        }
        result.unwrap_or_else(|panic| Err(Fatal::Inconsistent(format!("internal error: {panic}"))))
    }

    /// Opens the log and sequences until it is closed, or fails.
    async fn run(self: Arc<Self>) -> Result<(), Fatal> {
        let recovered = recover::recover(&self.config, &*self.assets, &*self.lock).await?;
        let size = recovered.tree.size();
        let owner = self.config.key.log_id();
        let dedup = catchup::open(&self.config.cache, owner, &*self.assets, size).await?;
        self.metrics.dedup_indexed.set(size as i64);
        let session = Arc::new(Session::new(self.config.pool_size, dedup));
        let sequencer = Sequencer::new(self.clone(), session.clone(), recovered);
        sequencer.run(move || self.opened(session, size)).await
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
