//! An intercepting forward proxy whose certificates come from a store, and that
//! observes the certificates of the servers it talks to.
//!
//! A client says where it wants to go in one of two ways. It asks for
//! `http://…`: the request is passed on. Or it says `CONNECT host:port`: then
//! [`Rules`] tell whether what follows is passed on untouched, or, if it is
//! TLS, answered in the server's place with a certificate minted for the host
//! ([`lucarne_mint::store::Minter`]). Inside, HTTP/1.1, HTTP/2 and WebSocket
//! are passed on like plain requests.
//!
//! What is connected to is decided by the address, not by the name: a name
//! that resolves to an address of this machine or this network is refused
//! unless somebody allowed it.

mod admin;
mod body;
mod certificate_summary;
mod checks;
mod connect;
mod connection;
mod connector;
mod core;
mod dial;
mod ending;
mod exchange;
mod expect;
mod failure;
mod form;
mod headers;
mod hops;
mod hosts;
mod identity;
mod intercept;
mod intercepted;
mod interim;
mod limits;
pub mod observe;
mod opening;
mod outgoing;
mod page;
mod pattern;
mod pool;
mod ports;
mod proxy;
mod relay;
mod rules;
mod sending;
mod serve;
mod session;
mod stats;
mod store_metrics;
mod stream;
mod target;
mod time;
mod timed_body;
mod tunnel;
mod upstream;
mod upstream_proxy;
mod users;
mod verify;
mod welcome;

pub use admin::Admin;
pub use certificate_summary::CertificateSummary;
pub use checks::ChecksFull;
pub use failure::{Failure, Refusal, Step, UpstreamFailure};
pub use hosts::HostRow;
pub use identity::{ClientCertificate, Identity};
pub use limits::Limits;
pub use lucarne_net::{Network, NetworkError, special};
pub use pattern::{HostPattern, PatternError};
pub use ports::{Ports, PortsError};
pub use proxy::{Proxy, ProxySettings};
pub use rules::{Action, Rule, Rules};
pub use stats::Totals;
pub use target::{Target, TargetError};
pub use upstream::UpstreamRoutes;
pub use upstream_proxy::{UpstreamProxy, UpstreamProxyError, UpstreamRoute};
pub use users::{Users, UsersError};
pub use verify::Trust;
