//! Observation of the servers: chains, SCTs, and whether logs have them.
//!
//! [`Observer::seen`] is what the proxy calls after each handshake with a server. It copies the
//! chain into a bounded queue and returns: what does not fit is dropped and counted, the proxy
//! never waits. [`routes()`] is the page, its JSON and its files, for the proxy's own listener.

mod destination;
mod filter;
mod issuer;
mod judge;
mod memory;
mod metrics;
mod names;
mod observer;
mod options;
mod routes;
mod shared;
mod source;
mod staple;
mod submission;
mod submitter;
#[cfg(test)]
mod tests;
mod view;
mod worker;

pub use observer::{ObserveError, Observer};
pub use options::{LogListSource, ObserveOptions, SubmitTo};
pub use routes::routes;
pub use source::SourceError;
