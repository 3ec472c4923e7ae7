//! The HTTP server of the logs: the submission API (RFC 6962), the monitoring API (static-ct-api),
//! pages, metrics and health.
//!
//! ```text
//! socket → Listener → Tls → connection → route → ReadLimiter ┬→ monitoring → file → sendfile
//!                                          │                 └→ pages, metrics, health
//!                                          └→ submission → Log → SCT
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Site`], [`EndpointSet`] | the logs of the process, and the endpoints of a listener |
//! | [`serve`], [`Serving`] | serving until the shutdown |
//! | [`Listener`], [`Limits`], `connection`, `activity` | connections, their limits and timeouts |
//! | `connection_table`, `control_frames`, `farewell` | the connections of each client, floods, last responses |
//! | [`Tls`], [`ServedCertificate`] | certificates that can be replaced |
//! | `forwarded`, `budget` | the client behind a proxy, and the memory of its bodies |
//! | [`ReadLimiter`], [`ReadLimits`], [`Rate`] | the requests that one client may send |
//! | [`Reading`], [`Decision`], [`Admission`] | a read, and the decision on its request |
//! | `request_head` | checks of request heads |
//! | `route`, [`PrefixError`] | from a URL to a log |
//! | `submission`, `get_roots`, `error_response` | the submission API, and its errors |
//! | `monitoring`, `long_poll`, `feed` | the monitoring API, new checkpoints and entries |
//! | `rfc6962` | the read endpoints of RFC 6962 |
//! | `cosigner`, [`WitnessService`], [`MirrorService`] | the endpoints of a witness and of a mirror |
//! | `encoding`, `etag`, `range`, `sendfile` | content codings, entity tags, ranges, large files |
//! | `reply`, `body` | responses |
//! | `pages`, `error_page`, `robots`, [`log_json`], `timestamp` | web pages, and the metadata of a log |
//! | `health`, [`state_name`], `metrics` | the state of each log, and metrics of requests |
//! | [`InstanceClient`], [`InstanceServer`] | HTTP/2 between the instances of a log |
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use lucarne_http::{Limits, Listener, Site, serve};
//! # async fn run(logs: Vec<Arc<lucarne_log::Log>>) -> Result<(), Box<dyn std::error::Error>> {
//! # let registry = prometheus_client::registry::Registry::default();
//! let site = Site::new(logs, registry, Limits::default())?;
//! let listener = Listener::bind("127.0.0.1:6962").await?;
//! serve(vec![listener], site, async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await;
//! # Ok(()) }
//! ```

mod activity;
mod body;
mod budget;
mod connection;
mod connection_table;
mod control_frames;
mod cosigner;
mod encoding;
mod error_page;
mod error_response;
mod etag;
mod farewell;
mod feed;
mod forwarded;
mod get_roots;
mod health;
mod instances;
mod limits;
mod listener;
mod logjson;
mod long_poll;
mod metrics;
mod mirror;
mod monitoring;
mod pages;
mod range;
mod read_limits;
mod reply;
mod request_head;
mod rfc6962;
mod robots;
mod route;
mod sendfile;
mod served_certificate;
mod serving;
mod signal;
mod site;
mod submission;
mod timestamp;
mod tls;
mod trace;
mod witness;

pub use health::state_name;
pub use instances::{InstanceClient, InstanceKey, InstanceServer, ShortKey};
pub use limits::Limits;
pub use listener::{BindError, Listener};
pub use logjson::log_json;
pub use mirror::MirrorService;
pub use read_limits::{
    Admission, Decision, MonotonicClock, PartialTile, Policy, Rate, ReadLimiter, ReadLimits,
    Reading, Refusal, Remainder, UNIT_BYTES,
};
pub use route::PrefixError;
pub use served_certificate::{ServedCertificate, Validity, hosts as tls_hosts};
pub use serving::{Serving, serve};
pub use site::{Cosigners, EndpointSet, Site};
pub use tls::{Tls, TlsError};
pub use trace::{Trace, TracedSubmission, Tracer};
pub use witness::WitnessService;
