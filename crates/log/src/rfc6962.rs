//! The read operations of RFC 6962 (sections 4.3 to 4.6 and 4.8), from the files of a static CT
//! log.
//!
//! All data comes from tiles that were verified against the signed tree, and each proof is verified
//! again before it is returned. Nothing is signed: the tree head comes from the checkpoint.

use std::sync::Arc;

use lucarne_ct::SignedTreeHead;
use lucarne_tlog::{Hash, RightEdge, verify_consistency, verify_inclusion};

use self::log_entry::log_entries;
use self::state::Rfc6962;
use crate::error::{ReadError, ReadFailure};
use crate::read::proofs;

mod error;
mod indexer;
mod leaf_index;
mod leaves;
mod log_entry;
mod permits;
pub(crate) mod state;

pub use self::error::Rfc6962Error;
pub(crate) use self::indexer::keep_index;
pub use self::log_entry::{LogEntries, LogEntry};

/// Maximum bytes of the entries in one response, before base64. The first entry may exceed this
/// limit.
const MOST_BYTES: usize = 3 << 20;

/// The RFC 6962 read operations of one log.
pub struct Rfc6962Reads<'l> {
    state: &'l Rfc6962,
}

impl<'l> Rfc6962Reads<'l> {
    pub(crate) fn of(state: &'l Rfc6962) -> Self {
        Rfc6962Reads { state }
    }

    /// Returns the tree head of `get-sth` (section 4.3), from the published checkpoint.
    ///
    /// # Errors
    /// If no checkpoint is published yet, or if the published checkpoint cannot be parsed.
    pub fn tree_head(&self) -> Result<SignedTreeHead, Rfc6962Error> {
        let published = self.state.reader.published().ok_or(Rfc6962Error::NoTree)?;
        let (config, note) = (&self.state.config, &published.checkpoint);
        SignedTreeHead::of_checkpoint(note, &config.origin, &config.key.log_id())
            .map_err(|error| ReadError::from(ReadFailure::TreeHead(error)).into())
    }

    /// Returns the proof of `get-sth-consistency` (section 4.4). The proof is empty between equal
    /// sizes, and from the empty tree, for which RFC 6962 defines no proof.
    ///
    /// # Errors
    /// If `first` is greater than `second`, if the published tree is smaller than `second`, or if
    /// tiles cannot be read.
    pub async fn consistency(&self, first: u64, second: u64) -> Result<Vec<Hash>, Rfc6962Error> {
        in_order(("first", first), ("second", second))?;
        let edge = self.edge("second", second).await?;
        let tiles = self.state.reader.tiles();
        let proof = proofs::consistency(tiles, &edge, first, second).await?;
        let (old, new) = (
            tiles.root_at(&edge, first).await?,
            tiles.root_at(&edge, second).await?,
        );
        verify_consistency(first, &old, second, &new, &proof).map_err(defect)?;
        Ok(proof)
    }

    /// Returns the index and the audit path of `get-proof-by-hash` (section 4.5).
    ///
    /// # Errors
    /// If the tree of this size has no such leaf, or the index does not reach that size yet.
    pub async fn proof_by_hash(
        &self,
        hash: &Hash,
        tree_size: u64,
    ) -> Result<(u64, Vec<Hash>), Rfc6962Error> {
        if tree_size == 0 {
            return Err(Rfc6962Error::UnknownLeaf { size: 0 });
        }
        let edge = self.edge("tree_size", tree_size).await?;
        let leaves = &self.state.leaves;
        let index = leaves.index_of(hash, tree_size).await?;
        // The index may be wrong: the tree must have this leaf at this position.
        if self.state.reader.tiles().leaf_hash(&edge, index).await? != *hash {
            leaves.distrust();
            let indexed = 0;
            return Err(Rfc6962Error::NotIndexed {
                indexed,
                size: tree_size,
            });
        }
        let path = self.inclusion(&edge, index, tree_size).await?;
        Ok((index, path))
    }

    /// Returns entries of `get-entries` (section 4.6), from `start` to `end` inclusive. The result
    /// has at least one entry, and ends at the end of the data tile or of the tree, or at a limit
    /// of bytes.
    ///
    /// # Errors
    /// If the first entry is not in the tree, or the entries cannot be read.
    pub async fn entries(&self, start: u64, end: u64) -> Result<LogEntries, Rfc6962Error> {
        in_order(("start", start), ("end", end))?;
        let published = self.state.reader.published().ok_or(Rfc6962Error::NoTree)?;
        let size = published.size;
        if start >= size {
            return Err(Rfc6962Error::BeyondTree {
                parameter: "start",
                asked: start,
                size,
            });
        }
        let _permit = self.state.permits.take().await?;
        Ok(log_entries(&self.state.reader, size, start, end, MOST_BYTES).await?)
    }

    /// Returns the entry and the audit path of `get-entry-and-proof` (section 4.8).
    ///
    /// # Errors
    /// If the tree of this size has no such entry, or the entry cannot be read.
    pub async fn entry_and_proof(
        &self,
        leaf_index: u64,
        tree_size: u64,
    ) -> Result<(LogEntry, Vec<Hash>), Rfc6962Error> {
        let edge = self.edge("tree_size", tree_size).await?;
        if leaf_index >= tree_size {
            return Err(Rfc6962Error::BeyondTree {
                parameter: "leaf_index",
                asked: leaf_index,
                size: tree_size,
            });
        }
        let path = self.inclusion(&edge, leaf_index, tree_size).await?;
        let found = self.entries(leaf_index, leaf_index).await?.entries;
        let entry = found.into_iter().next();
        let entry = entry.ok_or(ReadError::from(ReadFailure::NoEntry))?;
        Ok((entry, path))
    }

    async fn inclusion(
        &self,
        edge: &Arc<RightEdge>,
        index: u64,
        size: u64,
    ) -> Result<Vec<Hash>, Rfc6962Error> {
        let tiles = self.state.reader.tiles();
        let path = proofs::inclusion(tiles, edge, index, size).await?;
        let (leaf, root) = (
            tiles.leaf_hash(edge, index).await?,
            tiles.root_at(edge, size).await?,
        );
        verify_inclusion(&leaf, index, size, &root, &path).map_err(defect)?;
        Ok(path)
    }

    /// Returns the right edge of the published tree, if it has at least `size` entries.
    async fn edge(
        &self,
        parameter: &'static str,
        size: u64,
    ) -> Result<Arc<RightEdge>, Rfc6962Error> {
        let edge = self.state.reader.signed_edge().await?;
        let edge = edge.ok_or(Rfc6962Error::NoTree)?;
        match edge.size() {
            entries if size > entries => Err(Rfc6962Error::BeyondTree {
                parameter,
                asked: size,
                size: entries,
            }),
            _ => Ok(edge),
        }
    }
}

fn in_order(
    (smaller, one): (&'static str, u64),
    (larger, other): (&'static str, u64),
) -> Result<(), Rfc6962Error> {
    if one <= other {
        Ok(())
    } else {
        Err(Rfc6962Error::Order {
            smaller,
            larger,
            values: (one, other),
        })
    }
}

/// Reports that a proof generated by the log itself does not verify.
fn defect(error: lucarne_tlog::ProofError) -> ReadError {
    ReadFailure::Defect(error).into()
}

#[cfg(test)]
mod tests;
