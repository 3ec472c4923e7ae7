//! TLS with servers: the certificates that are trusted, the one verifier of all clients of the
//! product, and the reasons of failed handshakes in words.

mod explain;
mod public_key;
mod trust;
mod verifier;
mod weak_rsa;

pub use explain::{explain, shows_authority, tls_error};
pub use trust::{Trust, TrustError, trusting};
pub use verifier::Verifier;

#[cfg(test)]
mod tests;
