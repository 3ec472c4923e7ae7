//! Proofs of inclusion and consistency, of trees (RFC 6962, sections 2.1.1 and 2.1.2) and of
//! subtrees (draft-ietf-plants-merkle-tree-certs), created from tiles and verified from hashes
//! alone.

mod make;
mod verify;

pub use make::{
    HashReader, MakeProofError, consistency_proof, consistency_tiles, inclusion_proof,
    inclusion_tiles, subtree_consistency_proof, subtree_consistency_tiles, subtree_inclusion_proof,
    subtree_root, tree_root,
};
pub use verify::{
    ProofError, verify_consistency, verify_inclusion, verify_subtree_consistency,
    verify_subtree_inclusion,
};
