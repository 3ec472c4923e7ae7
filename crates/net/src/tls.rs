//! TLS with servers: trusted certificates, the verifier of all clients in this workspace, and
//! descriptions of failed handshakes.

mod explain;
mod trust;
mod verifier;
mod weak_rsa;

pub use explain::{alert_name, explain, explain_client, shows_authority, tls_error};
pub use trust::{Trust, TrustError};
pub use verifier::{Verifier, trusting};

#[cfg(test)]
mod tests;
