//! Intercepting forward proxy that takes certificates from a store and observes the certificates of
//! servers.
//!
//! A client names its target in one of two ways. A request for `http://…` is forwarded. After
//! `CONNECT host:port`, the [`Rules`] decide: the connection is forwarded untouched, or its TLS is
//! intercepted with a certificate that [`lucarne_mint::store::Minter`] creates for the host. Inside
//! the intercepted TLS, HTTP/1.1, HTTP/2 and WebSocket are forwarded like plain requests.
//!
//! The rules also check the resolved address of a name. Addresses of this machine and of private
//! networks are refused unless the operator allows them.
//!
//! ```text
//! client → session ┬→ http:// → rules ───────────────→ exchange → upstream → server
//!                  │                                      ↑          │
//!                  └→ CONNECT → rules ┬→ intercept ───────┘          └→ observe → logs
//!                                     └→ tunnel → server
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Proxy`], [`ProxySettings`], [`Limits`] | the proxy, its settings and its limits |
//! | `serve`, `connection`, `session` | connections with clients, and the targets of requests |
//! | [`Users`], [`ChecksFull`] | Basic authentication, and the limit of password checks |
//! | [`Target`], [`Ports`], [`Network`], [`special`] | the host of a request, ports and addresses |
//! | [`Rules`], [`Rule`], [`Action`], [`HostPattern`] | the action for each target |
//! | `connect`, `opening`, `tunnel` | CONNECT: the protocol of the client, and unchanged bytes |
//! | `intercept`, `handshake`, `intercepted` | TLS and HTTP in place of the server |
//! | `learned` | hosts that a client does not allow to be intercepted |
//! | `exchange`, `sending`, `headers`, `form`, `hops` | one request, and its response |
//! | `outgoing`, `body`, `timed_body`, `stalled` | bodies, forwarded frame by frame |
//! | `interim`, `expect` | interim responses, and bodies that wait for them |
//! | `lingering`, `worded` | the end of client connections, and words for invalid heads |
//! | `pool`, `upstream`, `connector`, `dial` | connections to servers |
//! | [`UpstreamRoutes`], [`UpstreamProxy`], `relay` | connections through other proxies |
//! | [`Identity`], [`ClientCertificate`] | certificates for servers that request one |
//! | `likeness` | properties of servers' certificates, for minted certificates |
//! | [`Trust`], `verify`, `ending` | verification of servers, and the end of their connections |
//! | [`observe`] | chains and SCTs of servers, and submissions to logs |
//! | [`Failure`], [`Refusal`], [`UpstreamFailure`] | failed requests, with texts for clients |
//! | [`Recorder`], [`Record`] | records of finished requests, tunnels and failed handshakes |
//! | `page`, `welcome` | responses that the proxy writes itself |
//! | [`CertificateSummary`] | a readable summary of a certificate |
//! | [`Admin`], [`HostRow`], [`Totals`] | the page of the operator, live figures and metrics |

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
mod handshake;
mod headers;
mod hops;
mod hosts;
mod identity;
mod intercept;
mod intercepted;
mod interim;
mod learned;
mod likeness;
mod limits;
mod lingering;
pub mod observe;
mod opening;
mod outgoing;
mod page;
mod pattern;
mod pool;
mod ports;
mod proxy;
mod records;
mod relay;
mod rules;
mod sending;
mod serve;
mod session;
mod stalled;
mod stats;
mod store_metrics;
mod stream;
mod streams;
mod target;
mod time;
mod timed_body;
mod tunnel;
mod upstream;
mod upstream_proxy;
mod users;
mod verify;
mod welcome;
mod worded;

pub use admin::Admin;
pub use certificate_summary::CertificateSummary;
pub use checks::ChecksFull;
pub use failure::{Failure, Refusal, Step, UpstreamFailure};
pub use hosts::HostRow;
pub use identity::{ClientCertificate, Identity};
pub use learned::LearnedRow;
pub use limits::Limits;
pub use lucarne_net::{Network, NetworkError, special};
pub use pattern::{HostPattern, PatternError};
pub use ports::{Ports, PortsError};
pub use proxy::{Proxy, ProxySettings};
pub use records::{
    ClientTls, Content, Details, HAR_HEAD, HAR_TAIL, Record, RecordAction, RecordFilter,
    RecordOptions, RecordSink, Recorder, har_entry,
};
pub use rules::{Action, Rule, Rules};
pub use stats::Totals;
pub use target::{Target, TargetError};
pub use upstream::UpstreamRoutes;
pub use upstream_proxy::{UpstreamProxy, UpstreamProxyError, UpstreamRoute};
pub use users::{Users, UsersError};
pub use verify::Trust;
