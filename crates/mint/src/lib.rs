//! Keys and certificates: all of Lucarne's code that *creates* X.509 is in this crate.
//!
//! ```text
//! LeafOptions → Authority → Template → Der → certificate → Chain
//!                   ↑                            └→ store → server
//!        CaDirectory, KeyPair
//! ```
//!
//! The layers of this crate can be used separately:
//!
//! | item | contents |
//! |---|---|
//! | [`Der`], [`oid`], [`pem`], [`Time`] | DER, also invalid, and other parts from `lucarne-x509` |
//! | [`KeyPair`], [`KeyType`], [`SignatureAlgorithm`] | private keys that sign certificates |
//! | [`Template`], [`Name`], [`Extension`] | a certificate whose fields are all accessible |
//! | [`Authority`], [`CaOptions`] | a CA: its key, its certificate and the certificates above it |
//! | [`LeafOptions`], [`Poison`] | leaves and precertificates like those of the WebPKI |
//! | [`Chain`] | a chain in the order of a submission |
//! | [`certification_request`] | certification requests (PKCS #10) |
//! | [`CaDirectory`] | a CA on disk |
//! | [`check_access`] | permissions of secret files and directories |
//! | [`store`] (feature `store`, on by default) | certificates by host, for an intercepting proxy |
//! | [`testing`] | a small public key infrastructure that is created once per process |
//!
//! Tests create unusual and invalid chains with [`Der`] and [`Template`].
//!
//! Issuing a certificate takes the time of one signature and a few microseconds, so a load
//! generator issues on demand. aws-lc-rs computes the signatures.
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

mod access;
mod authority;
mod certificate;
mod directory;
mod error;
pub mod extension;
mod key;
#[cfg(feature = "store")]
pub mod store;
pub mod testing;
mod webpki;

pub use access::{Exposed, SharedWithGroup, check_access};
pub use authority::{Authority, CaOptions};
pub use certificate::{Chain, Name, Template, Version, certification_request};
pub use directory::{CaDirectory, CaDirectoryError};
pub use error::MintError;
pub use extension::Extension;
pub use key::{KeyPair, KeyType, SignatureAlgorithm, UnknownKeyType};
pub use lucarne_x509::{Der, Lengths, Oid, Time, TimeForm, algorithm, der, now_ms, oid, pem};
pub use webpki::{LeafOptions, Poison};

/// Fills `bytes` from the operating system's cryptographic generator.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), MintError> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| MintError::Crypto("random bytes"))
}
