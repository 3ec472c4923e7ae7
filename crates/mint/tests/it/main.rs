//! Tests of certificates and of the certificate store.
#![allow(clippy::unwrap_used)]

mod minting;
#[cfg(feature = "store")]
mod store;
