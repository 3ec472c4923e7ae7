//! The values that bind an index to its log, and their encoding.

use lucarne_tlog::Hash;

use crate::data::tree::TreeHead;
use crate::index::backlog::Backlog;

/// The position of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    pub(crate) index: u64,
    pub(crate) timestamp_ms: u64,
}

impl LeafPosition {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.index.to_be_bytes());
        bytes[8..].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<LeafPosition> {
        let (index, timestamp_ms) = bytes.split_at_checked(8)?;
        Some(LeafPosition {
            index: u64::from_be_bytes(index.try_into().ok()?),
            timestamp_ms: u64::from_be_bytes(timestamp_ms.try_into().ok()?),
        })
    }
}

/// The binding of an index to its log, which is written and read as one value.
///
/// The backlog is at the end. A version without backlogs finds no valid anchor in an index that has
/// a backlog, and rebuilds the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The tables have all entries whose index is below this number, except for the backlog.
    pub(crate) indexed: u64,
    /// The newest tree that was indexed, in tables or in memory. This tree begins with the entries
    /// of the tables and of the backlog.
    pub(crate) head: TreeHead,
    /// The entries that are still to be read.
    pub(crate) backlog: Backlog,
}

impl Anchor {
    pub(super) const EMPTY: Anchor = Anchor {
        indexed: 0,
        head: TreeHead::EMPTY,
        backlog: Backlog::EMPTY,
    };

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend_from_slice(&self.indexed.to_be_bytes());
        bytes.extend_from_slice(&self.head.size.to_be_bytes());
        bytes.extend_from_slice(&self.head.root.0);
        bytes.extend(self.backlog.encode());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Anchor> {
        let (indexed, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (root, backlog) = rest.split_first_chunk()?;
        let indexed = u64::from_be_bytes(*indexed);
        let anchor = Anchor {
            indexed,
            head: TreeHead {
                size: u64::from_be_bytes(*size),
                root: Hash(*root),
            },
            backlog: Backlog::decode(backlog, indexed)?,
        };
        (anchor.indexed <= anchor.head.size).then_some(anchor)
    }
}
