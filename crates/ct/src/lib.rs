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
//! And for whoever meets certificates: [`SctList`] are the SCTs that come with one, a
//! [`LogList`] knows the logs, a [`CtPolicy`] says whether that is enough, and [`ocsp_status`]
//! what a stapled OCSP response proves. [`lint`] puts these together for those who issue certificates.
//!
//! Nothing here does I/O, reads a clock, or re-encodes a byte that a certificate
//! authority has signed: certificates are walked, never parsed and rebuilt.

mod algorithm;
mod ccadb;
mod certificate;
mod chain;
mod checkpoint;
mod compliance;
mod entry;
mod extra_data;
mod given_key;
mod issuer_chain;
mod key;
mod known;
mod known_signature;
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
mod sct_list;
mod seed;
mod signature;
mod trimmed_entry;
mod unsigned;
mod validate;
mod verification;
mod verified_issuer;

pub use ccadb::{CcadbError, CcadbProgramme};
pub use certificate::{Certificate, Extension};
pub use chain::{Chain, ChainLimits};
pub use checkpoint::{CheckpointError, CheckpointVerifier, SignedTreeHead, verify_checkpoint};
pub use compliance::{CtPolicy, Delivery, LifetimeRule, Shortfall, ValidSct, Verdict};
pub use entry::{Entry, EntryKind, Identity, Issuer, SignedEntry, sha256};
pub use extra_data::extra_data;
pub use given_key::{PublicKeyError, given_public_key};
pub use key::{KeyHolder, LogKey, p256_public_key};
pub use known_signature::KnownSignature;
pub use leaf::{
    Fingerprints, MerkleTreeLeafError, MerkleTreeLeafRef, SignedEntryRef, TileLeaf, TileLeafError,
    TileLeafRef, merkle_tree_leaf,
};
pub use loglist::{
    ListedLog, ListedLogError, LogApi, LogList, LogListError, LogState, LogStatus, SkippedLog,
};
pub use lucarne_x509::{DerError, Fingerprint, FingerprintError, Oid, OidError};
pub use name::{display_name, names_match};
pub use ocsp::{CertStatus, OcspError, ocsp_status, sct_list_of_ocsp};
pub use policy::{Policy, Require};
pub use precert::{tbs_without_poison, tbs_without_poison_for, tbs_without_scts};
pub use public_key::{KeyError, LogId, PublicKey};
pub use rejection::{Code, Rejection};
pub use roots::{Root, RootError, Roots, SkippedRoot};
pub use sct::{Sct, SctError};
pub use sct_finding::{LoggedEntries, MOST_SCTS, SctFinding, SeenSct, UnreadSct, read_scts};
pub use sct_list::{SctList, delivered_entry, embedded_entry, encode_sct_list};
pub use signature::is_issued_by;
pub use trimmed_entry::TrimmedEntry;
pub use validate::{Examined, Validator};
pub use verification::{Disagreement, Verification, VerificationStats};
