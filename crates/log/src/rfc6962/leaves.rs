//! The lookup of a leaf by its hash, while the index is updated concurrently.

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

/// Maximum time to wait for the index to reach the requested tree. The index usually follows each
/// round at once.
const INDEX_TIMEOUT: Duration = Duration::from_secs(2);

/// The index of leaf hashes, after it has been opened.
pub(crate) struct Leaves {
    /// The directory of the index.
    pub(super) folder: PathBuf,
    pub(super) index: ArcSwapOption<LeafIndex>,
    /// Notifies that the index was found damaged or wrong.
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

    /// Discards the index, so that it is rebuilt. Until the rebuild, lookups return
    /// [`Rfc6962Error::NotIndexed`].
    pub(super) fn distrust(&self) {
        self.index.store(None);
        self.distrusted.notify_one();
    }

    /// Returns the index of the entry with this leaf hash among the first `size` entries. The
    /// caller must verify the result against the tree.
    pub(super) async fn index_of(&self, leaf: &Hash, size: u64) -> Result<u64, Rfc6962Error> {
        let not_indexed = |indexed| Rfc6962Error::NotIndexed { indexed, size };
        let index = self.index.load_full().ok_or_else(|| not_indexed(0))?;
        let indexed = index.indexed();
        let mut found = self.look(&index, leaf, size).await?;
        if found.is_none() && indexed < size {
            let mut growing = index.watch();
            let grown = timeout(INDEX_TIMEOUT, growing.wait_for(|indexed| *indexed >= size));
            if !matches!(grown.await, Ok(Ok(_))) {
                return Err(not_indexed(index.indexed()));
            }
            found = self.look(&index, leaf, size).await?;
        }
        // An entry after the first `size` is not in this tree.
        found
            .filter(|index| *index < size)
            .ok_or(Rfc6962Error::UnknownLeaf { size })
    }

    /// Looks up a leaf on a blocking thread. A hung disk blocks at most as many threads as there
    /// are permits.
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
            tracing::warn!(%error, "cannot read the index of leaf hashes: rebuilding it");
            self.distrust();
            Rfc6962Error::NotIndexed { indexed: 0, size }
        })
    }
}
