//! Sources of the roots that a log accepts.

use std::path::PathBuf;

use lucarne_ct::{CcadbProgramme, Fingerprint};
use lucarne_settings::Located;

/// Sources of accepted roots, which are merged.
#[derive(Clone, Debug, Default)]
pub struct RootSources {
    /// `roots`: a PEM file.
    pub pem: Option<Located<PathBuf>>,
    /// `extraroots`: an additional PEM file.
    pub extra: Option<Located<PathBuf>>,
    /// `ccadbroots` and `rootsurl`.
    pub ccadb: Option<Located<Ccadb>>,
    /// `refusedroots`: removed from the merged roots.
    pub refused: Vec<Located<RefusedRoots>>,
}

/// Roots that are refused, regardless of their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedRoots {
    /// The root with this fingerprint.
    One(Fingerprint),
    /// File of fingerprints, one per line.
    File(PathBuf),
}

/// List of roots from the Common CA Database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ccadb {
    /// URL of the CSV (`http`, `https`, `file`), or a path.
    pub source: String,
    /// Roots of the list to accept.
    pub programme: CcadbProgramme,
}
