//! The sources of the roots that a log accepts.

use std::path::PathBuf;

use lucarne_ct::{CcadbProgramme, Fingerprint};
use lucarne_settings::Located;

/// The sources of accepted roots, which are all joined.
#[derive(Clone, Debug, Default)]
pub struct RootSources {
    /// `roots`: a PEM file.
    pub pem: Option<Located<PathBuf>>,
    /// `extraroots`: another.
    pub extra: Option<Located<PathBuf>>,
    /// `ccadbroots` and `rootsurl`.
    pub ccadb: Option<Located<Ccadb>>,
    /// `refusedroots`: taken out of what the others give.
    pub refused: Vec<Located<RefusedRoots>>,
}

/// Roots that are not accepted, whatever source has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedRoots {
    /// The one with this fingerprint.
    One(Fingerprint),
    /// Those whose fingerprints are in this file, one on each line.
    File(PathBuf),
}

/// The Common CA Database's list of roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ccadb {
    /// URL of the CSV (`http`, `https`, `file`), or a path.
    pub source: String,
    /// The roots that are taken of it.
    pub programme: CcadbProgramme,
}
