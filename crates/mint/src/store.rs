//! Certificates by host, each created once, for an intercepting proxy or any other server that
//! creates certificates for requested names.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use lucarne_mint::{Authority, CaOptions, KeyType};
//! use lucarne_mint::store::{Host, MemoryStore, MintOptions, Minter, StoreOptions};
//!
//! let ca = Authority::root(&CaOptions::named("Example CA", KeyType::EcdsaP256))?;
//! let store = Arc::new(MemoryStore::new(StoreOptions::default()));
//! let minter = Minter::new(ca, store, MintOptions::default())?;
//! let minted = minter.certificate(&Host::parse("www.example.test")?).await?;
//! let acceptor = tokio_rustls::TlsAcceptor::from(minted.server_config.clone());
//! # Ok(())
//! # }
//! ```
//!
//! [`CertificateStore`] states the guarantees of all stores. This crate has [`MemoryStore`],
//! [`DiskStore`] (shared between processes), [`LayeredStore`] (memory in front of another store),
//! and [`NoStore`], which keeps nothing. An [`OwnCertificate`] of another issuer takes precedence
//! over all stores.

mod clock;
mod disk;
mod error;
mod freshness;
mod generator;
mod host;
mod key;
mod layered;
mod likeness;
mod memory;
mod minted;
mod minter;
mod none;
mod options;
mod own_certificate;
mod pool;
mod server_certificate;
mod single_flight;
mod stats;

use std::sync::Arc;

pub use clock::Clock;
pub use disk::{DiskOptions, DiskStore, OpenError};
pub use error::StoreError;
pub use host::{Host, HostError};
pub use key::StoreKey;
pub use layered::LayeredStore;
pub use likeness::Likeness;
pub use lucarne_x509::Fingerprint;
pub use memory::MemoryStore;
pub use minted::{DEFAULT_ALPN, Minted};
pub use minter::{LeafKey, MintOptions, Minter};
pub use none::NoStore;
pub use options::StoreOptions;
pub use own_certificate::{OwnCertificate, read_pair};
pub use stats::{GenerationTime, StoreStats};

/// Creates the certificate of a key. This is blocking work that takes from microseconds (ECDSA) to
/// tenths of a second (RSA). A store runs it on blocking threads, with a limit of concurrent calls.
pub type Generate = Arc<dyn Fn(&StoreKey) -> Result<Minted, crate::MintError> + Send + Sync>;

/// Stores certificates, and creates each once for any number of callers.
///
/// Guarantees of every implementation:
///
/// - **Single flight.** For one key, `generate` runs at most once at a time. Concurrent callers
///   wait for this run and receive its result. [`NoStore`] is the exception.
/// - **Errors.** All waiting callers receive the error. It is not stored, so the next call retries.
/// - **Cancellation.** The work runs in its own task. Dropping a caller only ends its wait: the
///   certificate is created, stored, and returned to the others. Nothing of the caller remains.
/// - **Expiry.** A certificate is used until its notAfter less a margin. Some time before this end,
///   the next caller still receives the certificate, and a background task creates its successor.
/// - **Bounds.** Memory (or disk) is bounded, and so are the concurrent generations and the waiting
///   keys: beyond these limits, callers receive [`StoreError::Overloaded`] at once. Clients choose
///   the names, so the limits apply to any choice of names. A certificate that was dropped for lack
///   of room is created again on request.
///
/// Stores must be called from within a Tokio runtime.
#[async_trait::async_trait]
pub trait CertificateStore: Send + Sync + 'static {
    /// Returns the certificate of `key`. Calls `generate` if there is none.
    ///
    /// # Errors
    /// If `generate` fails, or too many keys are waiting.
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Result<Arc<Minted>, StoreError>;

    /// Returns the statistics since the creation of the store.
    fn stats(&self) -> StoreStats;
}

type Outcome = Result<Arc<Minted>, StoreError>;
