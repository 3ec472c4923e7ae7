//! The scrubber: reads the files of a running log again and again, at a bounded
//! rate, and holds them against the signed tree.
//!
//! Readers get nothing that does not fit the tree, but what nobody reads rots
//! unseen, until the last good copy has rotted as well. What is found here is
//! named in the log, in `/health` and on the page, and is not served before it is
//! whole again.

mod config;
mod pace;
mod position;
pub(crate) mod status;
mod window;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lucarne_tlog::Checkpoint;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::pace::Paced;
use self::position::Position;
use crate::fsck::{Finding, FsckPosition, NamesTiles, Problem, fsck};
use crate::read_cache::FileId;
use crate::shared::Shared;

pub use self::config::ScrubConfig;
pub use self::window::{NoWindow, ScrubWindow};

/// The interval at which the position is written down.
const NOTED_EVERY: Duration = Duration::from_secs(10);
/// The pause before a store that does not answer is asked again.
const AWAY: Duration = Duration::from_secs(60);
/// A store that does not answer within this is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// The store, and not a file, does not answer.
struct Away {
    /// The data tile to go on from.
    tile: u64,
    problem: String,
}

/// Checks the files of a log for as long as it is polled.
pub(crate) async fn scrub(log: Arc<Shared>, config: ScrubConfig) -> Infallible {
    let owner = log.config.key.log_id();
    let mut position = position::read(&config.position, owner).await;
    log.scrub.0.lock().ended_ms = position.ended_ms;
    sleep(config.delay).await;
    loop {
        let began = Instant::now();
        match pass(&log, &config, &mut position).await {
            Ok(findings) => {
                let now_ms = log.config.clock.now_ms();
                position = Position {
                    tile: 0,
                    ended_ms: Some(now_ms),
                };
                position::write(&config.position, owner, position).await;
                note_pass(&log, findings, now_ms);
                sleep_until(began + config.interval).await;
            }
            Err(Away { tile, problem }) => {
                tracing::warn!(
                    log = log.config.shortname,
                    problem,
                    "the scrubber cannot read"
                );
                log.scrub.0.lock().away = Some(problem);
                position.tile = tile;
                sleep(AWAY).await;
            }
        }
    }
}

fn note_pass(log: &Shared, findings: u64, now_ms: u64) {
    let seconds = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
    log.metrics.scrub_ended.set(seconds);
    let mut status = log.scrub.0.lock();
    status.ended_ms = Some(now_ms);
    status.findings = findings;
    status.pass = None;
    tracing::info!(log = log.config.shortname, findings, "scrub: pass ended");
}

/// Checks all entries that are published now, from `position` on, and returns how
/// many problems it found.
async fn pass(
    log: &Arc<Shared>,
    config: &ScrubConfig,
    position: &mut Position,
) -> Result<u64, Away> {
    let Some(published) = log.reader.published() else {
        return Err(Away {
            tile: position.tile,
            problem: "no checkpoint is published".into(),
        });
    };
    let signed = Checkpoint {
        origin: log.config.origin.clone(),
        size: published.size,
        root: published.root,
    };
    let rate = config.bytes_per_second;
    let files = Paced::new(log.assets.clone(), rate, log.metrics.scrub_read.clone());
    let from = FsckPosition {
        tile: position.tile,
        newest_ms: 0,
    };
    let (mut noted, mut findings) = (Instant::now(), 0);
    let mut tiles = pin!(fsck(Arc::new(files), signed, from, 1, NamesTiles::AsFound));
    loop {
        if let Some(window) = &config.window {
            window.opened(&log.config.clock).await;
        }
        let Some(checked) = tiles.next().await else {
            return Ok(findings);
        };
        let unread = |finding: &Finding| matches!(finding.problem, Problem::Unreadable(_));
        if checked.findings.iter().any(unread) {
            present(log).await.map_err(|problem| Away {
                tile: checked.next.tile - 1,
                problem,
            })?;
        }
        for finding in checked.findings {
            findings += 1;
            report(log, finding).await;
        }
        position.tile = checked.next.tile;
        log.metrics.scrub_entries.set(checked.entries as i64);
        {
            let mut status = log.scrub.0.lock();
            status.pass = Some((checked.entries, published.size));
            status.away = None;
        }
        if noted.elapsed() >= NOTED_EVERY {
            position::write(&config.position, log.config.key.log_id(), *position).await;
            noted = Instant::now();
        }
    }
}

/// Tells a file that cannot be read from a store that is not there.
async fn present(log: &Shared) -> Result<(), String> {
    let location = log.assets.location();
    match timeout(PATIENCE, log.assets.headroom()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{location} does not answer")),
    }
}

/// Tells the operator of a problem, and sees to it that no reader gets the file.
async fn report(log: &Shared, finding: Finding) {
    log.metrics.scrub_findings.inc();
    tracing::error!(
        log = log.config.shortname,
        location = log.assets.location(),
        %finding,
        "scrub: a file is not what the log wrote. Put it back: lucarne repair"
    );
    if let Some(file) = FileId::parse(&finding.path) {
        log.reader.distrust(file, finding.in_words()).await;
    }
}
