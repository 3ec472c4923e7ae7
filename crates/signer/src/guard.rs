//! The rules for signatures. This module is pure: it uses no clock and no disk.

use std::collections::VecDeque;

use lucarne_ct::{MerkleTreeLeafError, MerkleTreeLeafRef};
use lucarne_tlog::{
    EMPTY_ROOT, Frontier, Hash, ProofError, leaf_hash, verify_consistency, verify_inclusion,
};
use lucarne_x509::text::counted;

/// Maximum time that a timestamp may be ahead of the signer's clock. If a server signed a day
/// ahead, the log could not sign for a day.
const AHEAD_MS: u64 = 60_000;

/// Number of remembered tree heads whose leaves may still get SCTs, in addition to the last one:
/// SCTs of a round are requested while the next rounds are signed.
const RECENT: usize = 256;

/// A tree head that a log signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of leaves.
    pub size: u64,
    /// Root hash of the leaves.
    pub root: Hash,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
}

impl Head {
    fn entries(&self) -> String {
        counted(self.size, "entry")
    }
}

/// Formats Unix milliseconds as `2026-07-01T00:00:00.123Z`.
fn date(ms: u64) -> String {
    let seconds = lucarne_x509::time::display(i64::try_from(ms).unwrap_or(i64::MAX));
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), ms % 1000)
}

/// The reasons for a refusal. Each is evidence of a fault, of an old copy of the log, or of an
/// attempted fork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The tree is smaller than the last signed tree.
    #[error(
        "requested a tree of {} with the root {}, after one of {} with the root {} was signed: a \
         log never shrinks", to.entries(), to.root, from.entries(), from.root
    )]
    Shrunk {
        /// The last signed head.
        from: Head,
        /// The requested head.
        to: Head,
    },
    /// The tree has the same size and another root.
    #[error(
        "requested a tree of {} with the root {}, but one of that size was signed with the root \
         {}: that would be a fork", to.entries(), to.root, from.root
    )]
    Forked {
        /// The last signed head.
        from: Head,
        /// The requested head.
        to: Head,
    },
    /// A log that has signed nothing must begin with its empty tree.
    #[error(
        "requested a tree of {} with the root {}, but no earlier signature is known: a new log \
         begins without entries. For an existing log, run `lucarne signer adopt` with its newest \
         checkpoint", to.entries(), to.root
    )]
    NotNew {
        /// The requested head.
        to: Head,
    },
    /// The consistency proof is invalid.
    #[error(
        "requested a tree of {} with the root {}, without proof that it begins with the signed {} \
         with the root {}: {problem}", to.entries(), to.root, from.entries(), from.root
    )]
    Inconsistent {
        /// The last signed head.
        from: Head,
        /// The requested head.
        to: Head,
        /// The error in the proof.
        problem: ProofError,
    },
    /// The timestamp is not later than the last signed timestamp.
    #[error(
        "requested the timestamp {}, after {} was signed: timestamps never go back",
        date(*to),
        date(*from)
    )]
    Earlier {
        /// The last signed timestamp.
        from: u64,
        /// The requested timestamp.
        to: u64,
    },
    /// The timestamp is in the future.
    #[error(
        "requested the timestamp {}, which is {} s ahead of the signer's clock: one of the \
         clocks is wrong", date(*to_ms), (to_ms - now_ms) / 1000
    )]
    Ahead {
        /// The requested timestamp.
        to_ms: u64,
        /// The time of the signer's clock.
        now_ms: u64,
    },
    /// The bytes are not a MerkleTreeLeaf.
    #[error("requested an SCT, but the bytes are not a leaf: {0}")]
    Leaf(#[from] MerkleTreeLeafError),
    /// The index in the leaf differs from its proven position.
    #[error("requested an SCT for index {index}, but the leaf has the index {found}")]
    Place {
        /// The position according to the proof.
        index: u64,
        /// The index in the leaf.
        found: u64,
    },
    /// The leaf is not in the tree.
    #[error(
        "requested the SCT of entry {index}, without proof that it is in the tree of {}",
        counted(*.size, "entry")
    )]
    NotIncluded {
        /// Index of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
    },
}

/// A leaf of a range. Leaves whose SCT is requested are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// A complete MerkleTreeLeaf.
    Whole(&'a [u8]),
    /// The hash of a leaf.
    Hash(Hash),
}

/// The signing history of one log, in memory.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    last: Option<Head>,
    /// Sizes and roots of signed heads, the newest last.
    recent: VecDeque<(u64, Hash)>,
}

impl Guard {
    /// Creates a guard whose last signed head is `last`; `None` if nothing was signed.
    pub fn new(last: Option<Head>) -> Self {
        let mut guard = Self::default();
        last.into_iter().for_each(|head| guard.signed(head));
        guard
    }

    /// Returns the last signed head.
    pub fn last(&self) -> Option<Head> {
        self.last
    }

    /// Checks whether a tree head may be signed. `proof` is the consistency proof from the last
    /// signed head.
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
        if to_ms <= from.timestamp_ms {
            Err(Refusal::Earlier {
                from: from.timestamp_ms,
                to: to_ms,
            })
        } else {
            Ok(())
        }
    }

    /// Records a signed head.
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

    /// Returns the root of the tree of this size if it was signed and is remembered.
    pub fn root(&self, size: u64) -> Option<Hash> {
        let signed = self.recent.iter().rev().find(|(known, _)| *known == size);
        signed.map(|(_, root)| *root)
    }
}

/// Verifies that the last leaves of a tree are `leaves`: the preceding leaves and `leaves` together
/// must have the root of the tree. Returns the complete leaves.
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
    if frontier.root() == *root {
        Ok(whole)
    } else {
        Err(Refusal::NotIncluded {
            index: first,
            size: frontier.size(),
        })
    }
}

/// Verifies by an inclusion proof that a leaf is in a tree.
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
    if leaf.index == index {
        Ok(leaf)
    } else {
        Err(Refusal::Place {
            index,
            found: leaf.index,
        })
    }
}

#[cfg(test)]
mod tests;
