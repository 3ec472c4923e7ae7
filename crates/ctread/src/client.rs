//! From a checkpoint to a verified tree, and to verified entries.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use lucarne_ct::{CheckpointVerifier, TileEntries, TileEntry};
use lucarne_tlog::{Checkpoint, Hash, Level, RightEdge, TILE_WIDTH, Tile};

use crate::{
    Problem, ReadError, Source, TileContent, VerifiedTree, file, load_edge, read_ahead, tile,
};

/// A reader of one log that verifies all that it returns.
pub struct Client {
    source: Arc<dyn Source>,
    verifier: CheckpointVerifier,
    tree: VerifiedTree,
    note: Bytes,
    archived: bool,
}

/// The entries of a data tile, all of which are in the verified tree.
#[derive(Debug)]
pub struct VerifiedEntries {
    /// The data tile, in its width in the verified tree.
    pub tile: Tile,
    /// Leaf hashes, issuers and newest timestamp of the tile.
    pub content: TileContent,
    first: u64,
    bytes: Bytes,
    archived: bool,
}

impl Client {
    /// Creates a client that has verified the empty tree.
    pub fn new(source: Arc<dyn Source>, verifier: CheckpointVerifier) -> Self {
        let tree = VerifiedTree::default();
        Client {
            source,
            verifier,
            tree,
            note: Bytes::new(),
            archived: false,
        }
    }

    /// Accepts entries without an index, which archived RFC 6962 logs have.
    #[must_use]
    pub fn archived(self, archived: bool) -> Self {
        Client { archived, ..self }
    }

    /// Returns the verified tree.
    pub fn tree(&self) -> &VerifiedTree {
        &self.tree
    }

    /// Replaces the verified tree by another one, which need not extend it.
    pub fn restart(&mut self, edge: RightEdge) {
        self.tree = VerifiedTree::default();
        self.tree.advance(edge);
    }

    /// Returns the note of the last checkpoint with a valid signature, even if its tree was not
    /// verified; empty before the first.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// Reads the checkpoint, and verifies that its tree extends the verified tree. Returns the
    /// checkpoint, and its timestamp in milliseconds since 1970.
    ///
    /// # Errors
    /// If a file cannot be read, the signature does not verify, or the tiles of the new tree do not
    /// lead to its root, or to the root of the verified tree.
    pub async fn advance(&mut self) -> Result<(Checkpoint, u64), ReadError> {
        let note = file(&*self.source, "checkpoint").await?;
        let wrong = |problem| ReadError::new("checkpoint", problem);
        let signed = self.verifier.verify(&note);
        let signed = signed.map_err(|error| wrong(Problem::Checkpoint(error)))?;
        self.note = note;
        let (verified, size) = (self.tree.edge(), signed.0.size);
        if size < verified.size() {
            let verified = verified.size();
            return Err(wrong(Problem::Smaller { verified, size }));
        }
        let grown = VerifiedTree::default();
        grown.advance(load_edge(&*self.source, size).await?);
        let lead_to = |root: Hash, size, found| {
            let problem = || wrong(Problem::Root { size, root });
            (root == found).then_some(()).ok_or_else(problem)
        };
        lead_to(signed.0.root, size, grown.edge().root())?;
        let earlier = grown.root_at(&*self.source, verified.size()).await?;
        lead_to(verified.root(), verified.size(), earlier)?;
        self.tree.advance(grown.edge().as_ref().clone());
        Ok(signed)
    }

    /// Returns the entries of the verified tree from the index `first` on. Tiles are read ahead, as
    /// many as [`read_ahead`] permits.
    pub fn entries(
        &self,
        first: u64,
    ) -> impl Stream<Item = Result<VerifiedEntries, ReadError>> + Send {
        let size = self.tree.edge().size();
        let tiles = (first / TILE_WIDTH..size.div_ceil(TILE_WIDTH))
            .filter_map(move |index| Tile::widest(Level::Data, index, size));
        let reads = tiles.map(move |tile| self.verified(tile, first));
        read_ahead(reads, |read| match read {
            Ok(read) => read.bytes.len(),
            Err(_) => 0,
        })
    }

    async fn verified(&self, data: Tile, first: u64) -> Result<VerifiedEntries, ReadError> {
        let hashes = self.tree.hashes(&*self.source, 0, data.index()).await?;
        let bytes = tile(&*self.source, data).await?;
        let entries = TileEntries::first(&bytes, data.start_leaf(), data.width().into());
        let content = TileContent::of(data, entries.archived(self.archived))?;
        content.compare(data, &hashes)?;
        Ok(VerifiedEntries {
            tile: data,
            content,
            first,
            bytes,
            archived: self.archived,
        })
    }
}

impl VerifiedEntries {
    /// Returns the bytes of the [entries](Self::entries).
    pub fn bytes(&self) -> &[u8] {
        let start = self.entries().next().map(|entry| entry.bytes.start);
        &self.bytes[start.unwrap_or(self.bytes.len())..]
    }

    /// Returns the entries, from the requested index on.
    pub fn entries(&self) -> impl Iterator<Item = TileEntry<'_>> {
        let count = self.tile.width().into();
        let entries = TileEntries::first(&self.bytes, self.tile.start_leaf(), count);
        // All entries were parsed before.
        let entries = entries.archived(self.archived).filter_map(Result::ok);
        entries.filter(|entry| entry.index >= self.first)
    }
}
