//! Certificates as they are minted, and the store that keeps them.
#![allow(clippy::unwrap_used)]

mod minting;
#[cfg(feature = "store")]
mod store;
