//! Tiles from a source of files, decompressed.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{Level, Tile};

use super::files::Files;
use super::finding::{Finding, Problem};
use crate::check::unsigned::{Chains, named};
use crate::data::compress::{gunzip, gunzip_entries, is_gzip};
use crate::read::stored_tiles::{TileError, leaves, prefix};

/// A tile that was read.
pub(crate) struct Read {
    /// Uncompressed bytes of the tile.
    pub(crate) plain: Bytes,
    /// Whether the tile is stored compressed: the checksum of gzip covers the whole tile.
    pub(crate) is_packed: bool,
}

/// Reads a tile. If a partial tile is missing, the full tile replaces it, because partial tiles may
/// be removed.
pub(crate) async fn read(files: &dyn Files, tile: Tile) -> Result<Read, Problem> {
    let whole = [Some(tile), (!tile.is_full()).then(|| tile.full())];
    for stored in whole.into_iter().flatten() {
        let found = files.read(&stored.path()).await;
        if let Some(bytes) = found.map_err(Problem::Unreadable)? {
            let is_packed = is_gzip(&bytes);
            let plain = plain(tile, stored, bytes)?;
            return Ok(Read { plain, is_packed });
        }
    }
    Err(Problem::Missing)
}

/// Reads a tile, and returns its uncompressed bytes.
pub(crate) async fn tile(files: &dyn Files, tile: Tile) -> Result<Bytes, Problem> {
    read(files, tile).await.map(|read| read.plain)
}

/// Returns the uncompressed lines of the names tile of a data tile. If the names tile of a partial
/// tile is missing, the names tile of the full tile replaces it.
pub(crate) async fn names(files: &dyn Files, data: Tile) -> Result<Bytes, Problem> {
    let whole = [Some(data), (!data.is_full()).then(|| data.full())];
    for stored in whole.into_iter().flatten() {
        let path = stored.names_path().ok_or(Problem::Missing)?;
        let found = files.read(&path).await;
        if let Some(bytes) = found.map_err(Problem::Unreadable)? {
            let lines = gunzip(bytes).map_err(Problem::Gzip)?;
            return Ok(if stored == data {
                lines
            } else {
                first_lines(lines, data.width())
            });
        }
    }
    Err(Problem::Missing)
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
pub async fn superseded(files: &Arc<dyn Files>, partial: Tile, size: u64) -> Option<Finding> {
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
async fn are_right(files: &Arc<dyn Files>, entries: &Bytes, expected: &[u8]) -> bool {
    let (Ok((found, ends)), Ok((expected, _))) = (leaves(entries), leaves(expected)) else {
        return false;
    };
    let chains = Chains::of(files.clone());
    let issuers = chains.issuers(named(entries)).await;
    found == expected && chains.first_wrong(entries, ends.len(), &issuers).is_none()
}

fn plain(tile: Tile, stored: Tile, bytes: Bytes) -> Result<Bytes, Problem> {
    let unpacked = |bytes| gunzip_entries(bytes, stored.width()).map_err(Problem::Gzip);
    match tile.level() {
        Level::Hashes(_) if stored == tile => {
            let due = usize::from(tile.width()) * lucarne_tlog::Hash::LENGTH;
            if bytes.len() == due {
                Ok(bytes)
            } else {
                Err(Problem::Length {
                    found: bytes.len(),
                    due,
                })
            }
        }
        // The check of the entries reports bytes after the last entry.
        Level::Data if stored == tile => unpacked(bytes),
        Level::Hashes(_) => prefix(tile, bytes).map_err(Problem::from),
        Level::Data => prefix(tile, unpacked(bytes)?).map_err(Problem::from),
    }
}

impl From<TileError> for Problem {
    fn from(error: TileError) -> Self {
        match error {
            TileError::Gzip(error) => Problem::Gzip(error),
            TileError::Length { found, due } => Problem::Length { found, due },
            TileError::Entry(_, error) => Problem::Entry(error),
        }
    }
}
