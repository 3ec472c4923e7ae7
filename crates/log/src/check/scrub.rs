//! The scrubber: reads the files of a running log periodically, at a bounded rate, and verifies
//! them against the signed tree.
//!
//! Readers never receive a file that does not match the tree. But damage to a file that is seldom
//! read could stay unnoticed until the last good copy is damaged, too. The scrubber reports each
//! damaged file in the server's log, in `/health` and on the status page. The server withholds the
//! file until it is repaired.

mod pace;
mod position;
mod sample;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lucarne_ctread::Bucket;
use lucarne_storage::AssetError;
use lucarne_tlog::{Checkpoint, Tile};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use xxhash_rust::xxh3::xxh3_128;

use self::pace::Paced;
use self::position::Position;
use crate::check::fsck::{Finding, FsckOptions, FsckPosition, NamesTiles, Parts, Problem, fsck};
use crate::check::repair::Overlay;
use crate::check::restore;
use crate::config::scrub::ScrubConfig;
use crate::read::read_cache::FileId;
use crate::shared::Shared;

/// The interval at which the position is saved.
const NOTED_EVERY: Duration = Duration::from_secs(10);
/// The pause after the store could not be read.
const AWAY: Duration = Duration::from_secs(60);
/// Time limit for the response of the store. After this time, the store counts as unavailable.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The extent of a pass. Signatures in compressed tiles are not verified: that costs more than all
/// other checks, and the checksum of gzip detects damage as well.
const OPTIONS: FsckOptions = FsckOptions {
    at_once: 1,
    names: NamesTiles::AsFound,
    parts: Parts::Uncompressed,
};

/// The whole store, not a single file, is unavailable.
struct Away {
    /// The data tile at which the next attempt continues.
    tile: u64,
    problem: AwayReason,
}

#[derive(Debug, thiserror::Error)]
enum AwayReason {
    #[error("no checkpoint is published")]
    Unpublished,
    #[error("{location} does not respond")]
    Silent { location: String },
    #[error(transparent)]
    Storage(#[from] AssetError),
}

/// Checks the files of a log as long as the future is polled.
pub(crate) async fn scrub(log: Arc<Shared>, config: ScrubConfig) -> Infallible {
    let owner = log.config.key.log_id();
    let mut position = position::read(&config.position, owner).await;
    log.status.scrub.0.lock().ended_ms = position.ended_ms;
    sleep(config.delay).await;
    loop {
        let began = Instant::now();
        if config.sampling {
            position.tile = sample::random_tile(&log);
        }
        match pass(&log, &config, &mut position).await {
            Ok(findings) if config.sampling => {
                note_sample(&log, findings + list(&log).await);
                sleep_until(began + config.interval).await;
            }
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
                let problem = problem.to_string();
                tracing::warn!(
                    log = log.config.shortname,
                    problem,
                    "the scrubber cannot read the log's files: retrying in 60 s"
                );
                log.status.scrub.0.lock().away = Some(problem);
                position.tile = tile;
                sleep(AWAY).await;
            }
        }
    }
}

/// Compares a listing with the size of the tree, and returns how many tiles are missing.
async fn list(log: &Shared) -> u64 {
    let missing = match sample::missing(log).await {
        Ok(missing) => missing,
        Err(error) => {
            tracing::warn!(log = log.config.shortname, %error, "the scrubber cannot list the \
                                                                log's files, and looks for no \
                                                                missing tiles in this pass");
            return 0;
        }
    };
    let findings = missing.len() as u64;
    for finding in missing {
        report(log, finding, None).await;
    }
    findings
}

fn note_sample(log: &Shared, findings: u64) {
    let mut status = log.status.scrub.0.lock();
    status.pass = None;
    status.samples += 1;
    status.findings += findings;
}

fn note_pass(log: &Shared, findings: u64, now_ms: u64) {
    let seconds = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
    log.metrics.scrub_ended.set(seconds);
    let mut status = log.status.scrub.0.lock();
    status.ended_ms = Some(now_ms);
    status.findings = findings;
    status.pass = None;
    tracing::info!(log = log.config.shortname, findings, "scrub: pass ended");
}

/// Checks all published entries from `position` on, or one data tile if the scrubber samples.
/// Returns the number of problems.
async fn pass(
    log: &Arc<Shared>,
    config: &ScrubConfig,
    position: &mut Position,
) -> Result<u64, Away> {
    let Some(published) = log.reader.published() else {
        return Err(Away {
            tile: position.tile,
            problem: AwayReason::Unpublished,
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
    let mut tiles = pin!(fsck(Arc::new(files), signed.clone(), from, OPTIONS));
    loop {
        if let Some(window) = &config.window {
            window.opened(&log.config.clock).await;
        }
        let Some(checked) = tiles.next().await else {
            return Ok(findings);
        };
        let at = FsckPosition {
            tile: checked.next.tile - 1,
            newest_ms: 0,
        };
        findings += report_all(log, checked.findings, (&signed, at)).await?;
        position.tile = checked.next.tile;
        log.metrics.scrub_entries.set(checked.entries as i64);
        {
            let mut status = log.status.scrub.0.lock();
            status.pass = Some((checked.entries, published.size));
            status.away = None;
        }
        if config.sampling {
            return Ok(findings);
        }
        if noted.elapsed() >= NOTED_EVERY {
            position::write(&config.position, log.config.key.log_id(), *position).await;
            noted = Instant::now();
        }
    }
}

/// Reports the findings of one tile, and returns their number.
///
/// # Errors
/// If files cannot be read because the store is unavailable.
async fn report_all(
    log: &Arc<Shared>,
    findings: Vec<Finding>,
    (signed, at): (&Checkpoint, FsckPosition),
) -> Result<u64, Away> {
    let unread = |finding: &Finding| matches!(finding.problem, Problem::Unreadable(_));
    if findings.iter().any(unread) {
        present(log).await.map_err(|problem| Away {
            tile: at.tile,
            problem,
        })?;
    }
    let count = findings.len() as u64;
    for finding in findings {
        report(log, finding, Some((signed, at))).await;
    }
    Ok(count)
}

/// Distinguishes a file that cannot be read from a store that is unavailable.
async fn present(log: &Shared) -> Result<(), AwayReason> {
    let Ok(headroom) = timeout(STORE_TIMEOUT, log.assets.headroom()).await else {
        let location = log.assets.location();
        return Err(AwayReason::Silent { location });
    };
    headroom.map(drop).map_err(AwayReason::from)
}

/// Reports a problem to the operator, and withholds the file from readers.
async fn report(log: &Shared, finding: Finding, tile: Option<(&Checkpoint, FsckPosition)>) {
    log.metrics.scrub_findings.inc();
    tracing::error!(
        log = log.config.shortname,
        location = log.assets.location(),
        %finding,
        "scrub: a file differs from the bytes of the log. Unless a later line reports that the log \
         restored the file, run `lucarne repair`"
    );
    let Some(file) = FileId::parse(&finding.path) else {
        if let Ok(data) = Tile::parse_names(&finding.path)
            && !restore::names_tile(log, data).await
        {
            log.status.scrub.note_names(data, finding.to_string());
        }
        return;
    };
    match (&finding.problem, tile) {
        (Problem::Parts(_), Some(tile)) => condemn(log, file, tile).await,
        _ => log.reader.distrust(file, finding.in_words()).await,
    }
}

/// Returns the names tiles that the scrubber found wrong and could not restore, if they are still
/// wrong, in one line.
pub(crate) async fn wrong_names(log: &Shared) -> Option<String> {
    let mut problems = Vec::new();
    for (data, problem) in log.status.scrub.names() {
        match still_wrong(log, data).await {
            Some(false) => log.status.scrub.forget_names(data),
            Some(true) | None => problems.push(problem),
        }
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// Returns whether the names tile of a data tile differs from its entries; `None` if this cannot be
/// checked now.
async fn still_wrong(log: &Shared, data: Tile) -> Option<bool> {
    let published = log.reader.published()?;
    let signed = Checkpoint {
        origin: log.config.origin.clone(),
        size: published.size,
        root: published.root,
    };
    let at = FsckPosition {
        tile: data.index(),
        newest_ms: 0,
    };
    let files = Arc::new(Bucket(log.assets.clone()));
    let checked = pin!(fsck(files, signed, at, OPTIONS)).next().await?;
    let path = data.names_path()?;
    let mut findings = checked.findings.iter();
    Some(findings.any(|finding| finding.path == path))
}

/// Withholds a data tile from readers until it has other bytes, because its hashes do not reveal
/// the fault.
async fn condemn(log: &Shared, file: FileId, (signed, at): (&Checkpoint, FsckPosition)) {
    let path = file.path();
    let Ok(Some(bytes)) = log.assets.get(&path).await else {
        return;
    };
    let files = Arc::new(Bucket(log.assets.clone()));
    let same = Arc::new(Overlay::new(files, [(path.clone(), bytes.clone())]));
    let checked = pin!(fsck(same, signed.clone(), at, OPTIONS)).next().await;
    let findings = checked.map(|checked| checked.findings).unwrap_or_default();
    if let Some(finding) = findings.iter().find(|finding| finding.path == path) {
        let words = finding.in_words();
        log.reader.condemn(file, xxh3_128(&bytes), words).await;
    }
}
