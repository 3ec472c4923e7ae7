//! TLS handshakes. An iteration opens a TCP connection with its own handshake, and sends a request
//! if the options name a path.
//!
//! - The times of connecting, of the handshake, up to the first byte and of the whole are separate
//!   (`http_req_connecting`, `http_req_tls_handshaking`, `http_req_waiting`, `http_req_duration`).
//!   Full and resumed handshakes never share a series: the tag `handshake` is `full`, `resumed`, or
//!   `none` without a handshake.
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
