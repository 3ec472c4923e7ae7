//! Every file of a log held against its signed tree head.
//!
//! Three witnesses speak for 256 entries: the tree above them, which a signature
//! vouches for, their hash tile, and their own bytes. Where two agree, the third is
//! to blame, and its first wrong byte is named. Nothing is written, and nothing that
//! could not be read counts as right.

mod files;
mod finding;
mod leaf_tile;
mod parents;

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt};
use lucarne_ct::Fingerprint;
use lucarne_tlog::{Checkpoint, Level, Tile};
use tokio::task::spawn_blocking;

pub use files::Files;
pub use finding::{Finding, Problem};
use leaf_tile::{Expected, LeafTile, Seen};
use parents::Parents;

/// The entries of one data tile, checked.
#[derive(Debug)]
pub struct Checked {
    /// Entries that have been looked at so far, from the first.
    pub entries: u64,
    /// The problems with these, and with what leads to them.
    pub findings: Vec<Finding>,
}

/// Checks the tree that `signed` describes, in the order of its entries, with
/// `at_once` data tiles being read and hashed at a time, and tells of each. That
/// `signed` is signed is for the caller to know.
pub async fn fsck(
    files: Arc<dyn Files>,
    signed: &Checkpoint,
    at_once: usize,
    mut tell: impl FnMut(Checked),
) {
    let parents = Parents::of(files.clone(), signed).await;
    let checked = jobs(parents, signed.size)
        .map(|job| check(files.clone(), job))
        .buffered(at_once.max(1));
    futures_util::pin_mut!(checked);
    let (mut issuers, mut before_ms) = (HashSet::new(), 0);
    while let Some((tile, mut seen)) = checked.next().await {
        seen.after(tile, &mut before_ms);
        for issuer in seen.issuers.difference(&issuers) {
            seen.findings
                .extend(wrong_issuer(&*files, tile, issuer).await);
        }
        issuers.extend(seen.issuers);
        tell(Checked {
            entries: tile.end_leaf(),
            findings: seen.findings,
        });
    }
}

/// A data tile, what the tiles above say of it, and what is wrong with those.
struct Job {
    tile: Tile,
    expected: Expected,
    findings: Vec<Finding>,
}

/// The data tiles of a tree of `size` entries.
fn jobs(parents: Parents, size: u64) -> impl Stream<Item = Job> {
    stream::unfold((parents, 0), move |(mut parents, index)| async move {
        let tile = Tile::widest(Level::Data, index, size)?;
        let expected = parents.expected(index).await;
        let findings = parents.take_findings();
        let job = Job {
            tile,
            expected,
            findings,
        };
        Some((job, (parents, index + 1)))
    })
}

/// Reads a data tile and the hash tile of the same entries, and compares them.
async fn check(files: Arc<dyn Files>, job: Job) -> (Tile, Seen) {
    let tile = job.tile;
    let hashes = async {
        let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width());
        files::tile(&*files, hashes.ok_or(Problem::Missing)?).await
    };
    let (hashes, entries) = futures_util::join!(hashes, files::tile(&*files, tile));
    let leaves = LeafTile {
        tile,
        expected: job.expected,
        hashes,
        entries,
    };
    let checked = spawn_blocking(move || leaves.check()).await;
    let mut seen = checked.unwrap_or_else(|error| Seen::unchecked(tile, &error));
    seen.findings.splice(0..0, job.findings);
    (tile, seen)
}

/// Returns what is wrong with the certificate that entries of `tile` refer to.
async fn wrong_issuer(files: &dyn Files, tile: Tile, issuer: &Fingerprint) -> Option<Finding> {
    let path = format!("issuer/{issuer}");
    let problem = match files.read(&path).await {
        Ok(Some(der)) if Fingerprint::of(&der) == *issuer => return None,
        Ok(Some(_)) => Problem::Issuer,
        Ok(None) => Problem::Missing,
        Err(error) => Problem::Unreadable(error),
    };
    Some(Finding {
        path,
        offset: None,
        entry: Some(tile.start_leaf()),
        problem,
    })
}

#[cfg(test)]
mod tests;
