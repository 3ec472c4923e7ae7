//! The side of a hand-over that takes the logs.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lucarne_log::{ForeignLog, Log, State};
use tokio::time::timeout;

use super::doorway::{Candidates, Doorway, Estate};
use super::wire::{Message, Offer, Wire};
use super::{OPENING, RESPONSE_TIMEOUT, places};
use crate::config::Config;
use crate::{notify, open};

/// Maximum number of entries that are left to be indexed when the log opens: a second of reading.
const SHORT_PASS: u64 = 1 << 16;

/// A hand-over that the running process has offered.
pub(crate) struct Taking {
    wire: Wire,
    /// Listening sockets, each with its text in the other process's `listen`.
    pub(crate) sockets: Vec<(String, OwnedFd)>,
    /// IDs of the logs that accept submissions in the other process.
    running: Vec<String>,
}

/// State of the process that hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// The process waits for the outcome.
    Waits,
    /// The process has died, and cannot take the logs back.
    Dead,
}

/// Requests the logs of the running process, if there is one.
///
/// # Errors
/// If the running process refuses, does not respond, or belongs to another user; or if a check
/// shows that a log could not be opened here.
pub(crate) async fn ask(path: &Path, config: &Config) -> Result<Option<Taking>> {
    let built = build_indexes(config).await;
    built.context("cannot take over (the running process continues): the dedup index")?;
    let of_path = || of_path(path);
    let mut wire = match Wire::connect(path).await {
        Ok(wire) => wire,
        // No process listens: the socket does not exist, or a killed process left it.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| format!("{}: cannot connect", of_path()));
        }
    };
    let (user, pid) = wire
        .peer()
        .with_context(|| format!("{}: cannot identify the process that listens", of_path()))?;
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        user == own || user == 0,
        "{}: process {pid}, which listens there, runs as user {user}, and this \
         process as user {own}: run this process as that user",
        of_path()
    );
    let hello = places::hello(config).await;
    let hello = hello.context("cannot take over (the running process continues)")?;
    let response = async {
        wire.send(&Message::Hello(hello)).await?;
        wire.receive().await
    };
    let response = timeout(RESPONSE_TIMEOUT, response).await;
    let silent = || format!("process {pid}, which listens there, does not respond");
    match response.with_context(silent).with_context(of_path)? {
        Ok(Some(Message::Offer(offer))) => Ok(Some(taking(wire, offer, pid, path)?)),
        Ok(Some(Message::Refused(why))) => bail!("cannot take over: {why}"),
        Ok(Some(_)) => bail!("{}: process {pid} sent an unexpected message", of_path()),
        // The other process ended before its offer.
        Ok(None) => Ok(None),
        Err(error) => {
            Err(error).context("cannot take over: the running process sent no valid message")
        }
    }
}

/// Builds the dedup index of each log that a process of an earlier version runs with an index of
/// that version. The log can then decide about every submission as soon as it is open. The running
/// process adds entries in the meantime, so the last pass over the logs must be short.
async fn build_indexes(config: &Config) -> Result<()> {
    loop {
        let mut most = 0;
        for log in &config.logs {
            let settings = log.to_log_config();
            if Log::earlier_index_in_use(&settings).await? {
                let assets = open::watched_assets(&log.data.value).await?;
                let indexed = ForeignLog::open(settings, assets).await?.index().await?;
                let (log, entries) = (&log.shortname.value, indexed.to - indexed.from);
                tracing::info!(log, entries, "built the dedup index before the hand-over");
                most = most.max(entries);
            }
        }
        if most < SHORT_PASS {
            return Ok(());
        }
    }
}

/// Takes the sockets of an offer.
fn taking(mut wire: Wire, offer: Offer, pid: i32, path: &Path) -> Result<Taking> {
    let Offer {
        version,
        sockets: texts,
        running,
    } = offer;
    let sockets = wire.take_sockets();
    ensure!(
        sockets.len() == texts.len(),
        "{}: expected {} sockets from process {pid}, found {}",
        of_path(path),
        texts.len(),
        sockets.len()
    );
    tracing::info!(pid, version, "taking over from the running process");
    Ok(Taking {
        wire,
        sockets: std::iter::zip(texts, sockets).collect(),
        running,
    })
}

fn of_path(path: &Path) -> String {
    format!("`handover`: {}", path.display())
}

impl Taking {
    /// Reports that all checks have passed, and waits until this process may accept connections.
    ///
    /// # Errors
    /// If the other process continues to run the logs.
    pub(crate) async fn accept(&mut self) -> Result<Giver> {
        if self.wire.send(&Message::Ready).await.is_err() {
            return Ok(Giver::Dead);
        }
        self.next(&Message::Accept).await
    }

    /// Waits until the other process has closed the logs.
    ///
    /// # Errors
    /// See [`accept`](Self::accept).
    pub(crate) async fn yours(&mut self) -> Result<Giver> {
        self.next(&Message::Yours).await
    }

    async fn next(&mut self, awaited: &Message) -> Result<Giver> {
        match self.wire.receive().await? {
            Some(message) if message == *awaited => Ok(Giver::Waits),
            None => {
                tracing::warn!("the other process has died: this process continues alone");
                Ok(Giver::Dead)
            }
            Some(Message::Withdrawn(why)) => bail!("the other process continues: {why}"),
            Some(_) => bail!("the other process sent an unexpected message"),
        }
    }

    /// Waits until the logs that were open in the other process are open here.
    ///
    /// # Errors
    /// If a log cannot be opened, with its name and the reason. A log that cannot be opened is not
    /// an error if the other process has exited.
    pub(crate) async fn opened(&mut self, logs: &[Arc<Log>]) -> Result<Giver> {
        let all = async {
            for log in logs {
                let config = log.config();
                if self.running.contains(&config.key.log_id().to_string()) {
                    log.started().await;
                    if let State::Stopped { reason, .. } = log.state() {
                        bail!("log `{}` cannot be opened: {reason}", config.shortname);
                    }
                }
            }
            Ok(())
        };
        tokio::select! {
            opened = timeout(OPENING, all) => {
                opened.unwrap_or_else(|_| bail!("the logs are not open after {} s", OPENING.as_secs()))?;
                Ok(Giver::Waits)
            }
            said = self.wire.receive() => match said? {
                None => Ok(Giver::Dead),
                Some(Message::Withdrawn(why)) => bail!("the other process continues: {why}"),
                Some(_) => bail!("the other process sent an unexpected message"),
            },
        }
    }

    /// Takes over the name of the socket, and lets the other process exit.
    ///
    /// # Errors
    /// If the socket cannot be renamed. The other process has not been notified then.
    pub(crate) async fn lead(self, doorway: Doorway, estate: Estate) -> Result<Candidates> {
        let candidates = doorway.answer(estate)?;
        // systemd must know the new main process before the old one exits.
        notify::ready();
        // A dead process needs no message.
        let _ = timeout(RESPONSE_TIMEOUT, self.wire.send(&Message::Leading)).await;
        Ok(candidates)
    }

    /// Reports a failure, after which the other process continues.
    pub(crate) async fn fail(self, why: String) {
        let _ = timeout(RESPONSE_TIMEOUT, self.wire.send(&Message::Failed(why))).await;
    }
}
