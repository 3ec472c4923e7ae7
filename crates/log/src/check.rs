//! Verification of a log's files, and their repair.
//!
//! ```text
//! fsck → scrub → (damaged files) → restore
//!    └─→ repair
//! ```
//!
//! `fsck` compares every file with the signed tree; `unsigned` has the rules for the parts of an
//! entry that no hash covers. In a running log, `scrub` repeats this check, and `restore` recreates
//! damaged files from the log's own data. `repair` is for operators, and takes files from other
//! copies, too. `inspection` compares lock, journal and storage, and writes nothing.

pub(crate) mod fsck;
pub(crate) mod inspection;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod scrub;
#[cfg(test)]
pub(crate) mod stored_log;
pub(crate) mod unsigned;
