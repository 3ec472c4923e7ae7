//! A running server: hand-overs and the shutdown.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use lucarne_ct::Roots;
use lucarne_http::{Serving, Tls};
use lucarne_storage::Lock;
use tokio::task::JoinSet;

use super::{Begin, Ended, Predecessor, close_lock};
use crate::closing::close;
use crate::handover::{self, Candidate, Candidates, Given};
use crate::listen::Socket;
use crate::mirror::Mirroring;
use crate::notify;
use crate::otlp::Exporting;
use crate::signals::Signals;
use crate::upkeep::{Upkeep, Wanted};

pub(super) struct Running {
    pub(super) upkeep: Upkeep,
    /// Tasks that report the state to the service manager.
    pub(super) notifying: JoinSet<()>,
    /// Exports traces and metrics until it is dropped.
    pub(super) exporting: Exporting,
    /// The tasks that copy logs.
    pub(super) mirroring: Option<Mirroring>,
    pub(super) serving: Serving,
    pub(super) candidates: Option<Candidates>,
    /// Copies of the sockets, for a failed hand-over.
    pub(super) sockets: Vec<Socket>,
    pub(super) signals: Signals,
    pub(super) lock: Arc<dyn Lock>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) drain_timeout: Duration,
}

impl Running {
    /// Serves until a signal to stop, then drains; or until another process has the logs.
    pub(super) async fn until_ended(mut self) -> Result<Ended> {
        while let Wanted::Logs(candidate) = self
            .upkeep
            .until_wanted(&mut self.signals, self.candidates.as_mut())
            .await
        {
            match self.hand_over(candidate).await {
                Given::Not => {}
                Given::Over => {
                    drop((self.notifying, self.mirroring));
                    self.signals.exit_at_next();
                    self.serving.drain().await;
                    self.exporting.finish().await;
                    return Ok(Ended::Stopped);
                }
                Given::Back => return Ok(self.again()),
            }
        }
        self.stop().await
    }

    /// Hands the logs over, unless they have changed since the request.
    async fn hand_over(&mut self, candidate: Candidate) -> Given {
        let hosted = self.upkeep.hosted.now();
        let obstacle = if candidate.knows(&hosted) {
            self.upkeep.reload.obstacle()
        } else {
            Some("the logs have changed since the check (SIGHUP): start the other process again")
        };
        if let Some(why) = obstacle {
            candidate.withdraw(why).await;
            return Given::Not;
        }
        let serving = &mut self.serving;
        handover::give(
            candidate,
            serving,
            (&hosted.logs[..], self.mirroring.as_mut()),
            &self.lock,
            self.drain_timeout,
        )
        .await
    }

    /// Returns the values for another start, after a failed hand-over.
    fn again(self) -> Ended {
        let hosted = self.upkeep.hosted.now();
        let roots = hosted.logs.iter().map(|log| Roots::clone(&log.roots()));
        let begin = Begin {
            creation: self.upkeep.reload.creation,
            tls: self.tls,
            sockets: self.sockets,
            predecessor: Predecessor::Itself(self.signals),
            file: self.upkeep.reload.file,
        };
        // The next start does not wait for the collector.
        tokio::spawn(self.exporting.finish());
        Ended::Again(Box::new((hosted.config.clone(), roots.collect(), begin)))
    }

    async fn stop(mut self) -> Result<Ended> {
        notify::stopping();
        drop((self.candidates, self.sockets, self.notifying));
        self.signals.exit_at_next();
        // The listeners accept no more connections. The rounds of the requests in flight are
        // finished, and the requests get their responses.
        self.serving.close().await;
        let logs = self.upkeep.reload.logs();
        let (late, ()) = tokio::join!(close(&logs, self.drain_timeout), self.serving.drain());
        if !late.is_empty() {
            bail!(
                "`draintimeout` is over, and the lock or the storage of these logs does not \
                 respond: {}. No acknowledged entry is lost: the next start continues from the \
                 journals",
                late.join(", ")
            );
        }
        // Concurrently, because the process exits soon after `draintimeout` in any case.
        tokio::join!(close_lock(&*self.lock), self.exporting.finish());
        tracing::info!("stopped; every accepted submission has its response");
        Ok(Ended::Stopped)
    }
}
