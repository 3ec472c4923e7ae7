//! The append-only Merkle tree of a transparency log, and its published form.
//!
//! ```text
//! leaves → hash → edge ┬→ tiles → proof → verified leaf
//!                      └→ root → checkpoint → note
//!                          ↑
//! leaves → frontier ───────┘
//! ```
//!
//! | module | concept | specification |
//! |---|---|---|
//! | [`hash`] | leaf and node hashes | RFC 6962, section 2.1 |
//! | [`tile`] | tiles, their paths and extents | C2SP tlog-tiles, static-ct-api |
//! | [`edge`] | the rightmost tiles: grows the tree tile by tile | C2SP tlog-tiles |
//! | [`frontier`] | a second computation of the root, as a check | RFC 6962, section 2.1 |
//! | [`proof`] | proofs of inclusion and consistency | RFC 6962, sections 2.1.1, 2.1.2 |
//! | [`subtree`] | intervals of leaves that can be proven | draft-ietf-plants-merkle-tree-certs |
//! | [`note`] | a text with signature lines | C2SP signed-note |
//! | [`checkpoint`] | the tree head in a note | C2SP tlog-checkpoint |
//! | [`vkey`] | verifier keys of logs and cosigners | C2SP signed-note |
//! | [`cosignature`] | signatures of witnesses, mirrors and logs | C2SP tlog-cosignature |
//! | [`policy`] | trusted logs, and the quorum of witnesses | C2SP tlog-policy |
//! | [`tlog_proof`] | an inclusion proof with its checkpoint in a file | C2SP tlog-proof |
//! | [`upload`] | packages of entries, and the state of a mirror | C2SP tlog-mirror |
//!
//! Every function is pure: there is no I/O, no clock and no thread. Only ML-DSA-44 signatures of
//! [`Cosigner`] have randomness.
//!
//! A publisher appends leaves and writes the returned tiles. Any reader of these tiles can then
//! prove that a leaf is in the tree:
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
pub mod cosignature;
pub mod edge;
pub mod frontier;
pub mod hash;
pub mod note;
pub mod policy;
pub mod proof;
pub mod subtree;
pub mod tile;
pub mod tlog_proof;
pub mod upload;
pub mod vkey;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use cosignature::{CosignError, Cosigner};
pub use edge::{LoadError, RightEdge, TileError, tile_root};
pub use frontier::Frontier;
pub use hash::{EMPTY_ROOT, Hash, leaf_hash, node_hash};
pub use note::{NoteError, NoteSignature, SignedNote};
pub use policy::{Policy, PolicyError};
pub use proof::{
    HashReader, MakeProofError, ProofError, consistency_proof, consistency_tiles, inclusion_proof,
    inclusion_tiles, subtree_consistency_proof, subtree_consistency_tiles, subtree_inclusion_proof,
    subtree_root, tree_root, verify_consistency, verify_inclusion, verify_subtree_consistency,
    verify_subtree_inclusion,
};
pub use subtree::Subtree;
pub use tile::{
    Level, MAX_LEVEL, MAX_TREE_SIZE, TILE_WIDTH, Tile, TilePathError, data_tiles_between,
    tiles_between,
};
pub use tlog_proof::{TlogProof, TlogProofError};
pub use vkey::{InvalidSignature, KeyError, KeyType, VerifierKey};
