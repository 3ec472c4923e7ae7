//! Keys and certificates: everything in Lucarne that *makes* X.509 is here.
//!
//! Layers, each usable on its own:
//!
//! - [`Der`], a DER writer that can also write what DER forbids (of
//!   `lucarne-x509`, as are [`oid`], [`pem`] and [`Time`]), and
//!   [`Template`], a certificate with every field open to the caller. Tests
//!   mint chains of every odd kind with them.
//! - [`Authority`], a certificate authority: a key, its certificate and the
//!   certificates above it. Saved and loaded as PEM. For tests and load tests it
//!   issues CAs, leaves and precertificates that look like those of the WebPKI.
//! - [`store`] (feature `store`, on by default), certificates by host, each made
//!   once: what an intercepting proxy mints from. [`CaDirectory`] keeps its CA.
//! - [`testing`], a small public key infrastructure made once per process.
//!
//! Issuing costs one signature and a few microseconds more: a load generator
//! mints as it goes. Signatures are made by aws-lc-rs.
//!
//! ```
//! use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
//!
//! let root = Authority::root(&CaOptions::named("Example Root", KeyType::EcdsaP384))?;
//! let ca = root.intermediate(&CaOptions::named("Example CA", KeyType::EcdsaP256))?;
//! let leaf = ca.issue(&LeafOptions::for_names(["www.example.test"])?)?;
//! let chain = ca.chain(leaf); // leaf and intermediate; the root is left out
//! assert_eq!(chain.certificates().len(), 2);
//! # Ok::<(), lucarne_mint::MintError>(())
//! ```

mod authority;
mod certificate;
mod chain;
mod csr;
mod directory;
mod error;
pub mod extension;
mod key;
mod name;
#[cfg(feature = "store")]
pub mod store;
pub mod testing;
mod webpki;

pub use authority::{Authority, CaOptions};
pub use certificate::{Template, Version};
pub use chain::Chain;
pub use csr::certification_request;
pub use directory::{CaDirectory, CaDirectoryError};
pub use error::MintError;
pub use extension::Extension;
pub use key::{KeyPair, KeyType, SignatureAlgorithm};
pub use lucarne_x509::{Der, Lengths, Oid, Time, TimeForm, algorithm, der, now_ms, oid, pem};
pub use name::Name;
pub use webpki::{LeafOptions, Poison};

/// Fills `bytes` from the operating system's cryptographic generator.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), MintError> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| MintError::Crypto("random numbers"))
}
