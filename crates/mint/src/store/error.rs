//! Errors of requesting a certificate.

use std::sync::Arc;

use super::Host;

/// Reasons why a store provides no certificate. Clones are cheap, because all waiting callers
/// receive the same error. Errors are never stored, so the next call retries.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The generator failed.
    #[error("creating a certificate for {host}: {source}")]
    Generate {
        /// Requested host.
        host: Host,
        /// Error of the generator.
        source: Arc<crate::MintError>,
    },
    /// The limit of certificates in progress is reached.
    #[error("no certificate for {host}: {limit} others are being created: try again later")]
    Overloaded {
        /// Requested host.
        host: Host,
        /// Limit that was reached ([`StoreOptions::waiting`](super::StoreOptions::waiting)).
        limit: usize,
    },
    /// The generator panicked, or its runtime was shut down.
    #[error("no certificate for {host}: its creation was interrupted")]
    Abandoned {
        /// Requested host.
        host: Host,
    },
    /// Another failure, of a store outside this crate.
    #[error("no certificate for {host}: {reason}")]
    Other {
        /// Requested host.
        host: Host,
        /// Failure and remedy.
        reason: Arc<str>,
    },
}
