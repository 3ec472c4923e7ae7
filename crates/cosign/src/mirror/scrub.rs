//! The verification of all files of a copy.
//!
//! ```text
//! signed root → right edge → hash tiles, each by the tile above → entries → issuers
//! ```

use std::collections::HashSet;
use std::time::Duration;

use lucarne_ct::Fingerprint;
use lucarne_ctread::{Bucket, Problem, ReadError, Source, TileContent, VerifiedTree};
use lucarne_ctread::{issuer, load_edge};
use lucarne_tlog::{Checkpoint, Level, SignedNote, TILE_WIDTH, Tile};

use super::tree::compare;
use super::{EntryFormat, MirroredLog};

/// A check of a copy of a log.
pub struct CopyCheck {
    format: EntryFormat,
    tree: VerifiedTree,
    size: u64,
    /// The issuers that were verified.
    issuers: HashSet<Fingerprint>,
}

impl CopyCheck {
    /// Begins a check of the tree of a checkpoint, whose signatures the caller has verified.
    ///
    /// # Errors
    /// If the right edge of the tree cannot be read, or does not lead to the root.
    pub async fn begin(
        source: &dyn Source,
        format: EntryFormat,
        checkpoint: &Checkpoint,
    ) -> Result<Self, ReadError> {
        let (size, root) = (checkpoint.size, checkpoint.root);
        let edge = load_edge(source, size).await?;
        if edge.root() != root {
            return Err(ReadError::new("checkpoint", Problem::Root { size, root }));
        }
        let tree = VerifiedTree::default();
        tree.advance(edge);
        Ok(Self {
            format,
            tree,
            size,
            issuers: HashSet::new(),
        })
    }

    /// Returns the number of data tiles.
    #[must_use]
    pub fn tiles(&self) -> u64 {
        self.size.div_ceil(TILE_WIDTH)
    }

    /// Verifies the entries of a data tile, their hash tile, and the tiles above. Returns the
    /// number of bytes of the entries.
    ///
    /// # Errors
    /// The first file that is wrong or cannot be read.
    pub async fn tile(&mut self, source: &dyn Source, index: u64) -> Result<usize, ReadError> {
        let Some(tile) = Tile::widest(Level::Data, index, self.size) else {
            return Ok(0);
        };
        let hashes = self.tree.hashes(source, 0, index).await?;
        let entries = self.format.read(source, tile).await?;
        compare(self.format, tile, &entries, &hashes)?;
        if self.format == EntryFormat::StaticCt {
            for of in TileContent::parse(tile, &entries.bytes)?.fingerprints {
                if !self.issuers.contains(&of) {
                    issuer(source, of).await?;
                    self.issuers.insert(of);
                }
            }
        }
        Ok(entries.bytes.len())
    }
}

impl MirroredLog {
    /// Verifies all files of the mirror checkpoint, with a pause after each data tile of a size. A
    /// file that cannot be read is not damaged.
    pub async fn scrub(&self, pause: fn(usize) -> Duration) {
        let Some(published) = self.published() else {
            return;
        };
        let files = Bucket(self.assets.clone());
        let mut found = Vec::new();
        let text = SignedNote::parse(&published.note).map(|note| note.text);
        let parsed = text.as_deref().map(Checkpoint::parse_extended);
        if let Ok(Ok((checkpoint, _))) = parsed {
            match CopyCheck::begin(&files, self.format, &checkpoint).await {
                Ok(mut check) => {
                    for index in 0..check.tiles() {
                        let checked = check.tile(&files, index).await;
                        tokio::time::sleep(pause(*checked.as_ref().unwrap_or(&0))).await;
                        self.note_damage(&mut found, checked.err());
                    }
                }
                Err(error) => self.note_damage(&mut found, Some(error)),
            }
        }
        *self.damage.lock() = found;
    }

    /// Records a damaged file at once. The files of the last pass stay until this pass ends.
    fn note_damage(&self, found: &mut Vec<String>, error: Option<ReadError>) {
        let damage = error.filter(|error| !matches!(error.problem, Problem::Source(_)));
        let Some(damage) = damage.map(|error| error.to_string()) else {
            return;
        };
        if found.len() < MAX_DAMAGE {
            found.push(damage.clone());
        }
        let mut known = self.damage.lock();
        if known.len() < MAX_DAMAGE && !known.contains(&damage) {
            tracing::error!(
                log = self.origin,
                "mirror: a file of the copy is damaged: {damage}"
            );
            known.push(damage);
        }
    }

    /// Returns the damaged files of the last pass, each with the reason: at most 20.
    #[must_use]
    pub fn damage(&self) -> Vec<String> {
        self.damage.lock().clone()
    }
}

/// Maximum number of damaged files that are named.
const MAX_DAMAGE: usize = 20;
