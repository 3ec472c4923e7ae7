//! HTTP requests, with what each phase of them took.
//!
//! A [`Client`] belongs to one user and keeps that user's connection to one
//! [`Endpoint`]. HTTP/1.1 is a small codec of our own over `httparse`: a load
//! tester sends the same few requests a million times, and what a general client
//! spends on pools, channels and header maps would be counted as the target's
//! latency. HTTP/2 is hyper's.
//!
//! - A connection is reused unless [`ClientOptions::keepalive`] is off; then every
//!   request opens its own and says `connection: close`.
//! - A kept connection that the server has closed while it was idle is opened
//!   again. If that shows only after a request was written to it, the request is
//!   sent once more, whatever its method, provided that nothing of a response had
//!   arrived. It is then one exchange, whose time counts from the first attempt, and
//!   which says why ([`Exchange::resent`](crate::Exchange::resent)): a connection that
//!   had been idle for a second was tidied away; one that had not has broken under load,
//!   and is counted. The second attempt has a connection of its own, and is the last.
//! - An answer is whole or it is a failure; malformed answers are never guessed
//!   at. Failures have stable kinds: see [`kind`].
//! - Idle connections own no buffers: reading borrows the thread's.

mod answer;
mod client;
mod endpoint;
mod exchange;
mod handshake;
mod http1;
mod http2;
pub mod kind;
mod options;
mod proxies;
mod request;
mod response;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod tunnel;

pub use client::Client;
pub use endpoint::{Endpoint, EndpointError};
pub use handshake::Handshake;
pub use options::{ClientOptions, Identity, TlsOptions, TlsVersion, Version};
pub use request::{Body, Request};
pub use response::{Headers, Response};
pub use trust::{Trust, trust, trust_only};
pub use tunnel::{Tunnel, Tunnelled};

/// The `user-agent` of requests that have none of their own.
const USER_AGENT: &str = concat!("lucarne-load/", env!("CARGO_PKG_VERSION"));
