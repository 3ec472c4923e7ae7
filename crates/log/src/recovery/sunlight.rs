//! The staging bundle that a killed Sunlight did not publish.
//!
//! Before it commits a round, Sunlight stores all tiles of the round in one object,
//! `staging/<size>-<root>`: a gzipped tar with the paths of the tiles as names. After the commit,
//! Sunlight publishes the tiles, then the checkpoint, and removes the bundle. If Sunlight is killed
//! in between, the lock is one round ahead of storage, and the bundle leads from one to the other.
//!
//! Lucarne uses only the entries of the bundle, and only if they lead from the published tree to
//! the signed root. Then the entries form a [`Record`] like the records of the journal.

use std::collections::HashMap;
use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use lucarne_ct::{TileEntries, TileEntry};
use lucarne_storage::{Asset, AssetKind, Assets};
use lucarne_tlog::{Checkpoint, Level, TILE_WIDTH, Tile};

use crate::data::record::{Record, Step};
use crate::error::Fatal;
use crate::error::inconsistency::{BundleError, JournalInconsistency};
use lucarne_ctread::gunzip;

/// Maximum number of uncompressed bytes of a bundle. A round of Sunlight's default pool has about a
/// hundredth of this size.
const MOST: u64 = 1 << 30;

/// A bundle with the tiles between the published checkpoint and the signed checkpoint.
pub(crate) struct Bundle {
    /// The round, as a record of the journal.
    pub(crate) record: Record,
    /// The data and names tiles of the bundle as stored, by path.
    tiles: HashMap<String, Bytes>,
}

impl Bundle {
    /// Returns the bundle that leads from `published` to `signed`; `None` if this bundle does not
    /// exist.
    ///
    /// # Errors
    /// If the bundle cannot be read, or its content is not as Sunlight writes it.
    pub(crate) async fn find(
        assets: &dyn Assets,
        published: &Checkpoint,
        signed: &Checkpoint,
    ) -> Result<Option<Bundle>, Fatal> {
        let path = format!("staging/{}-{}", signed.size, hex::encode(signed.root.0));
        let Some(bytes) = assets.get(&path).await? else {
            return Ok(None);
        };
        let bundle = Bundle::parse(&bytes, published, signed).map_err(|problem| {
            JournalInconsistency::Bundle {
                storage: assets.location(),
                path,
                published: published.size,
                signed: signed.size,
                problem,
            }
        })?;
        Ok(Some(bundle))
    }

    fn parse(
        bytes: &[u8],
        published: &Checkpoint,
        signed: &Checkpoint,
    ) -> Result<Bundle, BundleError> {
        let tiles = data_tiles(bytes).map_err(BundleError::Archive)?;
        let mut entries = Vec::new();
        let mut timestamp_ms = 0;
        let mut next = published.size;
        while next < signed.size {
            let first = next / TILE_WIDTH * TILE_WIDTH;
            let end = signed.size.min(first + TILE_WIDTH);
            let tile = Tile::new(Level::Data, next / TILE_WIDTH, (end - first) as u16);
            let path = tile.ok_or(BundleError::TooLarge)?.path();
            let missing = || BundleError::Missing(path.clone());
            let bytes = tiles.get(&path).ok_or_else(missing)?;
            let packed = |error| BundleError::Gzip(path.clone(), error);
            let plain = gunzip(bytes.clone()).map_err(packed)?;
            for entry in TileEntries::first(&plain, first, end - first) {
                let damaged = |error| BundleError::Entry(path.clone(), error);
                let TileEntry {
                    index: expected,
                    bytes,
                    leaf,
                } = entry.map_err(damaged)?;
                if leaf.index != expected {
                    return Err(BundleError::Index {
                        path,
                        found: leaf.index,
                        expected,
                    });
                }
                if expected >= next {
                    entries.extend_from_slice(&plain[bytes]);
                    timestamp_ms = timestamp_ms.max(leaf.timestamp);
                }
            }
            next = end;
        }
        let step = Step {
            old_size: published.size,
            new_size: signed.size,
            timestamp_ms,
            old_root: published.root,
            new_root: signed.root,
        };
        let record = Record {
            step,
            entries: entries.into(),
            // Sunlight stores issuers before it accepts the entry.
            issuers: Vec::new(),
        };
        Ok(Bundle { record, tiles })
    }

    /// Returns the round's files, with data tiles as Sunlight compressed them, because some of them
    /// may already be published and immutable.
    pub(crate) fn as_stored(&self, assets: Vec<Asset>) -> Result<Vec<Asset>, Fatal> {
        assets.into_iter().map(|asset| self.one(asset)).collect()
    }

    fn one(&self, asset: Asset) -> Result<Asset, Fatal> {
        let stored = match (asset.kind, self.tiles.get(&asset.path)) {
            (AssetKind::DataTile { .. } | AssetKind::NamesTile, Some(stored)) => stored.clone(),
            _ => return Ok(asset),
        };
        let plain = |bytes| {
            gunzip(bytes).map_err(|problem| {
                let path = asset.path.clone();
                Fatal::from(JournalInconsistency::BundleTile { path, problem })
            })
        };
        if plain(stored.clone())? != plain(asset.bytes.clone())? {
            // The bundle's tile has other entries as well. Our tile has only the signed entries.
            return Ok(asset);
        }
        Ok(Asset::new(asset.path, stored, asset.kind))
    }
}

/// Returns the data and names tiles of a bundle, as stored. Hash tiles are recomputed.
fn data_tiles(bytes: &[u8]) -> std::io::Result<HashMap<String, Bytes>> {
    let unpacked = MultiGzDecoder::new(bytes).take(MOST);
    let mut tiles = HashMap::new();
    for member in tar::Archive::new(unpacked).entries()? {
        let mut member = member?;
        let path = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        if path.starts_with("tile/data/") || path.starts_with("tile/names/") {
            let mut tile = Vec::new();
            member.read_to_end(&mut tile)?;
            tiles.insert(path, tile.into());
        }
    }
    Ok(tiles)
}
