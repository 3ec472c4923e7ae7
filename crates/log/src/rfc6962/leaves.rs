//! Looking for a leaf by its hash, while the index is brought up to date beside that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use lucarne_tlog::Hash;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::Rfc6962Error;
use super::leaf_index::LeafIndex;
use super::permits::Permits;

/// The longest wait for the index to reach the tree that is asked for: it follows each round within
/// moments.
const PATIENCE: Duration = Duration::from_secs(2);

/// The index of leaf hashes, as soon as there is one.
pub(crate) struct Leaves {
    /// Its directory.
    pub(super) folder: PathBuf,
    pub(super) index: ArcSwapOption<LeafIndex>,
    /// Somebody has found it damaged, or wrong.
    pub(super) distrusted: Notify,
    permits: Permits,
}

impl Leaves {
    pub(super) fn new(folder: &Path, permits: Permits) -> Self {
        Leaves {
            folder: folder.to_owned(),
            index: ArcSwapOption::empty(),
            distrusted: Notify::new(),
            permits,
        }
    }

    /// Has the index made anew. Until it is, nothing is said to be unknown.
    pub(super) fn distrust(&self) {
        self.index.store(None);
        self.distrusted.notify_one();
    }

    /// The index of the entry that has this leaf hash, as a hint, among the first `size`.
    pub(super) async fn index_of(&self, leaf: &Hash, size: u64) -> Result<u64, Rfc6962Error> {
        let not_indexed = |indexed| Rfc6962Error::NotIndexed { indexed, size };
        let index = self.index.load_full().ok_or_else(|| not_indexed(0))?;
        let indexed = index.indexed();
        let mut found = self.look(&index, leaf, size).await?;
        if found.is_none() && indexed < size {
            let mut growing = index.watch();
            let grown = timeout(PATIENCE, growing.wait_for(|indexed| *indexed >= size));
            if !matches!(grown.await, Ok(Ok(_))) {
                return Err(not_indexed(index.indexed()));
            }
            found = self.look(&index, leaf, size).await?;
        }
        // One of a later entry is none of this tree's.
        found
            .filter(|index| *index < size)
            .ok_or(Rfc6962Error::UnknownLeaf { size })
    }

    /// Looks where it holds up nobody: a disk that hangs keeps as many threads as there are permits.
    async fn look(
        &self,
        index: &Arc<LeafIndex>,
        leaf: &Hash,
        size: u64,
    ) -> Result<Option<u64>, Rfc6962Error> {
        let permit = self.permits.take().await?;
        let (index, leaf) = (index.clone(), *leaf);
        let looking = spawn_blocking(move || {
            let _permit = permit;
            index.find(&leaf)
        });
        let looked = looking.await.map_err(std::io::Error::other);
        looked.and_then(|found| found).map_err(|error| {
            tracing::warn!(%error, "the index of leaf hashes cannot be read: it is made anew");
            self.distrust();
            Rfc6962Error::NotIndexed { indexed: 0, size }
        })
    }
}
