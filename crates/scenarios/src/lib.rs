//! Scenarios for the load test engine: Certificate Transparency logs, object stores.

pub mod acme;
pub mod connection_options;
mod content_coding;
pub mod ct;
mod interned;
pub mod option_values;
mod preparing;
pub mod proxy;
mod random;
mod registry;
pub mod rest;
mod retry_after;
pub mod s3;
pub mod tls;

pub use registry::{keys, scenario, scenarios};
