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

mod disk;
mod generator;
mod host;
mod likeness;
mod memory;
mod minted;
mod minter;
mod single_flight;
mod stats;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use disk::{DiskOptions, DiskStore, OpenError};
pub use generator::NoStore;
pub use host::{Host, HostError};
pub use likeness::Likeness;
pub use lucarne_x509::Fingerprint;
pub use memory::{LayeredStore, MemoryStore};
pub use minted::{DEFAULT_ALPN, Minted, OwnCertificate, read_pair};
pub use minter::{LeafKey, MintOptions, Minter};
pub use stats::{GenerationTime, StoreStats};

use crate::{KeyType, MintError};

/// Creates the certificate of a key. This is blocking work that takes from microseconds (ECDSA) to
/// tenths of a second (RSA). A store runs it on blocking threads, with a limit of concurrent calls.
pub type Generate = Arc<dyn Fn(&StoreKey) -> Result<Minted, MintError> + Send + Sync>;

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

/// Key of a stored certificate. The CA is part of the key, so certificates of an earlier CA are not
/// found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// Fingerprint of the CA's certificate.
    pub ca: Fingerprint,
    /// Host of the certificate.
    pub host: Host,
    /// Kind of the certificate's key.
    pub key_type: KeyType,
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ca = self.ca.to_string();
        write!(f, "{} ({}, CA {})", self.host, self.key_type, &ca[..8])
    }
}

/// Limits of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Limit of the memory for certificates in bytes, by [`Minted::weight`]:
    /// 64 MiB by default, for about 7,000 certificates. Beyond the limit, the least requested
    /// certificates are dropped.
    pub max_bytes: u64,
    /// Limit of certificates that are created concurrently: one per processor by default.
    pub generations: usize,
    /// Limit of keys that callers wait for at the same time: 4,096 by default.
    pub waiting: usize,
    /// Time between the last use of a certificate and its notAfter: an hour by default, but at most
    /// a tenth of its lifetime.
    pub margin: Duration,
    /// Time between the creation of the successor in the background and the last use of a
    /// certificate: a day by default, but at most a quarter of its lifetime.
    pub ahead: Duration,
    /// Clock of the store.
    pub clock: Clock,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            max_bytes: 64 << 20,
            generations: std::thread::available_parallelism().map_or(2, usize::from),
            waiting: 4096,
            margin: Duration::from_secs(3600),
            ahead: Duration::from_secs(86_400),
            clock: Clock::default(),
        }
    }
}

/// Clock of a store: the system clock by default, or a clock that a test sets.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// Creates a clock whose time is the result of `read`.
    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(read))
    }

    /// Returns the current time.
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new(SystemTime::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

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
        source: Arc<MintError>,
    },
    /// The limit of certificates in progress is reached.
    #[error("no certificate for {host}: {limit} others are being created: try again later")]
    Overloaded {
        /// Requested host.
        host: Host,
        /// Limit that was reached ([`StoreOptions::waiting`]).
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
