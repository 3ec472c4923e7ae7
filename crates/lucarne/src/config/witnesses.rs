//! The policy file with the witnesses of a log.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lucarne_log::{InvalidWitnesses, Witnesses};
use lucarne_settings::Reader;
use lucarne_tlog::{Policy, PolicyError};

use super::rounds::KEYS;
use crate::files;
use crate::witnesses::HttpWitnesses;

/// The reasons why a file does not name witnesses.
#[derive(Debug, thiserror::Error)]
enum PolicyFileError {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Witnesses(#[from] InvalidWitnesses),
}

/// Reads the witnesses of a log; `None` if the log has none, or their file is invalid.
pub(super) fn read(reader: &mut Reader<'_, '_>) -> Option<Witnesses> {
    let path = reader.path(&KEYS.witnesses)?;
    let read = of_file(&path.value);
    let report = |error: PolicyFileError| {
        let message = format!("{}: {error}", path.value.display());
        reader.problem(path.line, &KEYS.witnesses, message);
    };
    read.map_err(report).ok()
}

fn of_file(path: &Path) -> Result<Witnesses, PolicyFileError> {
    let policy = Policy::parse(&files::read(path)?)?;
    Ok(Witnesses::new(policy, Arc::new(HttpWitnesses::new()))?)
}
