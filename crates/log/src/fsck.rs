//! Every file of a log held against its signed tree head.
//!
//! Three witnesses speak for 256 entries: the tree above them, which a signature
//! vouches for, their hash tile, and their own bytes. Where two agree, the third is
//! to blame, and its first wrong byte is named. Nothing is written, and nothing that
//! could not be read counts as right.

pub(crate) mod beneath;
mod file_error;
pub(crate) mod files;
mod finding;
mod issuers;
mod leaf_tile;
mod parents;

use std::sync::Arc;

use futures_util::future::join3;
use futures_util::stream::{self, Stream, StreamExt};
use lucarne_tlog::{Checkpoint, Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

pub use file_error::FileError;
pub use files::{Files, superseded};
pub use finding::{Finding, Problem};
use leaf_tile::{Expected, LeafTile, Seen};
use parents::Parents;

use crate::unsigned::Chains;

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

/// The data tiles in which the parts of entries that the tree has not hashed are verified:
/// precertificates, chains, and their signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All.
    All,
    /// Those that are stored uncompressed. The others have the checksum of gzip against rot.
    Uncompressed,
}

/// The extent of a check.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Data tiles that are read and verified at a time.
    pub at_once: usize,
    /// The names tiles that are checked.
    pub names: NamesTiles,
    /// The tiles whose entries are verified beyond their leaf hashes.
    pub parts: Parts,
}

impl FsckOptions {
    /// Everything that is found, with `at_once` data tiles at a time.
    pub fn new(at_once: usize) -> Self {
        FsckOptions {
            at_once,
            names: NamesTiles::AsFound,
            parts: Parts::All,
        }
    }
}

/// Checks the tree that `signed` describes, in the order of its entries and from
/// this place on. That `signed` is signed is for the caller to know, who also sets
/// the pace: nothing is read that is not asked for.
pub fn fsck(
    files: Arc<dyn Files>,
    signed: Checkpoint,
    from: FsckPosition,
    options: FsckOptions,
) -> impl Stream<Item = Checked> + Send {
    let FsckOptions {
        at_once,
        names,
        parts,
    } = options;
    let reading = files.clone();
    let parents = async move {
        let asked = names == NamesTiles::All || has_names(&*reading, signed.size).await;
        let parents = Parents::of(reading, &signed).await;
        jobs(parents, from.tile, signed.size, asked)
    };
    let chains = Arc::new(Chains::of(files.clone()));
    let verifying = chains.clone();
    let tiles = stream::once(parents)
        .flatten()
        .map(move |job| check(verifying.clone(), parts, job))
        .buffered(at_once.max(1));
    let mut newest_ms = from.newest_ms;
    let mut named = names == NamesTiles::All;
    tiles.then(move |(tile, mut seen)| {
        seen.judge_names(tile, &mut named);
        let disordered;
        (disordered, newest_ms) = seen.disordered(newest_ms);
        let checked = Checked {
            entries: tile.end_leaf(),
            next: FsckPosition {
                tile: tile.index() + 1,
                newest_ms,
            },
            disordered,
            findings: seen.findings,
        };
        issuers::conclude(chains.clone(), tile, checked, seen.issuers)
    })
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
async fn check(chains: Arc<Chains>, parts: Parts, job: Job) -> (Tile, Seen) {
    let (tile, files) = (job.tile, chains.files());
    let hashes = async {
        let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width());
        files::tile(files, hashes.ok_or(Problem::Missing)?).await
    };
    let names = async {
        match job.names {
            true => Some(files::names(files, tile).await),
            false => None,
        }
    };
    let (hashes, entries, names) = join3(hashes, files::read(files, tile), names).await;
    let is_packed = entries.as_ref().is_ok_and(|read| read.is_packed);
    let entries = entries.map(|read| read.plain);
    let leaves = LeafTile {
        tile,
        expected: job.expected,
        hashes,
        entries,
        names,
    };
    let checked = spawn_blocking(move || leaves.check()).await;
    let mut seen = checked.unwrap_or_else(|error| Seen::unchecked(tile, error));
    let told = |finding: &Finding| job.findings.iter().any(|told| told.path == finding.path);
    seen.findings.retain(|finding| !told(finding));
    seen.findings.splice(0..0, job.findings);
    if (parts == Parts::All || !is_packed)
        && let Some(wrong) = wrong_parts(chains, tile, &mut seen).await
    {
        // The names of wrong entries say nothing about the names tile.
        let names = tile.names_path();
        let is_names = |finding: &Finding| names.as_ref() == Some(&finding.path);
        seen.findings.retain(|finding| !is_names(finding));
        seen.findings.push(wrong);
    }
    (tile, seen)
}

/// The first entry of a tile whose precertificate or chain is wrong.
async fn wrong_parts(chains: Arc<Chains>, tile: Tile, seen: &mut Seen) -> Option<Finding> {
    let entries = seen.entries.take()?;
    let issuers = chains.issuers(seen.issuers.keys().copied()).await;
    let count = usize::from(tile.width());
    let verify = move || chains.first_wrong(&entries, count, &issuers);
    let wrong = match spawn_blocking(verify).await {
        Ok(wrong) => wrong?,
        Err(error) => return Seen::unchecked(tile, error).findings.pop(),
    };
    Some(Finding {
        path: tile.path(),
        offset: Some(wrong.offset),
        entry: Some(tile.start_leaf() + wrong.entry),
        problem: wrong.error.into(),
    })
}

#[cfg(test)]
mod tests;
