//! Scenarios for the load test engine: Certificate Transparency logs, object stores.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod acme;
pub mod ct;
mod registry;
pub mod s3;

pub use registry::{keys, scenarios};
