//! Every file of a log held against its signed tree head.
//!
//! Three witnesses speak for 256 entries: the tree above them, which a signature
//! vouches for, their hash tile, and their own bytes. Where two agree, the third is
//! to blame, and its first wrong byte is named. Nothing is written, and nothing that
//! could not be read counts as right.

pub(crate) mod beneath;
pub(crate) mod files;
mod finding;
mod leaf_tile;
mod parents;

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join3;
use futures_util::stream::{self, Stream, StreamExt};
use lucarne_ct::Fingerprint;
use lucarne_tlog::{Checkpoint, Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

pub use files::{Files, superseded};
pub use finding::{Finding, Problem};
use leaf_tile::{Expected, LeafTile, Seen};
use parents::Parents;

/// The place that a check begins at, or has got to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsckPosition {
    /// The index of the first data tile that is not checked yet.
    pub tile: u64,
    /// The time of the newest entry before it, Unix milliseconds.
    pub newest_ms: u64,
}

/// The entries of one data tile, checked.
#[derive(Debug)]
pub struct Checked {
    /// Entries from the first of the log to the last of this tile.
    pub entries: u64,
    /// The place to go on from.
    pub next: FsckPosition,
    /// Entries of this tile that are older than one before them.
    pub disordered: u64,
    /// The problems with these entries, and with what leads to them.
    pub findings: Vec<Finding>,
}

/// The names tiles that a check asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesTiles {
    /// Those of a log that makes them: if the last of its tiles has none, no other is asked for; and those
    /// before the first that is there were never made.
    AsFound,
    /// All: one that is not there is missing.
    All,
}

/// Checks the tree that `signed` describes, in the order of its entries and from
/// this place on, with `at_once` data tiles being read and hashed at a time. That
/// `signed` is signed is for the caller to know, who also sets the pace: nothing
/// is read that is not asked for.
pub fn fsck(
    files: Arc<dyn Files>,
    signed: Checkpoint,
    from: FsckPosition,
    at_once: usize,
    names: NamesTiles,
) -> impl Stream<Item = Checked> + Send {
    let reading = files.clone();
    let parents = async move {
        let asked = names == NamesTiles::All || has_names(&*reading, signed.size).await;
        let parents = Parents::of(reading, &signed).await;
        jobs(parents, from.tile, signed.size, asked)
    };
    let (each, issuers_of) = (files.clone(), files);
    let tiles = stream::once(parents)
        .flatten()
        .map(move |job| check(each.clone(), job))
        .buffered(at_once.max(1));
    let (mut issuers, mut newest_ms) = (HashSet::new(), from.newest_ms);
    let mut named = names == NamesTiles::All;
    tiles.then(move |(tile, mut seen)| {
        seen.judge_names(tile, &mut named);
        let disordered;
        (disordered, newest_ms) = seen.disordered(newest_ms);
        let unknown = seen.issuers.difference(&issuers).copied();
        let unknown: Vec<Fingerprint> = unknown.collect();
        issuers.extend(&unknown);
        let checked = Checked {
            entries: tile.end_leaf(),
            next: FsckPosition {
                tile: tile.index() + 1,
                newest_ms,
            },
            disordered,
            findings: seen.findings,
        };
        conclude(issuers_of.clone(), tile, checked, unknown)
    })
}

/// Adds what is wrong with the issuers of a tile.
async fn conclude(
    files: Arc<dyn Files>,
    tile: Tile,
    mut checked: Checked,
    issuers: Vec<Fingerprint>,
) -> Checked {
    for issuer in &issuers {
        let wrong = wrong_issuer(&*files, tile, issuer).await;
        checked.findings.extend(wrong);
    }
    checked
}

/// A data tile, what the tiles above say of it, and what is wrong with those.
struct Job {
    tile: Tile,
    expected: Expected,
    findings: Vec<Finding>,
    /// True if its names tile is asked for.
    names: bool,
}

/// Returns whether the log makes names tiles: the last of its tiles has one, as far as can be told.
async fn has_names(files: &dyn Files, size: u64) -> bool {
    let last = size.checked_sub(1);
    let last = last.and_then(|last| Tile::widest(Level::Data, last / TILE_WIDTH, size));
    match last {
        Some(last) => !matches!(files::names(files, last).await, Err(Problem::Missing)),
        None => false,
    }
}

/// The data tiles of a tree of `size` entries, from the one with index `first` on.
fn jobs(parents: Parents, first: u64, size: u64, names: bool) -> impl Stream<Item = Job> + Send {
    stream::unfold((parents, first), move |(mut parents, index)| async move {
        let tile = Tile::widest(Level::Data, index, size)?;
        let expected = parents.expected(index).await;
        let findings = parents.take_findings();
        let job = Job {
            tile,
            expected,
            findings,
            names,
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
    let names = async {
        match job.names {
            true => Some(files::names(&*files, tile).await),
            false => None,
        }
    };
    let (hashes, entries, names) = join3(hashes, files::tile(&*files, tile), names).await;
    let leaves = LeafTile {
        tile,
        expected: job.expected,
        hashes,
        entries,
        names,
    };
    let checked = spawn_blocking(move || leaves.check()).await;
    let mut seen = checked.unwrap_or_else(|error| Seen::unchecked(tile, &error));
    let told = |finding: &Finding| job.findings.iter().any(|told| told.path == finding.path);
    seen.findings.retain(|finding| !told(finding));
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
