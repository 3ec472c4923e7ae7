//! What may be signed after what. Pure: it is told the time, and touches no disk.

use std::collections::VecDeque;

use lucarne_ct::{MerkleTreeLeafError, MerkleTreeLeafRef};
use lucarne_tlog::{
    EMPTY_ROOT, Frontier, Hash, ProofError, leaf_hash, verify_consistency, verify_inclusion,
};

/// The farthest that a timestamp may be ahead of the signer's own clock: a log whose server
/// signed a day ahead could not sign until then.
const AHEAD_MS: u64 = 60_000;

/// The heads whose leaves may still be promised, beside the last one: SCTs of a round are asked
/// for while the next rounds are signed.
const RECENT: usize = 256;

/// A tree head: what a log has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of leaves.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// The reasons why something is not signed. Each is evidence: of a fault, of an old copy of the
/// log, or of somebody who wants to fork it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A smaller tree than the last.
    #[error(
        "asked for a tree of {} entries with the root {}, after one of {} entries with the root {} \
         was signed: a log never shrinks", to.size, to.root, from.size, from.root
    )]
    Shrunk {
        /// The last head that was signed.
        from: Head,
        /// The head that was asked for.
        to: Head,
    },
    /// The same size, and another root.
    #[error(
        "asked for a tree of {} entries with the root {}, and one of that size was signed with the \
         root {}: that would be a fork", to.size, to.root, from.root
    )]
    Forked {
        /// The last head that was signed.
        from: Head,
        /// The head that was asked for.
        to: Head,
    },
    /// A log that has signed nothing begins with its empty tree.
    #[error(
        "asked for a tree of {} entries with the root {}, and nothing is known to have been signed: \
         a new log begins with no entry. Of one that exists, the newest checkpoint is made known by \
         `lucarne signer adopt`", to.size, to.root
    )]
    NotNew {
        /// The head that was asked for.
        to: Head,
    },
    /// The proof does not lead from one to the other.
    #[error(
        "asked for a tree of {} entries with the root {}, which is not shown to begin with the {} \
         entries with the root {} that were signed: {problem}", to.size, to.root, from.size, from.root
    )]
    Inconsistent {
        /// The last head that was signed.
        from: Head,
        /// The head that was asked for.
        to: Head,
        /// The problem with the proof.
        problem: ProofError,
    },
    /// A timestamp that is not after the last.
    #[error("asked for the timestamp {to}, after {from} was signed: timestamps never go back")]
    Earlier {
        /// The last that was signed.
        from: u64,
        /// The one that was asked for.
        to: u64,
    },
    /// A timestamp that lies in the future.
    #[error(
        "asked for the timestamp {to_ms}, which is {} s ahead of the signer's clock: one of the \
         clocks is wrong", (to_ms - now_ms) / 1000
    )]
    Ahead {
        /// The one that was asked for.
        to_ms: u64,
        /// The signer's clock.
        now_ms: u64,
    },
    /// No leaf.
    #[error("asked for the SCT of what is no leaf: {0}")]
    Leaf(#[from] MerkleTreeLeafError),
    /// A leaf whose place or time is another than where and when it is said to be.
    #[error("asked for the SCT of a leaf with the index {found} in the place {index}")]
    Place {
        /// The place that was shown.
        index: u64,
        /// The index in the leaf.
        found: u64,
    },
    /// A leaf that is not in the tree.
    #[error(
        "asked for the SCT of entry {index}, which is not shown to be in the tree of {size} entries"
    )]
    NotIncluded {
        /// Its index.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
}

/// A leaf of a range: those whose SCT is asked for are there whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// A MerkleTreeLeaf.
    Whole(&'a [u8]),
    /// The hash of one.
    Hash(Hash),
}

/// The memory of one log, in memory.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    last: Option<Head>,
    /// Sizes and roots that were signed, the newest last.
    recent: VecDeque<(u64, Hash)>,
}

impl Guard {
    /// A guard who remembers that this was signed last; nothing yet, if it is `None`.
    pub fn new(last: Option<Head>) -> Self {
        let mut guard = Self::default();
        last.into_iter().for_each(|head| guard.signed(head));
        guard
    }

    /// The last head that was signed.
    pub fn last(&self) -> Option<Head> {
        self.last
    }

    /// Decides of a tree head: `proof` is the consistency proof from the last one.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn may_sign(&self, to: Head, proof: &[Hash], now_ms: u64) -> Result<(), Refusal> {
        let to_ms = to.timestamp_ms;
        if to_ms > now_ms.saturating_add(AHEAD_MS) {
            return Err(Refusal::Ahead { to_ms, now_ms });
        }
        let Some(from) = self.last else {
            return match (to.size, to.root) {
                (0, EMPTY_ROOT) => Ok(()),
                _ => Err(Refusal::NotNew { to }),
            };
        };
        if to.size < from.size {
            return Err(Refusal::Shrunk { from, to });
        }
        if to.size == from.size && to.root != from.root {
            return Err(Refusal::Forked { from, to });
        }
        verify_consistency(from.size, &from.root, to.size, &to.root, proof)
            .map_err(|problem| Refusal::Inconsistent { from, to, problem })?;
        match to_ms <= from.timestamp_ms {
            true => Err(Refusal::Earlier {
                from: from.timestamp_ms,
                to: to_ms,
            }),
            false => Ok(()),
        }
    }

    /// Notes a head that was signed.
    pub fn signed(&mut self, head: Head) {
        self.last = Some(head);
        let tree = (head.size, head.root);
        if self.recent.back() != Some(&tree) {
            self.recent.push_back(tree);
        }
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// The root of the tree of this size, if it was signed and is remembered.
    pub fn root(&self, size: u64) -> Option<Hash> {
        let signed = self.recent.iter().rev().find(|(known, _)| *known == size);
        signed.map(|(_, root)| *root)
    }
}

/// Shows that the last leaves of a tree are these, all at once: with what precedes them they give
/// its root. Returns those that are there whole.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn included<'a>(
    root: &Hash,
    before: Frontier,
    leaves: &[Leaf<'a>],
) -> Result<Vec<MerkleTreeLeafRef<'a>>, Refusal> {
    let first = before.size();
    let mut frontier = before;
    let mut whole = Vec::with_capacity(leaves.len());
    for (index, leaf) in (first..).zip(leaves) {
        match leaf {
            Leaf::Hash(hash) => frontier.push(*hash),
            Leaf::Whole(bytes) => {
                whole.push(at(index, bytes)?);
                frontier.push(leaf_hash(bytes));
            }
        }
    }
    match frontier.root() == *root {
        true => Ok(whole),
        false => Err(Refusal::NotIncluded {
            index: first,
            size: frontier.size(),
        }),
    }
}

/// Shows that a leaf is in a tree by its inclusion proof.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn included_alone<'a>(
    (size, root): (u64, &Hash),
    index: u64,
    bytes: &'a [u8],
    proof: &[Hash],
) -> Result<MerkleTreeLeafRef<'a>, Refusal> {
    let leaf = at(index, bytes)?;
    match verify_inclusion(&leaf_hash(bytes), index, size, root, proof) {
        Ok(()) => Ok(leaf),
        Err(_) => Err(Refusal::NotIncluded { index, size }),
    }
}

fn at(index: u64, bytes: &[u8]) -> Result<MerkleTreeLeafRef<'_>, Refusal> {
    let leaf = MerkleTreeLeafRef::parse(bytes)?;
    match leaf.index == index {
        true => Ok(leaf),
        false => Err(Refusal::Place {
            index,
            found: leaf.index,
        }),
    }
}

#[cfg(test)]
mod tests;
