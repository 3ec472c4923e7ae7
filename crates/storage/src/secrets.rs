//! Keys in a secret manager: AWS Secrets Manager, GCP Secret Manager.

#[cfg(not(feature = "object-stores"))]
pub use absent::{aws, gcp};

use crate::NotBuilt;
#[cfg(feature = "object-stores")]
pub use crate::secret_managers::{aws, gcp};

/// The reasons why a secret cannot be read. Each text follows the name of the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The configured service is invalid.
    #[error("cannot be requested: {0}")]
    Configuration(String),
    /// There are no credentials for the request.
    #[error(
        "cannot be requested without credentials ({0}). Set them in the environment, or give \
         this machine a role that has them"
    )]
    Credentials(String),
    /// The secret does not exist.
    #[error("does not exist at {server} ({detail}). Check its name and region")]
    Absent {
        /// The service.
        server: String,
        /// The error in its response.
        detail: String,
    },
    /// The credentials are unknown, or do not permit reading the secret.
    #[error(
        "is refused by {server} ({detail}). Check the credentials, and that they have the \
         permission {permission}"
    )]
    Refused {
        /// The service.
        server: String,
        /// The permission that is required to read a secret.
        permission: &'static str,
        /// The server's response.
        detail: String,
    },
    /// There was no response in time, or the service is unavailable.
    #[error("cannot be fetched: {server} is unavailable ({detail})")]
    Unavailable {
        /// The service.
        server: String,
        /// The error in the response, or the reason why there is no response.
        detail: String,
    },
    /// Any other response.
    #[error("cannot be fetched: {server} responded with {detail}")]
    Response {
        /// The service.
        server: String,
        /// The error in its response.
        detail: String,
    },
    /// This build has no secret managers.
    #[error(
        "cannot be fetched: {0}. Build with that feature, or fetch the key with a command (`exec:`)"
    )]
    NotBuilt(#[from] NotBuilt),
}

/// The replacement for secret managers in a build without the feature `object-stores`.
#[cfg(not(feature = "object-stores"))]
mod absent {
    use bytes::Bytes;

    use super::{NotBuilt, SecretError};
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
}
