//! Comparison of the entries of one data tile from three sources: the tree above them, their hash
//! tile, and their own bytes. If two sources agree, the third source is wrong, and the finding has
//! its first wrong byte.

use std::collections::HashMap;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, TileEntries};
use lucarne_ctread::SourceError;
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, tile_root};
use tokio::task::JoinError;

use super::finding::{Finding, Problem};
use crate::data::names_tile::lines;

/// The hashes of a tile, as far as the tree above gives them.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Root of a full tile.
    Root(Hash),
    /// Each hash of a partial tile, which is part of the right edge.
    Hashes(Bytes),
    /// Unknown, because the tile above is wrong itself.
    Unknown,
}

impl Expected {
    /// Returns whether these hashes are the expected hashes; `None` if the expected hashes are
    /// unknown.
    pub(super) fn holds(&self, hashes: &[u8]) -> Option<bool> {
        match self {
            Expected::Root(root) => Some(tile_root(hashes) == Some(*root)),
            Expected::Hashes(expected) => Some(hashes == expected.as_ref()),
            Expected::Unknown => None,
        }
    }
}

/// The contents of a hash tile of level 0, and of the data tile with the same entries.
pub(super) struct LeafTile {
    /// The data tile.
    pub(super) tile: Tile,
    /// The expected hashes, computed from the tile above.
    pub(super) expected: Expected,
    /// The bytes of the hash tile.
    pub(super) hashes: Result<Bytes, Problem>,
    /// The decompressed bytes of the data tile.
    pub(super) entries: Result<Bytes, Problem>,
    /// The lines of the names tile, if the check expects a names tile.
    pub(super) names: Option<Result<Bytes, Problem>>,
}

/// The position of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index in the log.
    pub(super) entry: u64,
    /// Offset of the entry in the tile, in bytes.
    pub(super) offset: u64,
}

/// The results for a data tile.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The findings, in the order of the entries.
    pub(super) findings: Vec<Finding>,
    /// The timestamps of the entries in Unix milliseconds.
    pub(super) times_ms: Vec<u64>,
    /// The issuers in the chains of entries, each with its first entry.
    pub(super) issuers: HashMap<Fingerprint, Place>,
    /// The entries, if the check has not found any of them wrong.
    pub(super) entries: Option<Bytes>,
    /// Whether the names tile exists; `None` if the check expects no names tile.
    names: Option<bool>,
}

/// The hashes of the entries of a data tile.
#[derive(Default)]
struct Hashed {
    hashes: Vec<u8>,
    /// The offset of each entry.
    offsets: Vec<usize>,
}

impl LeafTile {
    /// Compares entries, hash tile and tree.
    pub(super) fn check(self) -> Seen {
        let mut seen = Seen::default();
        let LeafTile {
            tile,
            expected,
            hashes,
            entries,
            names,
        } = self;
        let hash_path = || {
            let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width());
            hashes.map(|tile| tile.path()).unwrap_or_default()
        };
        let first = tile.index() * TILE_WIDTH;
        let entries = match entries {
            Ok(entries) => Some(entries),
            Err(problem) => {
                seen.found(tile.path(), None, Some(first), problem);
                None
            }
        };
        let hashed = entries.as_ref().and_then(|it| seen.read(tile, it));
        let hashes = match hashes {
            Ok(hashes) => Some(hashes),
            Err(problem) => {
                seen.found(hash_path(), None, Some(first), problem);
                None
            }
        };
        match (hashes, hashed) {
            (Some(hashes), Some(hashed)) => {
                seen.compare(tile, hash_path, &expected, &hashes, &hashed);
            }
            // Without a second source, a file cannot be confirmed.
            (Some(alone), None) if expected.holds(&alone) != Some(true) => {
                seen.found(hash_path(), None, Some(first), Problem::Root);
            }
            (None, Some(alone)) if expected.holds(&alone.hashes) != Some(true) => {
                seen.found(tile.path(), None, Some(first), Problem::Root);
            }
            _ => {}
        }
        // The names tile is compared only with correct entries.
        let path = tile.path();
        let are_right = !seen.findings.iter().any(|finding| finding.path == path);
        seen.entries = entries.filter(|_| are_right);
        seen.forget_doubtful_issuers(&path);
        if let Some(entries) = seen.entries.clone() {
            seen.compare_names(tile, &entries, names);
        }
        seen
    }
}

impl Seen {
    /// Returns the result of a check that failed itself.
    pub(super) fn unchecked(tile: Tile, error: JoinError) -> Self {
        let mut seen = Seen::default();
        let problem =
            Problem::Unreadable(SourceError::unavailable(format!("check failed: {error}")));
        seen.found(tile.path(), None, Some(tile.start_leaf()), problem);
        seen
    }

    /// Counts the entries with an earlier timestamp than a preceding entry. Returns the newest
    /// timestamp so far. The tree has hashed these timestamps. A wrong order is not damage, and no
    /// specification forbids it.
    pub(super) fn disordered(&self, newest_ms: u64) -> (u64, u64) {
        let older = |(count, newest_ms): (u64, u64), time_ms: &u64| {
            if *time_ms < newest_ms {
                (count + 1, newest_ms)
            } else {
                (count, *time_ms)
            }
        };
        self.times_ms.iter().fold((0, newest_ms), older)
    }

    fn found(&mut self, path: String, offset: Option<u64>, entry: Option<u64>, problem: Problem) {
        self.findings.push(Finding {
            path,
            offset,
            entry,
            problem,
        });
    }

    /// Reads and hashes the entries; returns `None` if an entry is invalid.
    fn read(&mut self, tile: Tile, entries: &[u8]) -> Option<Hashed> {
        let mut buffer = Vec::new();
        let mut hashed = Hashed::default();
        let mut read = TileEntries::first(entries, tile.start_leaf(), tile.width().into());
        for index in tile.start_leaf().. {
            let offset = read.read();
            let here = |problem| (tile.path(), Some(offset as u64), Some(index), problem);
            let leaf = match read.next() {
                Some(Ok(entry)) => entry.leaf,
                Some(Err(error)) => {
                    let (path, offset, entry, problem) = here(error.into());
                    self.found(path, offset, entry, problem);
                    return None;
                }
                None => break,
            };
            if leaf.index != index {
                let (path, offset, entry, problem) = here(Problem::Index(leaf.index));
                self.found(path, offset, entry, problem);
            }
            self.times_ms.push(leaf.timestamp);
            let place = Place {
                entry: index,
                offset: offset as u64,
            };
            for fingerprint in leaf.fingerprints {
                self.issuers.entry(fingerprint).or_insert(place);
            }
            let hash = leaf.leaf_hash(&mut buffer);
            hashed.hashes.extend_from_slice(&hash.0);
            hashed.offsets.push(offset);
        }
        let rest = read.rest().len();
        if rest > 0 {
            let extra = Problem::Extra(rest);
            self.found(tile.path(), Some(read.read() as u64), None, extra);
        }
        Some(hashed)
    }

    /// Keeps only the issuers of entries that end at least one entry before the first wrong entry.
    /// If the length of a chain is damaged, bytes of the next entry are read as fingerprints.
    fn forget_doubtful_issuers(&mut self, path: &str) {
        let wrong = self.findings.iter().filter(|finding| finding.path == path);
        if let Some(wrong) = wrong.filter_map(|finding| finding.entry).min() {
            self.issuers.retain(|_, place| place.entry + 1 < wrong);
        }
    }

    /// Compares the names tile with the lines of these entries.
    fn compare_names(&mut self, tile: Tile, entries: &[u8], names: Option<Result<Bytes, Problem>>) {
        let (Some(names), Some(path)) = (names, tile.names_path()) else {
            return;
        };
        self.names = Some(!matches!(names, Err(Problem::Missing)));
        let first = tile.start_leaf();
        match (names, lines(entries)) {
            (Err(Problem::Missing), _) => {}
            (Err(problem), _) => self.found(path, None, Some(first), problem),
            // This does not happen, because the entries were parsed before.
            (Ok(_), Err(_)) => {}
            (Ok(found), Ok(due)) if found != due => {
                let differing = found.iter().zip(&due).position(|(a, b)| a != b);
                let at = differing.unwrap_or_else(|| found.len().min(due.len()));
                let before = due[..at].iter().filter(|byte| **byte == b'\n').count();
                let entry = Some(first + before as u64);
                self.found(path, Some(at as u64), entry, Problem::Names);
            }
            (Ok(_), Ok(_)) => {}
        }
    }

    /// Reports a missing names tile if `before` is true: an earlier data tile has a names tile.
    /// Sets `before` if this tile has a names tile.
    pub(super) fn judge_names(&mut self, tile: Tile, before: &mut bool) {
        match (self.names, tile.names_path()) {
            (Some(true), _) => *before = true,
            (Some(false), Some(path)) if *before => {
                self.found(path, None, Some(tile.start_leaf()), Problem::Missing);
            }
            _ => {}
        }
    }

    /// Compares the stored hashes with the hashes of the data tile. Reports the file that differs
    /// from the tree.
    fn compare(
        &mut self,
        tile: Tile,
        hash_path: impl Fn() -> String,
        expected: &Expected,
        hashes: &[u8],
        hashed: &Hashed,
    ) {
        let first = tile.index() * TILE_WIDTH;
        let differing = hashes
            .chunks(Hash::LENGTH)
            .zip(hashed.hashes.chunks(Hash::LENGTH))
            .position(|(stored, computed)| stored != computed);
        let by_tree = (expected.holds(hashes), expected.holds(&hashed.hashes));
        match (differing, by_tree) {
            (None, (Some(false), _)) => {
                self.found(hash_path(), None, Some(first), Problem::Foreign);
            }
            (None, _) => {}
            (Some(at), (_, Some(true))) => {
                let stored = &hashes[at * Hash::LENGTH..];
                let computed = &hashed.hashes[at * Hash::LENGTH..];
                let byte = stored.iter().zip(computed).position(|(a, b)| a != b);
                let offset = (at * Hash::LENGTH + byte.unwrap_or_default()) as u64;
                let entry = Some(first + at as u64);
                self.found(hash_path(), Some(offset), entry, Problem::Hash);
            }
            (Some(at), (Some(true), _)) => {
                let offset = hashed.offsets.get(at).map(|offset| *offset as u64);
                let entry = Some(first + at as u64);
                self.found(tile.path(), offset, entry, Problem::Leaf);
            }
            // The tree confirms neither file: both are reported, with their first difference.
            (Some(at), _) => {
                let entry = Some(first + at as u64);
                let offset = (at * Hash::LENGTH) as u64;
                self.found(hash_path(), Some(offset), entry, Problem::Root);
                let offset = hashed.offsets.get(at).map(|offset| *offset as u64);
                self.found(tile.path(), offset, entry, Problem::Root);
            }
        }
    }
}
