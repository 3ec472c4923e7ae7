//! A Certificate Transparency log: pool → round → journal → commit → publish.
//!
//! The crate knows nothing of HTTP: it takes chains and gives SCTs, and serves
//! tiles by name.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod error;
mod log;
mod metrics;
mod state;

pub use config::LogConfig;
pub use error::{Fatal, ReadError, SubmitError};
pub use log::{Log, Stored};
pub use lucarne_storage::Encoding;
pub use metrics::Metrics;
pub use state::{Check, Health, Published, State, Stats};
