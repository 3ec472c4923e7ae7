//! Observation of servers: their chains, their SCTs, and whether logs have their certificates.
//!
//! The proxy calls [`Observer::seen`] after each handshake with a server. The method copies the
//! chain into a bounded queue and returns at once. A chain that does not fit is dropped and
//! counted, so the proxy never waits. With a database, the inventory keeps hosts and certificates
//! over restarts, the audit looks up promised entries in their logs, and a webhook receives events.
//! [`routes()`] serves the page, its JSON and its files on the proxy's own listener.

mod audit;
mod destination;
mod filter;
mod inventory;
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
mod webhook;
mod worker;

pub(crate) use filter::parameter;
pub use inventory::InventoryError;
pub(crate) use names::dns_names;
pub use observer::{ObserveError, Observer};
pub use options::{InventoryOptions, LogListSource, ObserveOptions, SubmitTo};
pub use routes::routes;
pub use source::SourceError;
