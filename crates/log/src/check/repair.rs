//! Repair of wrong files of a log, from the tiles below the files or from other copies of the log.
//!
//! No source is trusted. The offered files replace the files of the log in memory only, and the
//! check that found the fault ([`fsck`]) runs again. An offered file is written only if the check
//! finds no fault in it, nor in the tiles that lead from it to the signed root.

mod entries;
mod offer;
mod overlay;
mod rename;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use lucarne_ct::{Fingerprint, Roots};
use lucarne_ctread::{Source, prefix};
use lucarne_storage::{Asset, AssetError, AssetKind, Encoding, Repairs};
use lucarne_tlog::{Checkpoint, Level, TILE_WIDTH, Tile};

use self::entries::Judge;
use self::offer::Origin;
pub use self::offer::OtherCopy;
pub use self::overlay::Overlay;
use crate::check::fsck::tiles::tile;
use crate::check::fsck::{Checked, Finding, FsckOptions, FsckPosition, NamesTiles, Problem, fsck};
use crate::check::unsigned::PartsError;

/// The log to repair, and the sources for the repair.
pub struct Repair {
    /// The files of the log.
    pub files: Arc<dyn Source>,
    /// The destination of the correct files.
    pub repairs: Arc<dyn Repairs>,
    /// Other complete or partial copies of the log, in the order of reading.
    pub sources: Vec<OtherCopy>,
    /// The tree. The caller has verified its signature.
    pub signed: Checkpoint,
    /// The roots that the log accepts. Chains of entries from other sources must lead to them.
    pub accepted: Arc<Roots>,
    /// Options of the check. A repair ignores `names`, and always expects all names tiles.
    pub options: FsckOptions,
}

/// An offered file that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Path of the file.
    pub path: String,
    /// Name of the copy, or of the other source, that offered the file.
    pub from: String,
    /// The reason why the offered file was rejected: a text, because refusals are compared and
    /// sorted.
    pub problem: String,
}

/// A file that was wrong and has been repaired.
#[derive(Debug)]
pub struct Cure {
    /// The fault of the file.
    pub finding: Finding,
    /// The source of the correct bytes, as text for operators.
    pub from: String,
    /// The path at which the wrong bytes are kept; `None` if the file was missing.
    pub kept: Option<String>,
}

/// A right file that could not be written. Its finding remains.
#[derive(Debug)]
pub struct Unwritten {
    /// Path of the file.
    pub path: String,
    /// The reason.
    pub problem: AssetError,
}

/// The result of checking and repairing one data tile.
#[derive(Debug)]
pub struct Repaired {
    /// The result of the check, with the problems that remain.
    pub checked: Checked,
    /// The repaired files.
    pub cures: Vec<Cure>,
    /// The rejected offers, if no offer was accepted.
    pub refusals: Vec<Refusal>,
    /// The files that could not be written.
    pub unwritten: Vec<Unwritten>,
}

/// Checks a log as [`fsck`] does, starting at `from`, and repairs wrong files. A tile with
/// repaired files is checked and returned again. A file that cannot be written does not end the
/// repair.
///
/// # Errors
/// The last item is an error if no more files can be written.
pub fn repair(
    repair: Repair,
    from: FsckPosition,
) -> impl Stream<Item = Result<Repaired, AssetError>> + Send {
    let walk = Walk {
        judge: Judge::new(repair.files.clone(), repair.accepted.clone()),
        repair,
        at: from,
        cured: HashSet::new(),
        unwritten: Vec::new(),
        failed: None,
    };
    stream::unfold(Some((walk, None)), async |state| {
        let (walk, tiles) = state?;
        walk.next(tiles).await
    })
}

struct Walk {
    repair: Repair,
    judge: Judge,
    /// The first tile that has not been reported.
    at: FsckPosition,
    /// Files that were replaced, with the replacing bytes. The same bytes are not written twice,
    /// because a fault that reappears means that the disk does not keep the bytes.
    cured: HashSet<(String, Fingerprint)>,
    /// The files of this tile that could not be written.
    unwritten: Vec<Unwritten>,
    /// The reason why no more files can be written.
    failed: Option<AssetError>,
}

/// A check in progress; `None` if the check must start again.
type Tiles = Option<BoxStream<'static, Checked>>;

impl Walk {
    /// Returns the result of the next tile, and the state to continue with.
    async fn next(
        mut self,
        tiles: Tiles,
    ) -> Option<(Result<Repaired, AssetError>, Option<(Self, Tiles)>)> {
        if let Some(error) = self.failed.take() {
            return Some((Err(error), None));
        }
        let mut tiles = tiles.unwrap_or_else(|| self.repair.check(&self.repair.files, self.at));
        let mut checked = tiles.next().await?;
        let (cures, refusals) = self.cure(&mut checked.findings).await;
        let tiles = if cures.is_empty() {
            self.at = checked.next;
            Some(tiles)
        } else {
            // The check has already compared the next tiles with the wrong files. It therefore
            // starts again at this tile, and finds the remaining faults again.
            checked.findings.clear();
            checked.next = self.at;
            None
        };
        let repaired = Repaired {
            checked,
            cures,
            refusals,
            unwritten: std::mem::take(&mut self.unwritten),
        };
        Some((Ok(repaired), Some((self, tiles))))
    }

    /// Repairs the files with these findings if possible, and removes their findings.
    async fn cure(&mut self, findings: &mut Vec<Finding>) -> (Vec<Cure>, Vec<Refusal>) {
        let sources = self.repair.sources.clone();
        let mut refusals = Vec::new();
        for wrong in wrong(findings, self.repair.signed.size) {
            for origin in Origin::all(&sources) {
                let log = (&self.repair.files, &self.judge);
                let offered = origin.offers(log, &wrong, &mut refusals).await;
                let cures = self.take(offered, &origin.to_string(), findings).await;
                if !cures.is_empty() {
                    return (cures, Vec::new());
                }
            }
        }
        // Fingerprints are restored last, because a source may have the missing issuer.
        let renamed = rename::renamed(&self.repair.files, &self.repair.accepted, findings).await;
        let cures = self.take(renamed, "the rest of its chain", findings).await;
        if !cures.is_empty() {
            return (cures, Vec::new());
        }
        refusals.sort();
        refusals.dedup();
        (Vec::new(), refusals)
    }

    /// Takes offered files that were not written before and that pass the check.
    async fn take(
        &mut self,
        mut offered: Vec<(String, Bytes)>,
        from: &str,
        findings: &mut Vec<Finding>,
    ) -> Vec<Cure> {
        if self.failed.is_some() {
            return Vec::new();
        }
        offered.retain(|(path, bytes)| {
            let cure = (path.clone(), Fingerprint::of(bytes));
            !self.cured.contains(&cure)
        });
        let offered = self.vouched(offered).await;
        self.replace(offered, from, findings).await
    }

    /// Replaces the wrong files with these files, and removes their findings.
    async fn replace(
        &mut self,
        files: Vec<(String, Bytes)>,
        from: &str,
        findings: &mut Vec<Finding>,
    ) -> Vec<Cure> {
        let size = self.repair.signed.size;
        let mut cures = Vec::new();
        for (path, bytes) in files {
            let is_of = |finding: &Finding| finding.path == path;
            let names = |finding: &Finding| elsewhere(finding, size).is_some_and(|it| is_of(&it));
            let finding = match findings.iter().position(is_of) {
                Some(place) => findings.remove(place),
                None => match findings.iter().position(names) {
                    Some(place) => match elsewhere(&findings.remove(place), size) {
                        Some(finding) => finding,
                        None => continue,
                    },
                    None => continue,
                },
            };
            self.cured.insert((path.clone(), Fingerprint::of(&bytes)));
            match self.repair.repairs.replace(asset(&path, bytes)).await {
                Ok(kept) => cures.push(Cure {
                    finding,
                    from: from.to_owned(),
                    kept,
                }),
                Err(problem) => {
                    findings.push(finding);
                    if !problem.is_of_one_file() {
                        self.failed = Some(problem);
                        break;
                    }
                    self.unwritten.push(Unwritten { path, problem });
                }
            }
        }
        cures
    }

    /// Checks the log with all offered files in place. Returns the offered files that are right:
    /// the check finds no fault in the file, nor in a tile between the file and the signed root.
    async fn vouched(&self, offered: Vec<(String, Bytes)>) -> Vec<(String, Bytes)> {
        if offered.is_empty() {
            return offered;
        }
        let trial = Overlay::new(self.repair.files.clone(), offered.iter().cloned());
        let trial: Arc<dyn Source> = Arc::new(trial);
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
    fn check(&self, files: &Arc<dyn Source>, from: FsckPosition) -> BoxStream<'static, Checked> {
        let (files, signed) = (files.clone(), self.signed.clone());
        let options = FsckOptions {
            names: NamesTiles::All,
            ..self.options
        };
        fsck(files, signed, from, options).boxed()
    }
}

/// Returns the files to replace, in the order of the attempts: first the files with findings, then
/// the data tiles whose fingerprint of a missing issuer may be damaged.
fn wrong(findings: &[Finding], size: u64) -> [Vec<String>; 2] {
    let lost = findings.iter().filter_map(lost).map(|it| it.path);
    let found = findings.iter().map(|it| it.path.clone());
    let found: BTreeSet<String> = found.chain(lost).collect();
    let misnamed = findings.iter().filter_map(|it| misnamed(it, size));
    let misnaming: BTreeSet<String> = misnamed.map(|it| it.path).collect();
    let misnaming = misnaming.difference(&found).cloned().collect();
    [found.into_iter().collect(), misnaming]
}

/// Returns the fault of another file that explains a finding as well.
fn elsewhere(finding: &Finding, size: u64) -> Option<Finding> {
    misnamed(finding, size).or_else(|| lost(finding))
}

/// Converts the finding of a damaged fingerprint to the finding of a missing issuer, because
/// another copy may have this issuer.
fn lost(finding: &Finding) -> Option<Finding> {
    let Problem::Parts(error) = &finding.problem else {
        return None;
    };
    let (PartsError::Fingerprint { found, .. } | PartsError::Completed { found, .. }) = error
    else {
        return None;
    };
    Some(Finding {
        path: format!("issuer/{found}"),
        offset: None,
        entry: finding.entry,
        problem: Problem::Missing,
    })
}

/// Converts the finding of a missing issuer to a fault of the data tile that names the issuer.
fn misnamed(finding: &Finding, size: u64) -> Option<Finding> {
    let issuer = finding.path.strip_prefix("issuer/")?.parse().ok()?;
    let entry = finding
        .entry
        .filter(|_| matches!(finding.problem, Problem::Missing))?;
    let tile = Tile::widest(Level::Data, entry / TILE_WIDTH, size)?;
    Some(Finding {
        path: tile.path(),
        offset: None,
        entry: finding.entry,
        problem: PartsError::NoIssuer(issuer).into(),
    })
}

/// Returns whether `to` cannot be verified while `upper` is wrong: both are the same file, or the
/// path from the signed root to `to` includes `upper`.
fn leads_to(upper: &str, to: &str, size: u64) -> bool {
    if upper == to {
        return true;
    }
    // A names tile is verified against the entries of its data tile.
    let names = Tile::parse_names(to);
    if names.is_ok_and(|data| data.path() == upper) {
        return true;
    }
    let (Ok(upper), Ok(to)) = (Tile::parse(upper), Tile::parse(to).or(names)) else {
        return false;
    };
    // All tiles of the right edge together give the root, which verifies all other tiles.
    let Level::Hashes(level) = upper.level() else {
        return false;
    };
    let on_edge = Tile::rightmost_partial(upper.level(), size);
    if on_edge.is_some_and(|edge| edge.index() == upper.index()) {
        return true;
    }
    let levels = match to.level() {
        // A data tile and the hash tile of its entries have the same index.
        Level::Data => Some(level),
        Level::Hashes(lower) => level.checked_sub(lower),
    };
    let above = levels.and_then(|levels| to.index().checked_shr(8 * u32::from(levels)));
    above == Some(upper.index())
}

/// Returns the correct file of a superseded partial tile, cut from the wider tile that replaced it;
/// `None` if the wider tile cannot be read.
pub async fn superseded_anew(files: &dyn Source, partial: Tile, size: u64) -> Option<Asset> {
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
