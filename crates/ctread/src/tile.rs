//! Tiles as any software stores them, and the entries of data tiles.
//!
//! A narrower partial tile is a prefix of a wider partial tile, and of the full tile. Lucarne and
//! Sunlight store data tiles in gzip. TesseraCT does not compress them. The first bytes distinguish
//! both: gzip begins with 1f 8b, an uncompressed tile with a timestamp.

use std::collections::BTreeSet;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, TileEntries, TileEntry, TileLeafError};
use lucarne_tlog::{Hash, Level, Tile};

use crate::gunzip::gunzip_entries;
use crate::{Problem, ReadError, Source, SourceError};

/// Reads a tile as stored. If a partial tile is missing, the full tile replaces it, because partial
/// tiles may be removed (static-ct-api, "Merkle Tree"). Returns the existing tile, and its bytes.
///
/// # Errors
/// If neither tile can be read.
pub async fn stored(source: &dyn Source, tile: Tile) -> Result<(Tile, Bytes), ReadError> {
    stored_at(source, tile, Tile::path).await
}

/// Reads the file for a tile like [`stored`], at the path that `path` returns.
///
/// # Errors
/// See [`stored`].
pub async fn stored_at(
    source: &dyn Source,
    tile: Tile,
    path: fn(&Tile) -> String,
) -> Result<(Tile, Bytes), ReadError> {
    let error = match file(source, &path(&tile)).await {
        Ok(bytes) => return Ok((tile, bytes)),
        Err(error) => error,
    };
    let full = tile.full();
    if tile.is_full() || !error.is_absence() {
        return Err(error);
    }
    match file(source, &path(&full)).await {
        Ok(bytes) => Ok((full, bytes)),
        Err(other) if other.is_absence() => Err(error),
        Err(other) => Err(other),
    }
}

/// Reads a file that must exist.
///
/// # Errors
/// If the file is missing, or cannot be read.
pub async fn file(source: &dyn Source, path: &str) -> Result<Bytes, ReadError> {
    let problem = match source.read(path).await {
        Ok(Some(bytes)) => return Ok(bytes),
        Ok(None) => Problem::Missing,
        Err(error) => Problem::Source(error),
    };
    Err(ReadError::new(path, problem))
}

impl ReadError {
    fn is_absence(&self) -> bool {
        matches!(
            self.problem,
            Problem::Missing | Problem::Source(SourceError::Refused(_))
        )
    }
}

/// Reads a tile, and returns its uncompressed bytes. The caller verifies the entries of a data
/// tile.
///
/// # Errors
/// If the tile cannot be read, or if it is too short.
pub async fn tile(source: &dyn Source, tile: Tile) -> Result<Bytes, ReadError> {
    let (stored, bytes) = stored(source, tile).await?;
    plain(tile, stored, bytes).map_err(|problem| ReadError::of(tile, problem))
}

/// Returns the uncompressed bytes of `tile` from the bytes of the tile `stored`. Bytes after the
/// last entry of a data tile are kept, because the check of the entries reports them.
///
/// # Errors
/// If the bytes are not a gzip stream, or are not the bytes of a tile of this width.
pub fn plain(tile: Tile, stored: Tile, bytes: Bytes) -> Result<Bytes, Problem> {
    let bytes = match tile.level() {
        Level::Hashes(_) => bytes,
        Level::Data => gunzip_entries(bytes, stored.width()).map_err(Problem::Gzip)?,
    };
    cut(tile, stored, bytes)
}

/// Returns the bytes of `tile` from the uncompressed bytes of the tile `stored`, like [`plain`].
///
/// # Errors
/// If the bytes are not the bytes of a tile of this width.
pub fn cut(tile: Tile, stored: Tile, bytes: Bytes) -> Result<Bytes, Problem> {
    match tile.level() {
        Level::Data if stored == tile => Ok(bytes),
        Level::Hashes(_) if stored == tile => {
            let (found, due) = (bytes.len(), usize::from(tile.width()) * Hash::LENGTH);
            let is_right = found == due;
            is_right
                .then_some(bytes)
                .ok_or(Problem::Length { found, due })
        }
        _ => prefix(tile, bytes),
    }
}

/// Cuts the uncompressed bytes of a wider tile down to the width of `tile`.
///
/// # Errors
/// If the bytes are too short, or have an invalid entry.
pub fn prefix(tile: Tile, bytes: Bytes) -> Result<Bytes, Problem> {
    let due = match tile.level() {
        Level::Hashes(_) => usize::from(tile.width()) * Hash::LENGTH,
        Level::Data => {
            let first = tile.start_leaf();
            let mut entries = TileEntries::first(&bytes, first, tile.width().into());
            for (index, entry) in (first..).zip(entries.by_ref()) {
                entry.map_err(|source| Problem::Entry { index, source })?;
            }
            entries.read()
        }
    };
    let found = bytes.len();
    if found < due {
        return Err(Problem::Length { found, due });
    }
    Ok(bytes.slice(..due))
}

/// Returns the leaf hashes and the ends of all entries of a data tile.
///
/// # Errors
/// If an entry is invalid.
pub fn leaves(entries: &[u8]) -> Result<(Vec<Hash>, Vec<u32>), TileLeafError> {
    let mut buffer = Vec::new();
    TileEntries::all(entries, 0)
        .map(|entry| {
            let TileEntry { bytes, leaf, .. } = entry?;
            Ok((leaf.leaf_hash(&mut buffer), bytes.end as u32))
        })
        .collect()
}

/// Splits the bytes of a hash tile into hashes. Bytes after the last whole hash are left out.
pub fn hashes(bytes: &[u8]) -> Vec<Hash> {
    let (hashes, _) = bytes.as_chunks::<{ Hash::LENGTH }>();
    hashes.iter().copied().map(Hash).collect()
}

/// Reads the certificate with this fingerprint.
///
/// # Errors
/// If the certificate cannot be read, or has another fingerprint.
pub async fn issuer(source: &dyn Source, of: Fingerprint) -> Result<Bytes, ReadError> {
    let path = format!("issuer/{of}");
    let der = file(source, &path).await?;
    match Fingerprint::of(&der) {
        found if found == of => Ok(der),
        found => Err(ReadError::new(path, Problem::Issuer(found))),
    }
}

/// The hashes, issuers and newest time of the entries of a data tile.
#[derive(Debug, Default)]
pub struct TileContent {
    /// Leaf hash of each entry.
    pub leaves: Vec<Hash>,
    /// Certificates that the entries name.
    pub fingerprints: BTreeSet<Fingerprint>,
    /// Timestamp of the newest entry, in milliseconds since 1970.
    pub newest: u64,
}

impl TileContent {
    /// Parses the uncompressed bytes of a data tile.
    ///
    /// # Errors
    /// [`Problem::Entry`], [`Problem::Rest`], [`Problem::Index`].
    pub fn parse(tile: Tile, bytes: &[u8]) -> Result<Self, ReadError> {
        let entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
        TileContent::of(tile, entries)
    }

    /// Collects the entries, which must be all of the tile.
    pub(crate) fn of(tile: Tile, mut entries: TileEntries<'_>) -> Result<Self, ReadError> {
        let wrong = |problem| ReadError::of(tile, problem);
        let mut content = TileContent::default();
        let mut buffer = Vec::with_capacity(4096);
        for (index, entry) in (tile.start_leaf()..).zip(entries.by_ref()) {
            let leaf = entry
                .map_err(|source| wrong(Problem::Entry { index, source }))?
                .leaf;
            let found = leaf.index;
            if found != index {
                return Err(wrong(Problem::Index { index, found }));
            }
            content.leaves.push(leaf.leaf_hash(&mut buffer));
            content.fingerprints.extend(leaf.fingerprints);
            content.newest = content.newest.max(leaf.timestamp);
        }
        match entries.rest().len() {
            0 => Ok(content),
            rest => Err(wrong(Problem::Rest(rest))),
        }
    }

    /// Compares the entries of `tile` with the leaf hashes in `tree`, which may continue after the
    /// tile.
    ///
    /// # Errors
    /// [`Problem::Leaf`].
    pub fn compare(&self, tile: Tile, tree: &[Hash]) -> Result<(), ReadError> {
        let leaves = self.leaves.iter().enumerate();
        let mut wrong = leaves.filter(|(n, leaf)| tree.get(*n) != Some(*leaf));
        match wrong.next() {
            None => Ok(()),
            Some((n, _)) => {
                let index = tile.start_leaf() + n as u64;
                Err(ReadError::of(tile, Problem::Leaf(index)))
            }
        }
    }
}
