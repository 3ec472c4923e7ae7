//! Scenarios for the load test engine: Certificate Transparency logs, object stores.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod acme;
mod coding;
pub mod connecting;
pub mod ct;
mod names;
pub mod proxy;
mod registry;
pub mod rest;
pub mod s3;
pub mod tls;

pub use registry::{keys, scenarios};
