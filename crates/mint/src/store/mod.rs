//! Certificates by host, each made once: what an intercepting proxy, and any
//! server that mints as names come in, keeps its certificates in.
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
//! [`CertificateStore`] says what every store promises. Those of this crate:
//! [`MemoryStore`], [`DiskStore`] (shared between processes), [`LayeredStore`]
//! (memory before any other), and [`NoStore`], which keeps nothing. An
//! [`OwnCertificate`], which somebody else issued, goes before all of them.

mod clock;
mod disk;
mod error;
mod freshness;
mod generator;
mod host;
mod key;
mod layered;
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
pub use lucarne_x509::Fingerprint;
pub use memory::MemoryStore;
pub use minted::{DEFAULT_ALPN, Minted};
pub use minter::{LeafKey, MintOptions, Minter};
pub use none::NoStore;
pub use options::StoreOptions;
pub use own_certificate::{OwnCertificate, read_pair};
pub use stats::{GenerationTime, StoreStats};

/// Makes the certificate of a key: blocking work, from microseconds (ECDSA) to
/// tenths of a second (RSA). A store runs it away from the asynchronous
/// workers, and only so many at a time.
pub type Generate = Arc<dyn Fn(&StoreKey) -> Result<Minted, crate::MintError> + Send + Sync>;

/// Keeps certificates, and has each made once however many ask for it.
///
/// What an implementation promises, and what the stores of this crate do:
///
/// - **Single flight.** For one key, `generate` runs at most once at a time.
///   Whoever asks meanwhile waits for that run, and gets what it gives.
///   ([`NoStore`] alone does not: that is what it is for.)
/// - **Errors** are told to everybody who waits, and not kept: the next call
///   tries again.
/// - **Cancellation.** The work runs in a task of its own. A caller that is
///   dropped stops waiting, nothing else: the certificate is made, kept, and
///   given to the others. Nothing of the caller remains.
/// - **Expiry.** A certificate is given out until its notAfter less a margin.
///   Some time before, the first who asks gets it still, and has the next one
///   made in the background.
/// - **Bounds.** Memory (or disk) is bounded, so are the generations that run
///   at a time and the keys that wait for theirs: beyond that callers get
///   [`StoreError::Overloaded`] at once. Names are chosen by clients, and
///   whatever they choose costs no more than this. What is forgotten for lack
///   of room is made anew when it is asked for.
///
/// Stores must be called from within a Tokio runtime.
#[async_trait::async_trait]
pub trait CertificateStore: Send + Sync + 'static {
    /// The certificate of `key`, made by `generate` where there is none.
    ///
    /// # Errors
    /// What `generate` failed with, or that too much is asked at a time.
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Result<Arc<Minted>, StoreError>;

    /// Returns what happened so far.
    fn stats(&self) -> StoreStats;
}

/// The outcome of a fetch.
type Outcome = Result<Arc<Minted>, StoreError>;
