//! The errors of asking for a certificate.

use std::sync::Arc;

use super::Host;

/// The reasons why a store has no certificate to give. One failure is told to
/// everybody who waits for it, so it is cheap to clone; it is never stored, so
/// the next one who asks tries again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The generator failed.
    #[error("cannot mint a certificate for {host}: {source}")]
    Generate {
        /// The host asked for.
        host: Host,
        /// The generator's error.
        source: Arc<crate::MintError>,
    },
    /// So many certificates are being made that no further one is begun.
    #[error("no certificate for {host}: {limit} others are being made already; try again later")]
    Overloaded {
        /// The host asked for.
        host: Host,
        /// The bound that was reached ([`StoreOptions::waiting`](super::StoreOptions::waiting)).
        limit: usize,
    },
    /// The generator panicked, or its runtime was shut down under it.
    #[error("no certificate for {host}: making it was cut short")]
    Abandoned {
        /// The host asked for.
        host: Host,
    },
    /// Another failure, of a store that is not of this crate.
    #[error("no certificate for {host}: {reason}")]
    Other {
        /// The host asked for.
        host: Host,
        /// The failure, and what to do.
        reason: Arc<str>,
    },
}
