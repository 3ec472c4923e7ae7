//! Verification of every file of a log against its signed tree head.
//!
//! Three sources give the hashes of 256 entries: the signed tree above the entries, their hash
//! tile, and their data tile. If two sources agree, the third source is wrong, and the finding
//! names its first wrong byte. The verification writes nothing, and reports each file that it
//! cannot read.

pub(crate) mod beneath;
mod finding;
mod issuers;
mod leaf_tile;
mod parents;
pub(crate) mod tiles;

use std::sync::Arc;

use futures_util::future::join3;
use futures_util::stream::{self, Stream, StreamExt};
use lucarne_ctread::Source;
use lucarne_tlog::{Checkpoint, Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

pub use finding::{Finding, Problem};
use leaf_tile::{Expected, LeafTile, Seen};
use parents::Parents;
pub use tiles::superseded;

use crate::check::unsigned::Chains;

/// The position at which a check begins, or which a check has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsckPosition {
    /// The index of the first data tile that is not checked yet.
    pub tile: u64,
    /// Timestamp of the newest entry before this tile, in Unix milliseconds.
    pub newest_ms: u64,
}

/// The result for the entries of one data tile.
#[derive(Debug)]
pub struct Checked {
    /// Number of entries from the start of the log to the end of this tile.
    pub entries: u64,
    /// The start position of the next check.
    pub next: FsckPosition,
    /// Number of entries of this tile that are older than an earlier entry.
    pub disordered: u64,
    /// The problems with these entries, and with the tiles above them.
    pub findings: Vec<Finding>,
}

/// The names tiles that a check expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesTiles {
    /// The names tiles of a log that writes them. If the last data tile has no names tile, the
    /// check expects no names tiles at all. The check also does not expect names tiles before the
    /// first existing names tile.
    AsFound,
    /// All names tiles: a missing names tile is a finding.
    All,
}

/// Selects the data tiles whose unhashed parts are verified: precertificates, chains, and their
/// signatures. The tree has no hash of these parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All data tiles.
    All,
    /// The uncompressed data tiles. The checksum of gzip protects compressed tiles against bit rot.
    Uncompressed,
}

/// Options of a check: its concurrency, and the files that it expects and verifies.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Number of data tiles that are read and verified concurrently.
    pub at_once: usize,
    /// The expected names tiles.
    pub names: NamesTiles,
    /// The tiles whose entries are verified beyond their leaf hashes.
    pub parts: Parts,
}

impl FsckOptions {
    /// Returns options to check all existing files, with `at_once` data tiles concurrently.
    pub fn new(at_once: usize) -> Self {
        FsckOptions {
            at_once,
            names: NamesTiles::AsFound,
            parts: Parts::All,
        }
    }
}

/// Checks the tree with the head `signed`, in the order of its entries and from the position `from`
/// on. The caller verifies the signature of `signed`. The caller also sets the pace: the stream
/// reads only when polled.
pub fn fsck(
    files: Arc<dyn Source>,
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

/// A data tile to check, the hashes that the tiles above require, and the findings about the tiles
/// above.
struct Job {
    tile: Tile,
    expected: Expected,
    findings: Vec<Finding>,
    /// Whether the check expects the names tile.
    names: bool,
}

/// Returns whether the log writes names tiles: the last data tile has a names tile, or the attempt
/// to read this names tile fails.
async fn has_names(files: &dyn Source, size: u64) -> bool {
    let last = size.checked_sub(1);
    let last = last.and_then(|last| Tile::widest(Level::Data, last / TILE_WIDTH, size));
    match last {
        Some(last) => !matches!(tiles::names(files, last).await, Err(Problem::Missing)),
        None => false,
    }
}

/// Returns the data tiles of a tree of `size` entries, from the index `first` on.
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

/// Reads a data tile, its hash tile and its names tile, and returns the findings.
async fn check(chains: Arc<Chains>, parts: Parts, job: Job) -> (Tile, Seen) {
    let (tile, files) = (job.tile, chains.files());
    let hashes = async {
        let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width());
        tiles::tile(files, hashes.ok_or(Problem::Missing)?).await
    };
    let names = async {
        if job.names {
            Some(tiles::names(files, tile).await)
        } else {
            None
        }
    };
    let (hashes, entries, names) = join3(hashes, tiles::read(files, tile), names).await;
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
        // If an entry is wrong, the names in the entry cannot show whether the names tile is right.
        let names = tile.names_path();
        let is_names = |finding: &Finding| names.as_ref() == Some(&finding.path);
        seen.findings.retain(|finding| !is_names(finding));
        seen.findings.push(wrong);
    }
    (tile, seen)
}

/// Returns the finding for the first entry of a tile with a wrong precertificate or chain.
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
