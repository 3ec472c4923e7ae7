//! The stored copy of a log's tree.
//!
//! ```text
//! append: full tiles are published        flush: partial tiles, sync, read back
//! ```

use std::sync::Arc;

use lucarne_ctread::{
    Bucket, Problem, ReadError, VerifiedTree, file, load_edge, tile as read_tile,
};
use lucarne_storage::{Asset, AssetError, AssetKind, Assets};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};

use super::bundle::{Entries, EntryFormat};

/// The tiles of a log in its store. After an error, the value must be [loaded](Self::load) again,
/// because files may be lost.
pub(super) struct Tree {
    files: Bucket,
    format: EntryFormat,
    /// All entries that were written.
    edge: RightEdge,
    /// The entries of the last bundle, if it is not full.
    bundle: Vec<u8>,
    /// The entries that are durable and were read back.
    durable: RightEdge,
}

/// The reasons why a copy of a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] AssetError),
    /// A stored file is missing or damaged.
    #[error("a stored file is wrong: {0}")]
    Read(#[from] ReadError),
    /// A file could not be compressed.
    #[error(transparent)]
    Gzip(#[from] std::io::Error),
    /// A file differs from the bytes that were written.
    #[error("{0} differs from the bytes that were written")]
    Different(String),
    /// The stored tiles do not lead to a recorded root.
    #[error("the stored tiles of {size} entries do not lead to the recorded root {root}")]
    Root {
        /// Number of entries.
        size: u64,
        /// The recorded root.
        root: Hash,
    },
}

impl Tree {
    /// Loads a tree whose entries are durable.
    pub(super) async fn load(
        assets: Arc<dyn Assets>,
        format: EntryFormat,
        size: u64,
        root: Hash,
    ) -> Result<Self, TreeError> {
        // Opens the journal, which a mirror does not need, and forgets failures.
        assets.staged().await?;
        let files = Bucket(assets);
        let edge = load_edge(&files, size).await?;
        if edge.root() != root {
            return Err(TreeError::Root { size, root });
        }
        let mut bundle = Vec::new();
        if let Some(partial) = Tile::rightmost_partial(Level::Data, size) {
            let entries = format.read(&files, partial).await?;
            compare(format, partial, &entries, edge.partial(0))?;
            bundle = entries.bytes.to_vec();
        } else if let Some(last) = (size / TILE_WIDTH).checked_sub(1)
            && let Some(full) = Tile::widest(Level::Data, last, size)
        {
            // A copy in the other format has no such file.
            let entries = format.read(&files, full).await?;
            compare(format, full, &entries, &full_leaves(&files, last).await?)?;
        }
        Ok(Self {
            files,
            format,
            durable: edge.clone(),
            edge,
            bundle,
        })
    }

    /// Returns the number of entries that were written.
    pub(super) fn size(&self) -> u64 {
        self.edge.size()
    }

    /// Returns the tree of the entries that are durable.
    pub(super) fn durable(&self) -> &RightEdge {
        &self.durable
    }

    /// Returns whether the durable tree had this root when it had `size` entries.
    pub(super) async fn extends(&self, size: u64, root: Hash) -> Result<bool, TreeError> {
        let tree = VerifiedTree::default();
        tree.advance(self.durable.clone());
        Ok(tree.root_at(&self.files, size).await? == root)
    }

    /// Returns the leaf hashes of the bundle that contains the leaf `end`, before this leaf.
    pub(super) async fn leaves_before(&self, end: u64) -> Result<Vec<Hash>, TreeError> {
        let (index, count) = (end / TILE_WIDTH, (end % TILE_WIDTH) as usize);
        if count == 0 {
            return Ok(Vec::new());
        }
        if index == self.size() / TILE_WIDTH {
            return Ok(self.edge.partial(0)[..count].to_vec());
        }
        let mut hashes = full_leaves(&self.files, index).await?;
        hashes.truncate(count);
        Ok(hashes)
    }

    /// Appends entries, which must not extend into a second bundle, and publishes the tiles that
    /// are full. The caller has verified that the entries are in a tree that the log has signed.
    pub(super) async fn append(
        &mut self,
        entries: &[u8],
        leaves: &[Hash],
    ) -> Result<(), TreeError> {
        let index = self.size() / TILE_WIDTH;
        let mut edge = self.edge.clone();
        let mut full: Vec<_> = edge
            .append(leaves)
            .into_iter()
            .filter(|(tile, _)| tile.is_full())
            .map(hash_tile)
            .collect();
        let mut bundle = [&self.bundle, entries].concat();
        if edge.size().is_multiple_of(TILE_WIDTH)
            && let Some(tile) = Tile::new(Level::Data, index, TILE_WIDTH as u16)
        {
            let (format, entries) = (self.format, std::mem::take(&mut bundle));
            // The largest bundles would block a worker for too long.
            let file = tokio::task::spawn_blocking(move || format.file(&tile, &entries));
            full.push(file.await.map_err(std::io::Error::other)??);
        }
        if !full.is_empty() {
            self.files.0.publish(full).await?;
        }
        (self.edge, self.bundle) = (edge, bundle);
        Ok(())
    }

    /// Syncs the tree of the first `size` entries, and reads back all that was written
    /// since the last call. Returns the root, computed from the files. A power failure damages no
    /// file of the tree of `mirrored` entries, which is cosigned.
    pub(super) async fn flush(&mut self, size: u64, mirrored: u64) -> Result<Hash, TreeError> {
        if size == self.durable.size() {
            return Ok(self.durable.root());
        }
        let assets = Arc::clone(&self.files.0);
        let mut partial = self.partial_tiles(size).await?;
        // A durable file stays as it is: if it were written again, a power failure could damage it.
        let durable = [mirrored, self.durable.size()]
            .map(|size| self.partial_paths(size))
            .concat();
        partial.retain(|file| !durable.contains(&file.path));
        assets.publish(partial).await?;
        assets.settle(size).await?;
        let mut durable = self.durable.clone();
        while durable.size() < size {
            let index = durable.size() / TILE_WIDTH;
            let Some(tile) = Tile::widest(Level::Data, index, size) else {
                break;
            };
            let leaves = self.format.read(&self.files, tile).await?.leaves;
            let known = (durable.size() % TILE_WIDTH) as usize;
            for written in durable.append(&leaves[known..]) {
                if written.0.is_full() {
                    self.read_back(hash_tile(written)).await?;
                }
            }
        }
        let edge = load_edge(&self.files, size).await?;
        // A larger tree is durable already, and the entries of this partial tile were copied.
        if durable.size() > size
            && let Some(partial) = Tile::rightmost_partial(Level::Data, size)
        {
            let entries = self.format.read(&self.files, partial).await?;
            compare(self.format, partial, &entries, edge.partial(0))?;
        }
        if durable.size() == size && durable != edge {
            return Err(TreeError::Different(format!(
                "the right edge of {size} entries"
            )));
        }
        self.durable = durable;
        Ok(edge.root())
    }

    /// Returns the partial tiles of the tree of the first `size` entries.
    async fn partial_tiles(&self, size: u64) -> Result<Vec<Asset>, TreeError> {
        let mut partial = Vec::new();
        for tile in RightEdge::tiles(size) {
            let Level::Hashes(level) = tile.level() else {
                continue;
            };
            let at_end = tile.index() == self.size() / level_leaves(tile) / TILE_WIDTH;
            let hashes = if at_end {
                self.edge.partial(level).to_vec()
            } else {
                lucarne_ctread::hashes(&read_tile(&self.files, tile.full()).await?)
            };
            let hashes = hashes.iter().take(tile.width().into());
            let bytes: Vec<u8> = hashes.flat_map(|hash| hash.0).collect();
            partial.push(hash_tile((tile, bytes)));
        }
        if let Some(tile) = Tile::rightmost_partial(Level::Data, size) {
            let entries = if tile.index() == self.size() / TILE_WIDTH {
                self.format
                    .parse(self.last_bundle(tile), self.bundle.clone().into())?
            } else {
                self.format.read(&self.files, tile.full()).await?
            };
            partial.push(
                self.format
                    .file(&tile, entries.first(tile.width().into()))?,
            );
        }
        Ok(partial)
    }

    /// Returns the paths of the partial tiles of the tree of `size` entries.
    fn partial_paths(&self, size: u64) -> Vec<String> {
        let data = Tile::rightmost_partial(Level::Data, size);
        let data = data.map(|tile| self.format.path(&tile));
        RightEdge::tiles(size)
            .map(|tile| tile.path())
            .chain(data)
            .collect()
    }

    /// Returns the data tile of the entries in memory, which starts like `tile`.
    fn last_bundle(&self, tile: Tile) -> Tile {
        Tile::rightmost_partial(Level::Data, self.size()).unwrap_or(tile)
    }

    async fn read_back(&self, written: Asset) -> Result<(), TreeError> {
        let found = file(&self.files, &written.path).await?;
        if found != written.bytes {
            return Err(TreeError::Different(written.path));
        }
        Ok(())
    }
}

/// Returns the leaf hashes of a full bundle.
async fn full_leaves(files: &Bucket, index: u64) -> Result<Vec<Hash>, TreeError> {
    match Tile::new(Level::Hashes(0), index, TILE_WIDTH as u16) {
        Some(full) => Ok(lucarne_ctread::hashes(&read_tile(files, full).await?)),
        None => Ok(Vec::new()),
    }
}

fn level_leaves(tile: Tile) -> u64 {
    tile.level().entry_leaves()
}

fn hash_tile((tile, bytes): (Tile, Vec<u8>)) -> Asset {
    Asset::new(tile.path(), bytes, AssetKind::HashTile)
}

/// Compares the entries of a tile with the leaf hashes of the tree.
pub(super) fn compare(
    format: EntryFormat,
    tile: Tile,
    entries: &Entries,
    leaves: &[Hash],
) -> Result<(), ReadError> {
    let mut wrong = (tile.start_leaf()..).zip(&entries.leaves).zip(leaves);
    match wrong.find(|((_, found), leaf)| found != leaf) {
        None => Ok(()),
        Some(((index, _), _)) => Err(ReadError::new(format.path(&tile), Problem::Leaf(index))),
    }
}
