//! HTTP requests with the time of each phase.
//!
//! A [`Client`] belongs to one user and keeps that user's connection to one [`Endpoint`]. HTTP/1.1
//! is a small codec of this crate over `httparse`: a load tester sends the same few requests a
//! million times, and the cost of a general client's pools, channels and header maps would count as
//! the target's latency. HTTP/2 uses hyper.
//!
//! - A connection is reused unless [`ClientOptions::keepalive`] is off. Then every request opens
//!   its own connection and sends `connection: close`.
//! - A kept connection that the server closed while idle is replaced. If the end is noticed only
//!   after a request was written, the request is repeated, with any method, unless a part of a
//!   response had arrived. The repetition is part of the same exchange, whose time counts from the
//!   first attempt, and has its reason ([`Exchange::resent`](crate::Exchange::resent)). A
//!   connection that had been idle for a second was closed by the server's cleanup. Any other
//!   connection broke under load, and is counted. The second attempt has its own connection and is
//!   the last.
//! - A request whose stream the server resets (HTTP/2), or whose connection ends with an error code
//!   in GOAWAY, is a failure and is not repeated.
//! - A response is complete or it is a failure; malformed responses are never interpreted. Failures
//!   have stable kinds: see [`kind`].
//! - A body stays in memory only as far as the request wants ([`Keep`]); the rest is counted and
//!   dropped as it arrives. A client can limit the bodies in memory of all users together
//!   ([`BodyBudget`]).
//! - Idle connections own no buffers: reading uses the thread's buffer.

mod answer;
mod body;
mod client;
mod endpoint;
mod endpoint_error;
mod exchange;
mod handshake;
mod http1;
mod http2;
pub mod kind;
mod options;
mod proxies;
mod request;
mod response;
mod staple;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod tunnel;

pub use body::{BodyBudget, BodyReader, BudgetExceeded, HeldBodies, HeldBody, Keep};
pub use client::Client;
pub use endpoint::Endpoint;
pub use endpoint_error::EndpointError;
pub use handshake::Handshake;
pub use options::{ClientOptions, Identity, TlsOptions, TlsVersion, Version};
pub use request::{Body, Request};
pub use response::{Headers, Response};
pub use tls::tls_settings;
pub use trust::{Trust, trust, trust_only};
pub use tunnel::{Tunnel, Tunnelled};

/// Value of `user-agent` for requests without one.
const USER_AGENT: &str = concat!("lucarne-load/", env!("CARGO_PKG_VERSION"));
