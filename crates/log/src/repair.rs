//! Wrong files of a log put right: from what lies beneath them, or from other places
//! that hold the same log.
//!
//! Nobody is believed. What is offered in place of a file is laid over it in memory,
//! and the check that found the fault ([`fsck`]) is run again: only what it finds no
//! fault with, and what tiles up to the signed root vouch for, is written.

mod offer;
mod overlay;
#[cfg(test)]
mod tests;
mod unsigned;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use lucarne_ct::Fingerprint;
use lucarne_storage::{Asset, AssetError, AssetKind, Encoding, Repairs};
use lucarne_tlog::{Checkpoint, Level, Tile};

use self::offer::Origin;
pub use self::offer::Source;
pub use self::overlay::Overlay;
use crate::fsck::files::tile;
use crate::stored::prefix;
use crate::{Checked, Files, Finding, FsckPosition, NamesTiles, fsck};

/// The log that is put right, and what with.
pub struct Repair {
    /// Its files.
    pub files: Arc<dyn Files>,
    /// Where right ones are written to.
    pub repairs: Arc<dyn Repairs>,
    /// Other places that hold the same log, or some of it. They are asked in this order.
    pub sources: Vec<Source>,
    /// The tree. That it is signed is for the caller to know.
    pub signed: Checkpoint,
    /// Data tiles that are read and hashed at a time.
    pub at_once: usize,
}

/// A file that was wrong and is right.
#[derive(Debug)]
pub struct Cure {
    /// The fault that it had.
    pub finding: Finding,
    /// Where the right bytes come from, in words.
    pub from: String,
    /// Where the wrong ones are kept; `None` if there were none.
    pub kept: Option<String>,
}

/// The entries of one data tile, checked, and what has been put right.
#[derive(Debug)]
pub struct Repaired {
    /// The check, with what is still wrong.
    pub checked: Checked,
    /// The files that were wrong, and are not any more.
    pub cures: Vec<Cure>,
}

/// Checks a log as [`fsck`] does, from this place on, and puts right what it can. A tile
/// of which something has been put right comes again, for it is checked again.
///
/// # Errors
/// The last item is one if a right file could not be written.
pub fn repair(
    repair: Repair,
    from: FsckPosition,
) -> impl Stream<Item = Result<Repaired, AssetError>> + Send {
    let walk = Walk {
        repair,
        at: from,
        cured: HashSet::new(),
    };
    stream::unfold(Some((walk, None)), async |state| {
        let (walk, tiles) = state?;
        walk.next(tiles).await
    })
}

struct Walk {
    repair: Repair,
    /// The first tile that has not been told.
    at: FsckPosition,
    /// The bytes that were put in place of which file. They are not put there twice: its disk does not
    /// keep what is written.
    cured: HashSet<(String, Fingerprint)>,
}

/// A check that goes on; `None` if it is to begin anew.
type Tiles = Option<BoxStream<'static, Checked>>;

impl Walk {
    /// The next tile, and with what to go on.
    async fn next(
        mut self,
        tiles: Tiles,
    ) -> Option<(Result<Repaired, AssetError>, Option<(Self, Tiles)>)> {
        let mut tiles = tiles.unwrap_or_else(|| self.repair.check(&self.repair.files, self.at));
        let mut checked = tiles.next().await?;
        let cures = match self.cure(&mut checked.findings).await {
            Ok(cures) => cures,
            Err(error) => return Some((Err(error), None)),
        };
        let tiles = match cures.is_empty() {
            true => {
                self.at = checked.next;
                Some(tiles)
            }
            // What was read ahead was held against what was wrong: the check goes back.
            // What is still wrong is found again.
            false => {
                checked.findings.clear();
                checked.next = self.at;
                None
            }
        };
        Some((Ok(Repaired { checked, cures }), Some((self, tiles))))
    }

    /// Puts right what it can of these findings, and takes that out of them.
    async fn cure(&mut self, findings: &mut Vec<Finding>) -> Result<Vec<Cure>, AssetError> {
        // A file may have several faults.
        let wrong: BTreeSet<&String> = findings.iter().map(|finding| &finding.path).collect();
        let wrong: Vec<String> = wrong.into_iter().cloned().collect();
        for origin in Origin::all(&self.repair.sources) {
            let mut offered = origin.offers(&self.repair.files, &wrong).await;
            offered.retain(|(path, bytes)| {
                let cure = (path.clone(), Fingerprint::of(bytes));
                !self.cured.contains(&cure)
            });
            let mut cures = Vec::new();
            for (path, bytes) in self.vouched(offered).await {
                let Some(place) = findings.iter().position(|finding| finding.path == path) else {
                    continue;
                };
                self.cured.insert((path.clone(), Fingerprint::of(&bytes)));
                let kept = self.repair.repairs.replace(asset(&path, bytes)).await?;
                let (finding, from) = (findings.remove(place), origin.to_string());
                cures.push(Cure {
                    finding,
                    from,
                    kept,
                });
            }
            if !cures.is_empty() {
                return Ok(cures);
            }
        }
        Ok(Vec::new())
    }

    /// Those of the files offered with which the check finds no fault, neither with them
    /// nor with what leads to them.
    async fn vouched(&self, offered: Vec<(String, Bytes)>) -> Vec<(String, Bytes)> {
        if offered.is_empty() {
            return offered;
        }
        let trial = Overlay::new(self.repair.files.clone(), offered.iter().cloned());
        let trial: Arc<dyn Files> = Arc::new(trial);
        let checked = self.repair.check(&trial, self.at).next().await;
        let wrong = checked.map(|checked| checked.findings).unwrap_or_default();
        let size = self.repair.signed.size;
        let right = |(path, _): &(String, Bytes)| {
            let against = |finding: &Finding| leads_to(&finding.path, path, size);
            !wrong.iter().any(against)
        };
        offered.into_iter().filter(right).collect()
    }
}

impl Repair {
    fn check(&self, files: &Arc<dyn Files>, from: FsckPosition) -> BoxStream<'static, Checked> {
        let (files, signed) = (files.clone(), self.signed.clone());
        fsck(files, signed, from, self.at_once, NamesTiles::All).boxed()
    }
}

/// Returns whether `to` cannot be judged while `upper` is wrong: they are one file, or the
/// signed root leads to `to` by `upper`.
fn leads_to(upper: &str, to: &str, size: u64) -> bool {
    if upper == to {
        return true;
    }
    // A names tile is judged by the entries of its data tile.
    let names = Tile::parse_names(to);
    if names.is_ok_and(|data| data.path() == upper) {
        return true;
    }
    let (Ok(upper), Ok(to)) = (Tile::parse(upper), Tile::parse(to).or(names)) else {
        return false;
    };
    // Every tile of the right edge leads to the root, and the root to all others.
    let Level::Hashes(level) = upper.level() else {
        return false;
    };
    let on_edge = Tile::rightmost_partial(upper.level(), size);
    if on_edge.is_some_and(|edge| edge.index() == upper.index()) {
        return true;
    }
    let levels = match to.level() {
        // A data tile and the hash tile of its entries have one index.
        Level::Data => Some(level),
        Level::Hashes(lower) => level.checked_sub(lower),
    };
    let above = levels.and_then(|levels| to.index().checked_shr(8 * u32::from(levels)));
    above == Some(upper.index())
}

/// The right bytes of a partial tile that is needed no more, from the wider one that has
/// taken its place.
pub async fn superseded_anew(files: &dyn Files, partial: Tile, size: u64) -> Option<Asset> {
    let wider = Tile::widest(partial.level(), partial.index(), size)?;
    let bytes = tile(files, wider).await.ok()?;
    let stored = offer::stored(partial, prefix(partial, bytes).ok()?)?;
    Some(asset(&partial.path(), stored))
}

fn asset(path: &str, bytes: Bytes) -> Asset {
    let kind = match Tile::parse(path).map(|tile| tile.level()) {
        Ok(Level::Data) => AssetKind::DataTile {
            encoding: Encoding::Gzip,
        },
        Ok(Level::Hashes(_)) => AssetKind::HashTile,
        Err(_) if Tile::parse_names(path).is_ok() => AssetKind::NamesTile,
        Err(_) => AssetKind::Issuer,
    };
    Asset::new(path, bytes, kind)
}
