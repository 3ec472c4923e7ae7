//! Where the files of a log are read from: a directory, a bucket, a URL.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_tlog::{Level, Tile};

use super::file_error::FileError;
use super::finding::{Finding, Problem};
use crate::compress::{gunzip, gunzip_entries, is_gzip};
use crate::stored::{TileError, leaves, prefix};
use crate::unsigned::{Chains, named};

/// The public files of a log, read and never written.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// The bytes of a file exactly as they are stored or served, or `None` if
    /// there is none.
    ///
    /// # Errors
    /// If it is not known whether the file exists, or if it cannot be read.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError>;
}

/// A tile as it was read.
pub(crate) struct Read {
    /// Its bytes, uncompressed.
    pub(crate) plain: Bytes,
    /// True if it is stored compressed: the checksum of gzip covers all of it.
    pub(crate) is_packed: bool,
}

/// A tile: the full one will do for a partial one, which may be gone by then.
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

/// The bytes of a tile, uncompressed.
pub(crate) async fn tile(files: &dyn Files, tile: Tile) -> Result<Bytes, Problem> {
    read(files, tile).await.map(|read| read.plain)
}

/// The lines of the names tile of a data tile, uncompressed: those of the full one will do for a partial one.
pub(crate) async fn names(files: &dyn Files, data: Tile) -> Result<Bytes, Problem> {
    let whole = [Some(data), (!data.is_full()).then(|| data.full())];
    for stored in whole.into_iter().flatten() {
        let path = stored.names_path().ok_or(Problem::Missing)?;
        let found = files.read(&path).await;
        if let Some(bytes) = found.map_err(Problem::Unreadable)? {
            let lines = gunzip(bytes).map_err(Problem::Gzip)?;
            return Ok(match stored == data {
                true => lines,
                false => first_lines(lines, data.width()),
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

/// Compares a stored partial tile that a tree of `size` entries needs no more with the wider
/// one. Entries whose unsigned parts differ, and are right in the partial tile, are no fault of it.
pub async fn superseded(files: &Arc<dyn Files>, partial: Tile, size: u64) -> Option<Finding> {
    let wider = Tile::widest(partial.level(), partial.index(), size)?;
    let compared = async {
        let read = files.read(&partial.path()).await;
        let bytes = match read.map_err(Problem::Unreadable)? {
            Some(bytes) => plain(partial, partial, bytes)?,
            // It was removed meanwhile.
            None => return Ok(()),
        };
        // A fault of the wider tile is not one of this.
        let Ok(due) = tile(&**files, wider).await else {
            return Ok(());
        };
        let due = prefix(partial, due)?;
        match bytes == due || partial.level() == Level::Data && are_right(files, &bytes, &due).await
        {
            true => Ok(()),
            false => Err(Problem::Partial),
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

/// Returns whether these entries are the expected ones, and their unsigned parts are right.
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
            match bytes.len() == due {
                true => Ok(bytes),
                false => Err(Problem::Length {
                    found: bytes.len(),
                    due,
                }),
            }
        }
        // What stands after the entries is looked at where they are read.
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
