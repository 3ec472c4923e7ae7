//! Scenarios for the load test engine: Certificate Transparency logs, object stores, ACME and TLS
//! servers, HTTP APIs, proxies.
//!
//! ```text
//! plan → scenario → options → prepare → user → requests → checks → samples
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`scenario`], [`scenarios`], [`keys`] | scenarios by name, and the keys of their options |
//! | [`connection_options`], [`option_values`] | options that scenarios share |
//! | `preparing`, `retry_after` | requests before the load begins, and their retries |
//! | [`ct`] | Certificate Transparency logs: submissions, reads, verification |
//! | [`acme`] | ACME servers (RFC 8555) with renewal information (RFC 9773) |
//! | [`rest`] | any HTTP API, as a plan describes the requests |
//! | [`s3`] | object stores with an S3 API |
//! | [`tls`] | TLS handshakes |
//! | [`proxy`] | requests through an intercepting proxy |
//! | `content_coding`, `interned` | content codings, names from plans |
//! | `url_characters` | characters that paths and queries can contain |

pub mod acme;
pub mod connection_options;
mod content_coding;
pub mod ct;
mod framing;
mod interned;
pub mod option_values;
mod preparing;
pub mod proxy;
mod registry;
pub mod rest;
mod retry_after;
pub mod s3;
pub mod tls;
mod url_characters;

pub(crate) use lucarne_load::random;
pub use registry::{keys, scenario, scenarios};
