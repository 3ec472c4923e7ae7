//! Audit of SCTs: after the maximum merge delay, each promised entry must be in its log.
//!
//! Each log with entries to look up has a task of its own, so a log that hangs delays no other log.
//! The entries are in the inventory: after a restart, the audit continues with the rest.

mod by_hash;
mod by_tile;
mod paced;

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lucarne_ct::{CheckpointError, KeyError, ListedLog, LogApi, LogId};
use lucarne_ctread::ReadError;
use lucarne_mint::now_ms;
use lucarne_net::{Client, ClientError};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::inventory::{Due, Finding, Head, Inventory, entries};
use super::shared::Shared;
use crate::time::time;
use by_hash::ByHash;
use by_tile::ByTile;
use paced::Paced;

/// Intervals of the audit, which tests shorten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Shortest interval between two requests to a log.
    pub(crate) request: Duration,
    /// Interval at which due entries are searched.
    pub(crate) look: Duration,
    /// Time until the second request for an entry that a log denies, or whose look-up failed.
    pub(crate) confirm: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            request: Duration::from_secs(1),
            look: Duration::from_secs(600),
            confirm: Duration::from_secs(600),
        }
    }
}

/// Reasons why the entries of a log cannot be looked up.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the log is not in the log list")]
    Unlisted,
    #[error("the log's key is invalid: {0}")]
    Key(#[from] KeyError),
    #[error(transparent)]
    Request(#[from] ClientError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("get-sth: {0}")]
    TreeHead(#[from] CheckpointError),
    #[error("{0} sent an invalid response: {1}")]
    Response(&'static str, String),
    #[error("the log went back from size {0} to size {1}")]
    Smaller(u64, u64),
    #[error("the log has signed two histories")]
    TwoHistories(Box<Value>),
    #[error("the newest tree head is of {0}, older than the maximum merge delay allows")]
    Stale(String),
    #[error("the inventory cannot be used")]
    Inventory,
}

pub(crate) struct Auditor {
    pub(crate) shared: Weak<Shared>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) client: Client,
    pub(crate) pace: Pace,
}

impl Auditor {
    /// Audits until the observer is dropped. Dropping the future ends the tasks of the logs.
    pub(crate) async fn run(self) {
        let mut look = tokio::time::interval(self.pace.look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tasks, mut busy) = (JoinSet::new(), HashSet::new());
        loop {
            tokio::select! {
                _ = look.tick() => {}
                Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Ok(log) = done {
                        busy.remove(&log);
                    }
                    continue;
                }
            }
            let due = self.inventory.run(|_, db| entries::due_logs(db)).await;
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            let listed = shared.list.load();
            for id in due.unwrap_or_default() {
                let log = listed.list.as_ref().and_then(|list| list.get(&id)).cloned();
                if busy.insert(id) {
                    let (to, client) = (self.inventory.clone(), self.client.clone());
                    tasks.spawn(task(id, log, to, client, self.pace));
                }
            }
        }
    }
}

/// Audits a log once, and remembers the reason of a failure.
async fn task(
    id: LogId,
    log: Option<Arc<ListedLog>>,
    to: Arc<Inventory>,
    client: Client,
    pace: Pace,
) -> LogId {
    let audited = match &log {
        Some(log) => audit(log, &to, client, pace).await,
        None => Err(Failure::Unlisted),
    };
    let name = log.map_or_else(|| id.to_string(), |log| log.description.clone());
    let mut troubles = to.log_troubles.lock();
    match audited {
        Ok(()) => drop(troubles.remove(&id)),
        Err(why) => {
            let why = why.to_string();
            if troubles.get(&id).is_none_or(|(_, before)| *before != why) {
                tracing::warn!("the SCTs of {name} cannot be audited: {why}");
            }
            troubles.insert(id, (name, why));
        }
    }
    id
}

async fn audit(
    log: &Arc<ListedLog>,
    to: &Arc<Inventory>,
    client: Client,
    pace: Pace,
) -> Result<(), Failure> {
    let id = log.log_id;
    let reader = Reader::new(log, client, pace.request)?;
    let head = reader.head().await?;
    let last = to
        .run(move |_, db| entries::head(db, &id))
        .await
        .ok_or(Failure::Inventory)?;
    if let Some(last) = last {
        let extends = reader.extends(&last, &head).await;
        if let Err(Failure::TwoHistories(proof)) = &extends {
            let (log, new, proof) = (log.clone(), head.clone(), proof.clone());
            to.run(move |to, db| entries::two_histories(to, db, &log, (&last, &new), &proof))
                .await;
        }
        extends?;
    }
    let kept = head.clone();
    to.run(move |_, db| entries::keep_head(db, &id, &kept))
        .await
        .ok_or(Failure::Inventory)?;
    let confirm = u64::try_from(pace.confirm.as_millis()).unwrap_or(u64::MAX);
    loop {
        let until = head.timestamp;
        let due = to.run(move |_, db| entries::due(db, &id, until)).await;
        let due = due.ok_or(Failure::Inventory)?;
        if due.is_empty() {
            break;
        }
        for due in due {
            let finding = match reader.look_up(&due, &head).await {
                Ok(finding) => finding,
                Err(why) => {
                    let postpone =
                        move |_: &Inventory, db: &_| entries::postpone(db, &id, &due.leaf, confirm);
                    to.run(postpone).await.ok_or(Failure::Inventory)?;
                    return Err(why);
                }
            };
            let (log, head) = (log.clone(), head.clone());
            let settle = move |to: &Inventory, db: &_| {
                entries::settle(to, db, (&*log, &head), &due, &finding, confirm)
            };
            to.run(settle).await.ok_or(Failure::Inventory)?;
        }
    }
    let allowed = log.mmd.max(entries::USUAL_MMD).saturating_mul(1000);
    if head.timestamp.saturating_add(allowed) < now_ms() {
        return Err(Failure::Stale(time(head.timestamp)));
    }
    Ok(())
}

/// Reader of one log, by its API.
enum Reader {
    Tiles(ByTile),
    Hashes(ByHash),
}

impl Reader {
    fn new(log: &Arc<ListedLog>, client: Client, pace: Duration) -> Result<Self, Failure> {
        Ok(match &log.api {
            LogApi::Static {
                submission_url,
                monitoring_url,
            } => {
                let files = Paced::new(monitoring_url, client, pace);
                Reader::Tiles(ByTile::new(files, submission_url, &log.key)?)
            }
            LogApi::Rfc6962 { url } => {
                Reader::Hashes(ByHash::new(Paced::new(url, client, pace), log.clone()))
            }
        })
    }

    /// Returns the tree head of the log, after verifying its signature.
    async fn head(&self) -> Result<Head, Failure> {
        match self {
            Reader::Tiles(reader) => reader.head().await,
            Reader::Hashes(reader) => reader.head().await,
        }
    }

    /// Verifies that the tree of `new` extends the tree of `old`.
    async fn extends(&self, old: &Head, new: &Head) -> Result<(), Failure> {
        if new.size < old.size {
            return Err(Failure::Smaller(old.size, new.size));
        }
        if new.size == old.size {
            let same = new.root == old.root;
            return same
                .then_some(())
                .ok_or_else(|| Failure::TwoHistories(Box::default()));
        }
        if old.size == 0 {
            return Ok(());
        }
        match self {
            Reader::Tiles(reader) => reader.extends(old).await,
            Reader::Hashes(reader) => reader.extends(old, new).await,
        }
    }

    async fn look_up(&self, due: &Due, head: &Head) -> Result<Finding, Failure> {
        match self {
            Reader::Tiles(reader) => reader.look_up(due, head).await,
            Reader::Hashes(reader) => reader.look_up(due, head).await,
        }
    }
}
