//! Inclusion and consistency proofs (RFC 6962, sections 2.1.1 and 2.1.2), created from tiles and
//! verified from hashes alone.

mod make;
mod verify;

pub use make::{
    HashReader, MakeProofError, consistency_proof, consistency_tiles, inclusion_proof,
    inclusion_tiles, tree_root,
};
pub use verify::{ProofError, verify_consistency, verify_inclusion};
