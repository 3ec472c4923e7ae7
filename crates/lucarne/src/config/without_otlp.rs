//! Stand-in for the key `otlp`, which this build refuses.

use std::path::PathBuf;

use lucarne_settings::{Located, Reader};

use super::keys::top::KEYS;

const UNSUPPORTED: &str = "is not supported by this build of lucarne, which has no feature `otlp`";

/// Settings of the export of traces and metrics, which this build does not have.
#[derive(Clone, Copy, Debug)]
pub enum OtlpSettings {}

/// Returns the files with passwords: none.
pub(super) fn private_files(_settings: &Option<OtlpSettings>) -> Vec<(String, Located<PathBuf>)> {
    Vec::new()
}

impl OtlpSettings {
    /// Refuses the URL of a collector.
    #[cfg(feature = "load")]
    pub(crate) fn of_load(_url: &str) -> Result<Self, &'static str> {
        Err(UNSUPPORTED)
    }
}

/// Refuses `otlp`.
pub(super) fn read(top: &mut Reader<'_, '_>) -> Option<OtlpSettings> {
    if let Some(node) = top.node(&KEYS.otlp) {
        top.problem(Some(node.line), &KEYS.otlp, UNSUPPORTED);
    }
    None
}
