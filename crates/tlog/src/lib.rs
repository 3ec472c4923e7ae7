//! The append-only Merkle tree of a transparency log, and what is published of it.
//!
//! | module | concept | specification |
//! |---|---|---|
//! | [`hash`] | leaf and node hashes | RFC 6962 2.1 |
//! | [`tile`] | tiles, their paths and extents | C2SP tlog-tiles, static-ct-api |
//! | [`edge`] | the rightmost tiles: growing the tree, tile by tile | C2SP tlog-tiles |
//! | [`frontier`] | the same root by another way, to check the first | RFC 6962 2.1 |
//! | [`proof`] | inclusion and consistency: made from tiles, verified | RFC 6962 2.1.1, 2.1.2 |
//! | [`note`] | a text and its signature lines | C2SP signed-note |
//! | [`checkpoint`] | the tree head that a note carries | C2SP tlog-checkpoint |
//!
//! Everything here is a pure function of its arguments: no I/O, no clock, no
//! randomness, no thread.
//!
//! A publisher appends leaves and writes the tiles it is given; anybody can
//! then prove from these tiles what is in the tree:
//!
//! ```
//! use std::collections::HashMap;
//! use lucarne_tlog::*;
//!
//! let leaves: Vec<Hash> = (0..300u32).map(|i| leaf_hash(&i.to_be_bytes())).collect();
//! let mut edge = RightEdge::new();
//! let published: HashMap<Tile, Vec<u8>> = edge.append(&leaves).into_iter().collect();
//! assert_eq!(published[&Tile::parse("tile/0/001.p/44").unwrap()].len(), 44 * 32);
//!
//! let mut reader = |tile: Tile| published.get(&tile).cloned().ok_or("not published");
//! let proof = inclusion_proof(7, 300, &mut reader).unwrap();
//! verify_inclusion(&leaves[7], 7, 300, &edge.root(), &proof).unwrap();
//! ```

pub mod checkpoint;
pub mod edge;
pub mod frontier;
pub mod hash;
pub mod note;
pub mod proof;
pub mod tile;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use edge::{LoadError, RightEdge, TileError, tile_root};
pub use frontier::Frontier;
pub use hash::{EMPTY_ROOT, Hash, leaf_hash, node_hash};
pub use note::{NoteError, NoteSignature, SignedNote};
pub use proof::{
    HashReader, MakeProofError, ProofError, consistency_proof, consistency_tiles, inclusion_proof,
    inclusion_tiles, tree_root, verify_consistency, verify_inclusion,
};
pub use tile::{
    Level, MAX_LEVEL, MAX_TREE_SIZE, TILE_WIDTH, Tile, TilePathError, data_tiles_between,
    tiles_between,
};
