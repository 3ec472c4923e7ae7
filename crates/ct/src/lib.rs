//! Structures and rules of RFC 6962 and static-ct-api: submissions, their validation, and the data
//! that a log signs and stores for them.
//!
//! ```text
//! JSON → Chain → Validator::examine → Validator::verify → Entry ┬→ TileLeaf
//!                        ↑                   ↑                  ├→ MerkleTreeLeaf
//!                      Roots         ecdsa, rsa, aws-lc-rs      └→ SignedEntry → Sct
//! ```
//!
//! A submission passes these steps:
//!
//! 1. [`Chain::decode_json`] decodes the body into one buffer of DER certificates.
//! 2. [`Validator::examine`] performs every check that needs no signature, and computes the
//!    [`Identity`] that the log uses for deduplication.
//! 3. [`Validator::verify`] verifies the signatures and returns the [`Entry`].
//! 4. [`TileLeaf::encode`] writes the entry into a data tile, [`merkle_tree_leaf`] creates the leaf
//!    that the tree hashes, and [`LogKey::sign_sct`] creates the SCT for the submitter.
//!
//! Other items:
//!
//! | item | contents |
//! |---|---|
//! | [`Certificate`], [`Fingerprint`] | views of certificates, and their hashes |
//! | [`Roots`], [`CcadbProgramme`] | accepted roots, from PEM or CCADB reports |
//! | [`Policy`], [`Rejection`], [`Code`] | the rules of a log, and the reasons of a refusal |
//! | [`Verification`], [`KnownSignature`] | the choice of the verifier, and batches |
//! | [`tbs_without_poison`], [`tbs_without_scts`] | the signed bytes of a precertificate |
//! | [`TileLeafRef`], [`MerkleTreeLeafRef`] | leaves, parsed in place |
//! | [`TrimmedEntry`], [`extra_data()`] | names of an entry, and its chain in `get-entries` |
//! | [`LogKey`], [`PublicKey`], [`LogId`] | the keys of logs, and their IDs |
//! | [`CheckpointVerifier`], [`SignedTreeHead`] | verification of checkpoints |
//! | [`SctList`], [`SeenSct`], [`SctFinding`] | SCTs that are delivered with a certificate |
//! | [`LogList`], [`CtPolicy`], [`Verdict`] | known logs, and the policies of Chrome and Apple |
//! | [`ocsp_status`] | stapled OCSP responses |
//! | [`lint`] | checks of SCTs for certificate authorities |
//!
//! A log signs an SCT, and a client verifies it:
//!
//! ```
//! use lucarne_ct::{LogKey, Sct, SignedEntry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = LogKey::from_seed(&[7; 32])?;
//! let certificate = b"a certificate in DER".as_slice().into();
//! let signed = SignedEntry::X509 { certificate };
//! let response = key.sign_sct(1_767_225_600_000, &signed, 42)?.to_json();
//!
//! let sct = Sct::parse(&response)?;
//! sct.verify(&key.public_key()?, &signed)?;
//! assert_eq!(sct.index(), Some(42));
//! # Ok(())
//! # }
//! ```
//!
//! This crate does no I/O and reads no clock. It never re-encodes bytes that a certificate
//! authority has signed: certificates are parsed as views of their bytes.

mod algorithm;
mod ccadb;
mod certificate;
mod chain;
mod checkpoint;
mod compliance;
mod entry;
mod issuer_chain;
mod key;
mod known;
mod leaf;
pub mod lint;
mod loglist;
mod name;
mod ocsp;
mod policy;
mod precert;
mod public_key;
mod rejection;
mod roots;
mod sct;
mod sct_finding;
mod seed;
mod signature;
mod trimmed_entry;
mod unsigned;
mod validate;
mod verification;

pub use ccadb::{CcadbError, CcadbProgramme};
pub use certificate::{Certificate, Extension};
pub use chain::{Chain, ChainLimits};
pub use checkpoint::{CheckpointError, CheckpointVerifier, SignedTreeHead, verify_checkpoint};
pub use compliance::{CtPolicy, Delivery, LifetimeRule, Shortfall, ValidSct, Verdict};
pub use entry::{Entry, EntryKind, Identity, Issuer, SignedEntry, extra_data, sha256};
pub use key::{KeyHolder, LogKey, OptionalCosigner, p256_public_key};
pub use known::KnownSignature;
pub use leaf::{
    Fingerprints, MerkleTreeLeafError, MerkleTreeLeafRef, SignedEntryRef, TileEntries, TileEntry,
    TileLeaf, TileLeafError, TileLeafRef, merkle_tree_leaf,
};
pub use loglist::{
    ListedLog, ListedLogError, LogApi, LogList, LogListError, LogState, LogStatus, SkippedLog,
};
pub use lucarne_x509::{DerError, Fingerprint, FingerprintError, Oid, OidError};
pub use name::{display_name, names_match};
pub use ocsp::{CertStatus, OcspError, ocsp_status, sct_list_of_ocsp};
pub use policy::{Policy, Require};
pub use precert::{tbs_without_poison, tbs_without_poison_for, tbs_without_scts};
pub use public_key::{KeyError, LogId, PublicKey, PublicKeyError, given_public_key};
pub use rejection::{Code, Rejection};
pub use roots::{Root, RootError, Roots, SkippedRoot};
pub use sct::{Sct, SctError, SctList, delivered_entry, embedded_entry, encode_sct_list};
pub use sct_finding::{LoggedEntries, MOST_SCTS, SctFinding, SeenSct, UnreadSct, read_scts};
pub use seed::{mirror_cosigner, witness_cosigners};
pub use signature::is_issued_by;
pub use trimmed_entry::TrimmedEntry;
pub use validate::{Examined, Validator};
pub use verification::{Disagreement, Verification, VerificationStats};
