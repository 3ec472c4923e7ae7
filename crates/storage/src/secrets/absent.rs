//! The replacement for secret managers in a build without the feature `object-stores`.

use bytes::Bytes;

use super::SecretError;
use crate::NotBuilt;
use crate::object::{Gcs, S3};

/// Fails, because this build has no secret managers.
///
/// # Errors
///
/// [`SecretError::NotBuilt`].
pub async fn aws(_name: &str, _place: &S3) -> Result<Bytes, SecretError> {
    Err(left_out("AWS Secrets Manager"))
}

/// Fails, because this build has no secret managers.
///
/// # Errors
///
/// [`SecretError::NotBuilt`].
pub async fn gcp(_version: &str, _place: &Gcs) -> Result<Bytes, SecretError> {
    Err(left_out("GCP Secret Manager"))
}

fn left_out(what: &'static str) -> SecretError {
    let feature = "object-stores";
    NotBuilt { what, feature }.into()
}
