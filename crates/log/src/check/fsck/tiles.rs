//! Tiles from a source of files, decompressed.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ctread::{Source, gunzip, is_gzip, leaves, plain, prefix, stored, stored_at};
use lucarne_tlog::{Level, Tile};

use super::finding::{Finding, Problem};
use crate::check::unsigned::{Chains, named};

/// A tile that was read.
pub(crate) struct Read {
    /// Uncompressed bytes of the tile.
    pub(crate) plain: Bytes,
    /// Whether the tile is stored compressed: the checksum of gzip covers the whole tile.
    pub(crate) is_packed: bool,
}

/// Reads a tile. If a partial tile is missing, the full tile replaces it, because partial tiles may
/// be removed.
pub(crate) async fn read(files: &dyn Source, tile: Tile) -> Result<Read, Problem> {
    let (stored, bytes) = stored(files, tile).await?;
    let is_packed = is_gzip(&bytes);
    let plain = plain(tile, stored, bytes)?;
    Ok(Read { plain, is_packed })
}

/// Reads a tile, and returns its uncompressed bytes.
pub(crate) async fn tile(files: &dyn Source, tile: Tile) -> Result<Bytes, Problem> {
    read(files, tile).await.map(|read| read.plain)
}

/// Returns the uncompressed lines of the names tile of a data tile. If the names tile of a partial
/// tile is missing, the names tile of the full tile replaces it.
pub(crate) async fn names(files: &dyn Source, data: Tile) -> Result<Bytes, Problem> {
    let path = |tile: &Tile| tile.names_path().unwrap_or_default();
    let (stored, bytes) = stored_at(files, data, path).await?;
    let lines = gunzip(bytes).map_err(Problem::Gzip)?;
    Ok(if stored == data {
        lines
    } else {
        first_lines(lines, data.width())
    })
}

fn first_lines(lines: Bytes, count: u16) -> Bytes {
    let breaks = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let last = breaks.map(|(place, _)| place).nth(usize::from(count) - 1);
    let end = last.map_or(lines.len(), |last| last + 1);
    lines.slice(..end)
}

/// Compares a stored partial tile, which a tree of `size` entries no longer needs, with the wider
/// tile. Returns `None` if the partial tile is right, was removed, or cannot be compared. The
/// unsigned parts of its entries may differ from those in the wider tile if both are right.
pub async fn superseded(files: &Arc<dyn Source>, partial: Tile, size: u64) -> Option<Finding> {
    let wider = Tile::widest(partial.level(), partial.index(), size)?;
    let compared = async {
        let read = files.read(&partial.path()).await;
        let bytes = match read.map_err(Problem::Unreadable)? {
            Some(bytes) => plain(partial, partial, bytes)?,
            // The partial tile has been removed since.
            None => return Ok(()),
        };
        // A problem with the wider tile is not a problem with this tile.
        let Ok(due) = tile(&**files, wider).await else {
            return Ok(());
        };
        let due = prefix(partial, due)?;
        if bytes == due || partial.level() == Level::Data && are_right(files, &bytes, &due).await {
            Ok(())
        } else {
            Err(Problem::Partial)
        }
    };
    let problem = compared.await.err()?;
    Some(Finding {
        path: partial.path(),
        offset: None,
        entry: None,
        problem,
    })
}

/// Returns whether these entries are the expected entries, with right unsigned parts.
async fn are_right(files: &Arc<dyn Source>, entries: &Bytes, expected: &[u8]) -> bool {
    let (Ok((found, ends)), Ok((expected, _))) = (leaves(entries), leaves(expected)) else {
        return false;
    };
    let chains = Chains::of(files.clone());
    let issuers = chains.issuers(named(entries)).await;
    found == expected && chains.first_wrong(entries, ends.len(), &issuers).is_none()
}
