//! RFC 6962 and static-ct-api structures: what a submission is, what makes it
//! acceptable, and what the log signs and stores for it.
//!
//! The life of a submission, in the order of the modules:
//!
//! 1. [`Chain::decode_json`] turns the body into one buffer of DER certificates.
//! 2. [`Validator::examine`] says everything that can be said without verifying
//!    a signature, and computes the [`Identity`] by which the log deduplicates.
//! 3. [`Validator::verify`] verifies the signatures and gives the [`Entry`].
//! 4. [`TileLeaf::encode`] writes it into a data tile, [`merkle_tree_leaf`] is
//!    what the tree hashes, [`LogKey::sign_sct`] the promise to the submitter.
//!
//! Nothing here does I/O, reads a clock, or re-encodes a byte that a certificate
//! authority has signed: certificates are walked, never parsed and rebuilt.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod algorithm;
mod ccadb;
mod certificate;
mod chain;
mod checkpoint;
mod der;
mod entry;
mod frequent;
mod key;
mod leaf;
mod name;
mod oid;
mod pem;
mod policy;
mod precert;
mod rejection;
mod roots;
mod sct;
mod seed;
mod signature;
mod signer;
mod tail;
mod time;
mod validate;

pub use ccadb::{CcadbError, CcadbProgramme};
pub use certificate::{Certificate, Extension};
pub use chain::{Chain, Limits};
pub use checkpoint::{CheckpointError, CheckpointVerifier, verify_checkpoint};
pub use der::DerError;
pub use entry::{Entry, EntryKind, Fingerprint, Identity, Issuer, SignedEntry};
pub use key::{KeyError, LogId, LogKey, PublicKey};
pub use leaf::{
    Fingerprints, SignedEntryRef, TileLeaf, TileLeafError, TileLeafRef, merkle_tree_leaf,
};
pub use name::{display_name, names_match};
pub use oid::{Oid, OidError};
pub use policy::{Policy, Require};
pub use precert::{tbs_without_poison, tbs_without_poison_for};
pub use rejection::{Code, Rejection};
pub use roots::{Root, Roots, SkippedRoot};
pub use sct::{Sct, SctError};
pub use validate::{Examined, Validator};
