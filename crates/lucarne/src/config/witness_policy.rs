//! The policy file with the witnesses of a log.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lucarne_log::{InvalidWitnesses, Witnesses};
use lucarne_settings::Reader;
use lucarne_storage::ObjectStoreConfig;
use lucarne_storage::object::Bucket;
use lucarne_tlog::{Policy, PolicyError};

use super::place::DataPlace;
use super::rounds::KEYS;
use crate::files;
use crate::witness_client::HttpWitnesses;

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

/// The time between two publications of a checkpoint that GCS accepts in the long run.
const GCS_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the witnesses of a log; `None` if the log has none, or their file is invalid.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    data: Option<&DataPlace>,
    period: Duration,
) -> Option<Witnesses> {
    let path = reader.path(&KEYS.witnesses)?;
    let in_gcs = |bucket: &ObjectStoreConfig| matches!(bucket.bucket, Bucket::Gcs(_));
    let is_slow = matches!(data, Some(DataPlace::Bucket(bucket)) if in_gcs(bucket));
    if is_slow && period <= GCS_INTERVAL {
        let message = "GCS accepts a checkpoint once per second, so a busy log never publishes \
                       cosignatures: set `period` to more than 1 s";
        reader.warning(path.line, &KEYS.witnesses, message);
    }
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
