//! Handshakes: an iteration is a TCP connection and a TLS handshake of its own,
//! and a request if the options name a path.
//!
//! - Connecting, the handshake, the first byte and the whole are told apart
//!   (`http_req_connecting`, `http_req_tls_handshaking`, `http_req_waiting`,
//!   `http_req_duration`). Full handshakes and resumed ones never share a series:
//!   the tag `handshake` is `full` or `resumed`, `none` where there was none.
//! - A user resumes its own sessions only. Its first handshake is a full one.
//! - The handshake proves that the server holds the key of the certificate that it
//!   shows. What else must be true of that certificate is looked at afterwards,
//!   beyond the time that is counted, and is a check by a name of its own each:
//!   see `docs/reference/load/scenarios.md`. A certificate that is wrong is a failed request, too.

mod certificate;
mod options;
mod scenario;
mod shared_state;
mod user;

pub use options::TlsScenarioOptions;
pub use scenario::build;
