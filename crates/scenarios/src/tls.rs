//! TLS handshakes. An iteration opens a TCP connection with its own handshake, and sends a request
//! if the options name a path.
//!
//! - The times of connecting, of the handshake, up to the first byte and of the whole are separate
//!   (`http_req_connecting`, `http_req_tls_handshaking`, `http_req_waiting`, `http_req_duration`).
//!   Full and resumed handshakes never share a series: the tag `handshake` is `full`, `resumed`, or
//!   `none` without a handshake.
//! - A user resumes its own sessions only. The first handshake of a user is a full handshake.
//! - The handshake proves that the server has the key of its certificate. Each other property of
//!   the certificate has its own check after the handshake, outside the measured time: see
//!   `docs/reference/load/scenarios.md`. A wrong certificate also counts as a failed request.

mod certificate;
mod options;
mod scenario;
mod shared_state;
mod staple;
mod user;

pub use options::TlsScenarioOptions;
pub use scenario::build;
