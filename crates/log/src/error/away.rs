//! Failures to read the storage of a log that end when the storage responds or changes.

use std::sync::Arc;

use lucarne_ct::TileLeafError;
use lucarne_storage::AssetError;
use lucarne_tlog::Hash;

use crate::error::entries;
use crate::error::read_error::ReadError;

/// The reasons why the state of a log cannot be read now. A later attempt may succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Away {
    /// Storage does not respond.
    #[error("{0}")]
    Storage(Arc<AssetError>),
    /// Tiles could not be read.
    #[error("{0}")]
    Read(ReadError),
    /// Storage has no readable checkpoint.
    #[error("{storage} has no readable checkpoint")]
    NoCheckpoint {
        /// Location of the storage.
        storage: String,
    },
    /// A new data tile does not extend the tree of a follower.
    #[error("{storage}/{tile}: {problem}")]
    Tile {
        /// Location of the storage.
        storage: String,
        /// Path of the tile.
        tile: String,
        /// The problem with the tile.
        problem: FollowedTileError,
    },
    /// New data tiles do not lead a follower to the signed tree.
    #[error(
        "the data tiles in {storage}: expected {} with the root {}, as signed, found {} \
         with the root {}: one of the last tiles is damaged",
        entries(.expected.0), .expected.1, entries(.found.0), .found.1
    )]
    Tree {
        /// Location of the storage.
        storage: String,
        /// Size and root of the signed tree.
        expected: (u64, Hash),
        /// Size and root of the tree with the new tiles.
        found: (u64, Hash),
    },
    /// The log changes during each read.
    #[error("the log signs new checkpoints faster than this process can read its state: retry")]
    Changing,
}

/// The reasons why a data tile does not extend the tree of a follower.
#[derive(Debug, thiserror::Error)]
pub enum FollowedTileError {
    /// The tile could not be read.
    #[error("{0}")]
    Read(ReadError),
    /// The tile does not exist.
    #[error("is missing")]
    Missing,
    /// The tile belongs to another tree.
    #[error("does not begin with the entries that this instance followed")]
    Foreign,
    /// An entry cannot be parsed.
    #[error(transparent)]
    Leaf(#[from] TileLeafError),
}
