//! Requests through an intercepting proxy. Each request has its own connection, tunnel (CONNECT)
//! and TLS handshake; the hosts take turns.
//!
//! - The times of connecting to the proxy, of the tunnel, of the handshake and up to the first byte
//!   are separate (`http_req_connecting`, `proxy_connect_duration`, `http_req_tls_handshaking`,
//!   `http_req_waiting`). The preparations of a proxy (connecting to the server, creating a
//!   certificate) are part of one of these times.
//! - The certificate is checked afterwards, outside the measured time. Each condition is a check:
//!   see `certificates`. A request with a wrong certificate is a failed request, too.
//! - `proxy_certificates` counts the certificates that were not seen before: one for each host if
//!   the proxy has a store, and one for each request otherwise.

mod certificates;
mod options;
mod scenario;
mod shared_state;
mod user;

pub use options::ProxyScenarioOptions;
pub use scenario::build;
