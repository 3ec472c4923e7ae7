//! Where the files of a log are read from: a directory, a bucket, a URL.

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_tlog::{Level, Tile};

use super::finding::{Finding, Problem};
use crate::compress::gunzip;
use crate::stored::{TileError, prefix};

/// The public files of a log, read and never written.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// The bytes of a file exactly as they are stored or served, or `None` if
    /// there is none.
    ///
    /// # Errors
    /// In words, if there was no answer that says either.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, String>;
}

/// The bytes of a tile, uncompressed: those of the full tile will do for a partial
/// one, which may be gone by then.
pub(crate) async fn tile(files: &dyn Files, tile: Tile) -> Result<Bytes, Problem> {
    let whole = [Some(tile), (!tile.is_full()).then(|| tile.full())];
    for stored in whole.into_iter().flatten() {
        let found = files.read(&stored.path()).await;
        if let Some(bytes) = found.map_err(Problem::Unreadable)? {
            return plain(tile, stored, bytes);
        }
    }
    Err(Problem::Missing)
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

/// Holds a partial tile that is stored, and that a tree of `size` entries needs no
/// more, against the one that has taken its place.
pub async fn superseded(files: &dyn Files, partial: Tile, size: u64) -> Option<Finding> {
    let wider = Tile::widest(partial.level(), partial.index(), size)?;
    let compared = async {
        let read = files.read(&partial.path()).await;
        let bytes = match read.map_err(Problem::Unreadable)? {
            Some(bytes) => plain(partial, partial, bytes)?,
            // It was removed meanwhile.
            None => return Ok(()),
        };
        let due = prefix(partial, tile(files, wider).await?)?;
        match bytes == due {
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

fn plain(tile: Tile, stored: Tile, bytes: Bytes) -> Result<Bytes, Problem> {
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
        Level::Data if stored == tile => gunzip(bytes).map_err(Problem::Gzip),
        Level::Hashes(_) => prefix(tile, bytes).map_err(Problem::from),
        Level::Data => {
            let plain = gunzip(bytes).map_err(Problem::Gzip)?;
            prefix(tile, plain).map_err(Problem::from)
        }
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
