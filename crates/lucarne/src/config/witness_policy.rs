//! The policy files with the witnesses and mirrors of a log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lucarne_log::{InvalidWitnesses, WitnessClient, Witnesses};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Reader};
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

type Parse = fn(Policy, Arc<dyn WitnessClient>) -> Result<Witnesses, InvalidWitnesses>;

/// Reads the witnesses and mirrors of a log; `None` if the log has none, or a file is invalid.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    data: Option<&DataPlace>,
    period: Duration,
) -> Option<Witnesses> {
    let in_gcs = |bucket: &ObjectStoreConfig| matches!(bucket.bucket, Bucket::Gcs(_));
    let is_slow = matches!(data, Some(DataPlace::Bucket(bucket)) if in_gcs(bucket));
    let client: Arc<dyn WitnessClient> = Arc::new(HttpWitnesses::new());
    let mut of_file = |key: &Key<Shape>, parse: Parse| {
        let path = reader.path(key)?;
        if is_slow && period <= GCS_INTERVAL {
            let message = "GCS accepts a checkpoint once per second, so a busy log never publishes \
                           cosignatures: set `period` to more than 1 s";
            reader.warning(path.line, key, message);
        }
        let read = || -> Result<Witnesses, PolicyFileError> {
            let policy = Policy::parse(&files::read(&path.value)?)?;
            Ok(parse(policy, client.clone())?)
        };
        let report = |error| {
            let message = format!("{}: {error}", path.value.display());
            reader.problem(path.line, key, message);
        };
        Some((path.line, read().map_err(report).ok()?))
    };
    let witnesses = of_file(&KEYS.witnesses, Witnesses::new);
    let mirrors = of_file(&KEYS.mirrors, Witnesses::mirrors);
    match (witnesses, mirrors) {
        (Some((_, witnesses)), Some((line, mirrors))) => {
            let report = |error: InvalidWitnesses| {
                reader.problem(line, &KEYS.mirrors, error.to_string());
            };
            witnesses.and(mirrors).map_err(report).ok()
        }
        (one, other) => Some(one.or(other)?.1),
    }
}
