//! The entries of a log, tile by tile, verified against the signed tree.

use std::sync::OnceLock;

use bytes::Bytes;
use lucarne_storage::Assets;
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile};

use super::unpack::{Unpacked, Unpackers};
use crate::data::tree::Tree;
use crate::error::{Away, Fatal, ReadError};
use crate::index::dedup::Record;
use crate::index::unreadable_entries::Gap;
use crate::read::stored_tiles;
use crate::read::verified_tiles::VerifiedTiles;

/// Reads the entries of the signed tree from storage.
pub(super) struct Source<'a> {
    pub(super) assets: &'a dyn Assets,
    pub(super) verified: &'a VerifiedTiles,
    pub(super) tree: &'a Tree,
    /// The threads start with the first tile.
    unpackers: OnceLock<Unpackers>,
}

/// The entries that storage has of one data tile.
#[derive(Default)]
pub(super) struct Found {
    /// Entries that are in the tree, in order.
    pub(super) entries: Vec<Record>,
    /// Entries that are missing. If no entry follows the last missing entries, the bound of their
    /// timestamps is unknown.
    pub(super) gaps: Vec<Gap>,
    /// The index of the first entry, found or missing.
    pub(super) first: u64,
    /// The number of bytes that were read.
    pub(super) read: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(assets: &'a dyn Assets, verified: &'a VerifiedTiles, tree: &'a Tree) -> Self {
        Source {
            assets,
            verified,
            tree,
            unpackers: OnceLock::new(),
        }
    }

    /// Reads data tile number `index`.
    pub(super) async fn read(&self, index: u64) -> Result<Found, Fatal> {
        let first = index * TILE_WIDTH;
        if index == self.tree.size() / TILE_WIDTH {
            // The partial tile at the right edge was verified when it was loaded.
            let edge = Unpacked::read(&self.tree.data.bytes, first, &mut Vec::new());
            return Ok(Found::of(edge, first, self.tree.size(), |_, _| true));
        }
        let Some(tile) = Tile::new(Level::Data, index, TILE_WIDTH as u16) else {
            return Err(Fatal::Internal(format!("no data tile has number {index}")));
        };
        let root = self.verified.entry(&self.tree.edge, 1, index).await;
        let (mut readable, mut read) = (Unpacked::default(), 0);
        if let Some(root) = known(root)? {
            for again in [false, true] {
                let (unpacked, bytes) = self.unpacked(tile, again).await?;
                read += bytes;
                if unpacked.root == Some(root) {
                    let found = Found::of(unpacked, first, tile.end_leaf(), |_, _| true);
                    return Ok(Found { read, ..found });
                }
                if unpacked.records.len() > readable.records.len() {
                    readable = unpacked;
                }
            }
        }
        let hashes = match Tile::new(Level::Hashes(0), index, TILE_WIDTH as u16) {
            Some(hashes) => known(self.verified.hashes(&self.tree.edge, hashes).await)?,
            None => None,
        };
        let hashes = hashes.unwrap_or_default();
        let found = Found::of(readable, first, tile.end_leaf(), |n, hash| {
            let at = n * Hash::LENGTH;
            hashes.get(at..at + Hash::LENGTH) == Some(hash)
        });
        Ok(Found { read, ..found })
    }

    /// Returns the readable entries of a full tile, and its stored length in bytes. With `again`,
    /// the tile did not match the tree, and is read from another copy if there is one.
    async fn unpacked(&self, tile: Tile, again: bool) -> Result<(Unpacked, usize), Fatal> {
        let path = tile.path();
        let found = if again {
            self.verified.unverified(&path).await
        } else {
            self.assets.get(&path).await
        };
        let bytes: Bytes = stored_tiles::if_readable(found)?.unwrap_or_default();
        let size = bytes.len();
        let unpacked = self.unpackers()?.unpack(bytes, tile.start_leaf()).await;
        let unpacked =
            unpacked.ok_or_else(|| Fatal::Internal(format!("no thread has unpacked {path}")))?;
        Ok((unpacked, size))
    }

    fn unpackers(&self) -> Result<&Unpackers, Fatal> {
        if let Some(unpackers) = self.unpackers.get() {
            return Ok(unpackers);
        }
        let started = Unpackers::start().map_err(|error| Fatal::Internal(error.to_string()))?;
        Ok(self.unpackers.get_or_init(|| started))
    }
}

impl Found {
    /// Returns the entries from `first` up to `end`: those of `unpacked` that are right by their
    /// hashes (`in_tree`), and gaps for the other entries.
    fn of(
        unpacked: Unpacked,
        first: u64,
        end: u64,
        in_tree: impl Fn(usize, &[u8]) -> bool,
    ) -> Found {
        let Unpacked {
            records, hashes, ..
        } = unpacked;
        let mut found = Found {
            first,
            ..Found::default()
        };
        let mut next = first;
        let hashes = hashes.chunks_exact(Hash::LENGTH);
        for (n, ((identity, place), hash)) in records.into_iter().zip(hashes).enumerate() {
            if in_tree(n, hash) {
                found.gap(next, place.index, place.timestamp_ms);
                next = place.index + 1;
                found.entries.push((identity, place));
            }
        }
        found.gap(next, end, u64::MAX);
        found
    }

    fn gap(&mut self, first: u64, end: u64, latest_ms: u64) {
        if first < end {
            self.gaps.push(Gap {
                first,
                end,
                latest_ms,
            });
        }
    }
}

/// Returns the verified result of a read; `None` if the file is damaged.
fn known<T>(read: Result<T, ReadError>) -> Result<Option<T>, Fatal> {
    match read {
        Ok(found) => Ok(Some(found)),
        // The reader has already logged the damage.
        Err(ReadError::Damaged { .. }) => Ok(None),
        Err(error) => Err(Away::Read(error).into()),
    }
}
