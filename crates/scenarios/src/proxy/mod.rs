//! Requests through an intercepting proxy: each a connection, a tunnel
//! (CONNECT), a TLS handshake and a request of its own, to one host after the
//! other.
//!
//! - Connecting to the proxy, the tunnel, the handshake and the first byte are
//!   told apart (`http_req_connecting`, `proxy_connect_duration`,
//!   `http_req_tls_handshaking`, `http_req_waiting`). What a proxy does before it
//!   can answer (ask the server behind it, mint a certificate) lies in one of them.
//! - The certificate is looked at afterwards, beyond the time that is counted;
//!   each thing that must be true of it is a check: see `certificates`. A
//!   certificate that is wrong is a failed request, too.
//! - `proxy_certificates` counts the certificates that were not seen before:
//!   with a store as many as hosts, without one as many as requests.

mod certificates;
mod options;
mod scenario;
mod shared_state;
mod user;

pub use options::ProxyScenarioOptions;
pub use scenario::build;
