//! Stand-in for the key `otlp`, which this build refuses.

use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report, Section};

use super::keys::top::KEYS;

/// Settings of the export of traces and metrics, which this build does not have.
#[derive(Clone, Copy, Debug)]
pub enum OtlpSettings {}

/// Returns the files with passwords: none.
pub(super) fn private_files(_settings: &Option<OtlpSettings>) -> Vec<(String, Located<PathBuf>)> {
    Vec::new()
}

/// Refuses `otlp`.
pub(super) fn read(
    top: &Section<'_>,
    _directory: &Path,
    report: &mut Report,
) -> Option<OtlpSettings> {
    if let Some(node) = top.get(&KEYS.otlp) {
        let message = "is not supported by this build of lucarne, which has no feature `otlp`";
        report.problem(Some(node.line), KEYS.otlp.name(), message);
    }
    None
}
