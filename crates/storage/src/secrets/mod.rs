//! Keys in a cloud's keeping: AWS Secrets Manager, GCP Secret Manager.

#[cfg(not(feature = "object-stores"))]
mod absent;
#[cfg(feature = "object-stores")]
mod managers;

#[cfg(not(feature = "object-stores"))]
pub use absent::{aws, gcp};
#[cfg(feature = "object-stores")]
pub use managers::{aws, gcp};

use crate::NotBuilt;

/// The reasons why a secret does not come, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The configured service cannot be asked.
    #[error("cannot be asked for: {0}")]
    Configuration(String),
    /// Nothing says who it is that asks.
    #[error(
        "cannot be asked for without credentials ({0}). Set them in the environment, or give this \
         machine a role that has them"
    )]
    Credentials(String),
    /// There is none of this name.
    #[error("is not at {server} ({detail}). Check its name, and where it is")]
    Absent {
        /// The service that was asked.
        server: String,
        /// The error it gave.
        detail: String,
    },
    /// The credentials are not known, or may not read it.
    #[error(
        "is refused by {server} ({detail}). Check the credentials, and that they have the \
         permission {permission}"
    )]
    Refused {
        /// The service that was asked.
        server: String,
        /// Holds what it takes to read a secret.
        permission: &'static str,
        /// The server's answer.
        detail: String,
    },
    /// No answer in time, or that there is none now.
    #[error("cannot be fetched: {server} does not serve us now ({detail})")]
    Unavailable {
        /// The service that was asked.
        server: String,
        /// The error it gave, or what kept it from saying anything.
        detail: String,
    },
    /// Any other answer.
    #[error("cannot be fetched: {server} answers {detail}")]
    Answer {
        /// The service that was asked.
        server: String,
        /// The error it gave.
        detail: String,
    },
    /// This build asks nobody.
    #[error(
        "cannot be fetched: {0}. Build it with that feature, or let a command fetch the key \
         (`exec:`)"
    )]
    NotBuilt(#[from] NotBuilt),
}
