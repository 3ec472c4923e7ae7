//! Cosignatures of witnesses for published checkpoints (C2SP tlog-witness, main of 2026-07-22).
//!
//! ```text
//! checkpoint published → one request to each witness → verified lines → second publication
//! ```
//!
//! Each witness has a task of its own, so that a silent witness delays no other one. The task
//! requests cosignatures of the newest checkpoint, one request at a time. The sequencer publishes
//! the lines between two rounds, and drops an unfinished publication when a round begins. Rounds
//! and SCTs therefore never wait for a witness. The second publication compares and replaces the
//! published checkpoint. The lock keeps the checkpoint without cosignatures.

mod request;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::request::{Failure, Proposal, Response, attend};
use crate::config::witnesses::Witnesses;
use crate::data::cosignatures::Cosigned;
use crate::data::tree::Tree;
use crate::shared::Shared;

/// Longest time for which cosignatures wait for those of slower witnesses, to be published together
/// with them.
const TOGETHER: Duration = Duration::from_secs(1);

/// The requests to the witnesses of a log, and the cosignatures of its newest checkpoint.
pub(super) struct Cosigning {
    log: Arc<Shared>,
    witnesses: Witnesses,
    newest: watch::Sender<Option<Arc<Proposal>>>,
    responses: mpsc::Receiver<Response>,
    current: Option<Collection>,
    /// Whether the storage has kept a checkpoint without its cosignatures.
    was_kept: bool,
    /// Ends the tasks of the witnesses when the sequencer ends.
    _tasks: JoinSet<()>,
}

/// The cosignatures of one checkpoint.
struct Collection {
    cosigned: Cosigned,
    /// The checkpoint as published.
    published: Bytes,
    size: u64,
    at: Instant,
    /// Number of cosignatures that are published.
    shown: usize,
    /// Number of requests without a response.
    missing: usize,
}

impl Cosigning {
    /// Starts the tasks of the witnesses; returns `None` if the log has no witnesses.
    pub(super) fn start(log: &Arc<Shared>) -> Option<Self> {
        let witnesses = log.config.witnesses.clone()?;
        let newest = watch::Sender::new(None);
        let (sender, responses) = mpsc::channel(witnesses.prefixes.len());
        let mut tasks = JoinSet::new();
        for prefix in witnesses.prefixes.clone() {
            let (witnesses, sender) = (witnesses.clone(), sender.clone());
            tasks.spawn(attend(
                (log.clone(), witnesses),
                prefix,
                newest.subscribe(),
                sender,
            ));
        }
        Some(Cosigning {
            log: log.clone(),
            witnesses,
            newest,
            responses,
            current: None,
            was_kept: false,
            _tasks: tasks,
        })
    }

    /// Requests cosignatures of a checkpoint that was published just now.
    pub(super) fn propose(&mut self, tree: &Arc<Tree>, committed: &Bytes) {
        if let Some(before) = self.current.take() {
            decide(&self.log, &before);
        }
        let Some(cosigned) = Cosigned::begin(committed.clone()) else {
            return;
        };
        let (tree, note) = (tree.clone(), committed.clone());
        let text = cosigned.text().to_owned();
        self.current = Some(Collection {
            cosigned,
            published: note.clone(),
            size: tree.size(),
            at: Instant::now(),
            shown: 0,
            missing: self.witnesses.prefixes.len(),
        });
        let proposal = Proposal { note, text, tree };
        self.newest.send_replace(Some(Arc::new(proposal)));
    }

    /// Collects the responses of the witnesses, and publishes their cosignatures. May be dropped at
    /// any time.
    pub(super) async fn collect(&mut self) -> Infallible {
        loop {
            let current = self.current.as_ref();
            let due = current.and_then(|current| self.due(current));
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(response) = self.responses.recv() => self.take(response),
                () = is_due => self.publish().await,
            }
        }
    }

    /// Returns the time at which new cosignatures are published; `None` if there are none, or if
    /// the last witnesses are awaited.
    fn due(&self, current: &Collection) -> Option<Instant> {
        if current.cosigned.cosignatures().len() == current.shown {
            return None;
        }
        let earliest = current.at + self.log.assets.replacement_interval();
        let together = current.at + TOGETHER.min(self.log.config.rounds.period / 2);
        match (current.missing, current.shown) {
            (0, _) => Some(earliest),
            (_, 0) => Some(earliest.max(together)),
            _ => None,
        }
    }

    fn take(&mut self, response: Response) {
        let current = self.current.as_mut();
        let current = current.filter(|it| *it.cosigned.committed() == response.note);
        let is_outdated = current.is_none();
        let problem = response.lines.as_ref().err().map(Failure::to_string);
        let result = match &response.lines {
            Err(failure) => failure.label(),
            Ok(_) if is_outdated => "outdated",
            Ok(_) => "cosigned",
        };
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        for at in self.witnesses.with_prefix(&response.prefix) {
            let log = &self.log.config.shortname;
            match (
                status.responded(at, (result, problem.clone()), metrics),
                &problem,
            ) {
                (Some(witness), Some(problem)) => {
                    tracing::warn!(log, witness, problem, "the witness does not cosign");
                }
                (Some(witness), None) => tracing::info!(log, witness, "the witness cosigns"),
                (None, _) => {}
            }
        }
        if let Some(current) = current {
            current.missing = current.missing.saturating_sub(1);
            current.cosigned.add(response.lines.unwrap_or_default());
            let is_complete = current.cosigned.cosignatures().len() == current.shown;
            if current.missing == 0 && is_complete {
                decide(&self.log, current);
            }
        }
    }

    /// Replaces the published checkpoint by the checkpoint with the cosignatures.
    async fn publish(&mut self) {
        let Some(current) = &mut self.current else {
            return;
        };
        let note = current.cosigned.note();
        let amended = self
            .log
            .assets
            .amend_checkpoint(&current.published, note.clone());
        let log = &self.log.config.shortname;
        let problem = match amended.await {
            Ok(true) => None,
            Ok(false) => Some(
                "the storage cannot compare and replace a file, or another process publishes this \
                 log"
                .into(),
            ),
            Err(error) => Some(error.to_string()),
        };
        let was_kept = std::mem::replace(&mut self.was_kept, problem.is_some());
        if let Some(problem) = problem {
            if !was_kept {
                tracing::warn!(log, problem, "cannot publish cosignatures");
            }
            decide(&self.log, current);
            self.current = None;
            return;
        }
        self.log.reader.show_amended(&current.published, &note);
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        let all = current.cosigned.cosignatures();
        for new in &all[current.shown..] {
            status.cosigned(new.witness, (current.size, new.time), metrics);
        }
        current.shown = all.len();
        current.published = note;
        tracing::debug!(
            log,
            cosignatures = current.shown,
            size = current.size,
            "cosigned"
        );
        let quorum = current.cosigned.meets_quorum(&self.witnesses.policy);
        if current.missing == 0 || quorum {
            decide(&self.log, current);
        }
    }
}

/// Records whether the published cosignatures of a checkpoint met the quorum.
fn decide(log: &Shared, current: &Collection) {
    let policy = log.config.witnesses.as_ref().map(|it| &it.policy);
    let met = policy.is_some_and(|policy| current.cosigned.meets_quorum(policy));
    let met = met && current.cosigned.cosignatures().len() == current.shown;
    log.status.witnesses.decided(met, &log.metrics.witnesses);
}
