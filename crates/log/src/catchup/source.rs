//! The entries of a log, tile by tile, as far as the signed tree vouches for them.

use std::sync::OnceLock;

use bytes::Bytes;
use lucarne_storage::Assets;
use lucarne_storage::guards::Guard;
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile};

use super::unpack::{Unpacked, Unpackers};
use crate::dedup::Record;
use crate::gaps::Gap;
use crate::tree::Tree;
use crate::verified_tiles::VerifiedTiles;
use crate::{Fatal, ReadError, stored};

/// The entries of the signed tree, as storage has them.
pub(super) struct Source<'a> {
    pub(super) assets: &'a dyn Assets,
    pub(super) verified: &'a VerifiedTiles,
    pub(super) tree: &'a Tree,
    /// Started with the first tile.
    unpackers: OnceLock<Unpackers>,
}

/// The entries that storage has of one data tile.
#[derive(Default)]
pub(super) struct Found {
    /// Entries that are in the tree, in order.
    pub(super) entries: Vec<Record>,
    /// Those that are not here. No timestamp of the last ones is known, if nothing follows them.
    pub(super) gaps: Vec<Gap>,
    /// The first entry, here or not.
    pub(super) first: u64,
    /// The number of bytes that were read for it.
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

    /// Returns what storage has of data tile number `index`.
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
                if unpacked.root == Some(root) || !Guard::VouchedRebuild.stands() {
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

    /// The entries of a full tile, as far as they can be read, and how many bytes
    /// it has. What does not fit is asked for `again`, of whoever else may have it.
    async fn unpacked(&self, tile: Tile, again: bool) -> Result<(Unpacked, usize), Fatal> {
        let path = tile.path();
        let found = match again {
            false => self.assets.get(&path).await,
            true => {
                let found = self.assets.get_for_reader(&path).await;
                found.map(|found| found.map(|found| found.bytes))
            }
        };
        let bytes: Bytes = stored::if_readable(found)?.unwrap_or_default();
        let size = bytes.len();
        let unpacked = self.unpackers()?.unpack(bytes, tile.start_leaf()).await;
        let unpacked =
            unpacked.ok_or_else(|| Fatal::Internal(format!("{path} is unpacked by no thread")))?;
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
    /// Entries from `first` up to `end`, of which `unpacked` are those that could
    /// be read, and `in_tree` tells by their hashes which of them are right.
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

/// Returns what storage has and the tree vouches for; `None` if it is damaged.
fn known<T>(read: Result<T, ReadError>) -> Result<Option<T>, Fatal> {
    match read {
        Ok(found) => Ok(Some(found)),
        // The reader has said it already.
        Err(ReadError::Damaged { .. }) => Ok(None),
        Err(error) => Err(Fatal::Away(error.to_string())),
    }
}
