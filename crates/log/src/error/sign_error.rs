//! The reasons why a tree head is not signed.

use lucarne_ct::{CheckpointError, KeyError};

/// The reasons why a tree head is not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The key failed.
    #[error("{0}")]
    Key(KeyError),
    /// The new signature does not verify.
    #[error("{0}")]
    Unsound(CheckpointError),
    /// The signature is valid for another tree head.
    #[error("the signature is for another tree head")]
    OtherHead,
}

impl From<KeyError> for SignError {
    fn from(error: KeyError) -> Self {
        SignError::Key(error)
    }
}

impl From<CheckpointError> for SignError {
    fn from(error: CheckpointError) -> Self {
        SignError::Unsound(error)
    }
}
