//! Collection of the entries of a damaged data tile from memory, from other tiles and from the
//! journal.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lucarne_ct::{TileEntries, TileEntry};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};

use super::failure::{Failure, NoSource};
use super::{Right, staged};
use crate::data::record::Record;
use crate::read::stored_tiles;
use crate::shared::Shared;
use lucarne_ctread::{gunzip, is_gzip};

/// The entries of one tile that were found so far.
struct Gathered {
    /// Index of the first entry of the tile.
    first: u64,
    entries: Vec<Option<Bytes>>,
    /// The concatenated leaf hashes of the tile's entries, from the tree; `None` if they are
    /// unknown.
    leaves: Option<Bytes>,
}

impl Gathered {
    fn new(tile: Tile, leaves: Option<Bytes>) -> Self {
        Gathered {
            first: tile.start_leaf(),
            entries: vec![None; usize::from(tile.width())],
            leaves,
        }
    }

    /// Adds those of `entries` that are still missing and have the right leaf hash. The first of
    /// `entries` has the index `first`.
    fn add(&mut self, first: u64, entries: &Bytes) {
        let mut buffer = Vec::new();
        for TileEntry { index, bytes, leaf } in TileEntries::all(entries, first).flatten() {
            self.take(index, leaf.leaf_hash(&mut buffer), entries.slice(bytes));
        }
    }

    fn take(&mut self, index: u64, hash: Hash, entry: Bytes) {
        let Some(place) = index.checked_sub(self.first) else {
            return;
        };
        let place = place as usize;
        let is_right = self.leaves.as_ref().is_none_or(|leaves| {
            let due = leaves.get(place * Hash::LENGTH..(place + 1) * Hash::LENGTH);
            due == Some(&hash.0[..])
        });
        if let Some(slot) = self.entries.get_mut(place).filter(|_| is_right) {
            slot.get_or_insert(entry);
        }
    }

    fn add_rounds(&mut self, rounds: &[Record]) {
        let end = self.first + self.entries.len() as u64;
        for round in rounds {
            let step = &round.step;
            if step.old_size < end && step.new_size > self.first {
                self.add(step.old_size, &round.entries);
            }
        }
    }

    /// Concatenates all entries; returns `None` if an entry is missing.
    fn whole(&self) -> Option<Bytes> {
        let mut whole = BytesMut::new();
        for entry in &self.entries {
            whole.extend_from_slice(entry.as_ref()?);
        }
        Some(whole.freeze())
    }
}

/// Collects the entries of a data tile. Each entry has the leaf hash of the tree. The leaf hash
/// does not cover all parts of an entry; the checksum of the tile or of the journal covers the
/// other parts.
pub(super) async fn data_tile(
    log: &Shared,
    edge: &Arc<RightEdge>,
    tile: Tile,
) -> Result<Right, Failure> {
    let missing = || NoSource::Beyond { tile: tile.path() };
    let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width()).ok_or_else(missing)?;
    let leaves = log.reader.tiles().hashes(edge, hashes).await?;
    let mut gathered = Gathered::new(tile, Some(leaves));
    if let Some(tree) = log.reader.tree() {
        let first = tree.size() / TILE_WIDTH * TILE_WIDTH;
        gathered.add(first, &tree.data.bytes);
    }
    if let Some(plain) = gathered.whole() {
        let from = "the tree in memory";
        return Ok(Right { plain, from });
    }
    add_other_tiles(log, tile, &mut gathered).await?;
    if let Some(plain) = gathered.whole() {
        let from = "other tiles of the same entries";
        return Ok(Right { plain, from });
    }
    gathered.add_rounds(&staged(log).await?);
    match gathered.whole() {
        Some(plain) => Ok(Right {
            plain,
            from: "the journal",
        }),
        None => Err(NoSource::Entries.into()),
    }
}

/// Adds the entries of narrower and wider tiles. Only compressed tiles have a checksum.
async fn add_other_tiles(log: &Shared, tile: Tile, gathered: &mut Gathered) -> Result<(), Failure> {
    let full = tile.full();
    let widths = log.assets.partials(&full.path()).await?;
    let partials = widths.into_iter().rev();
    let partials = partials.filter_map(|width| Tile::new(Level::Data, tile.index(), width));
    let others = [full].into_iter().chain(partials);
    for other in others.filter(|other| *other != tile) {
        let found = stored_tiles::if_readable(log.assets.get(&other.path()).await)?;
        if let Some(packed) = found.filter(|found| is_gzip(found))
            && let Ok(plain) = gunzip(packed)
        {
            gathered.add(other.start_leaf(), &plain);
        }
    }
    Ok(())
}

/// Computes the leaf hashes of a hash tile of level 0 from the entries in the journal; `None` if
/// the journal lacks an entry. The caller must verify the hashes.
pub(super) async fn hashes_from_journal(
    log: &Shared,
    tile: Tile,
) -> Result<Option<Bytes>, Failure> {
    let mut gathered = Gathered::new(tile, None);
    gathered.add_rounds(&staged(log).await?);
    let leaves = gathered
        .whole()
        .and_then(|plain| lucarne_ctread::leaves(&plain).ok());
    Ok(leaves.map(|(leaves, _)| leaves.iter().flat_map(|leaf| leaf.0).collect()))
}
