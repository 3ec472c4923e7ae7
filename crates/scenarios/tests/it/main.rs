//! Scenarios with correct servers, and with faulty ones.
#![allow(clippy::unwrap_used)]

mod acme;
mod api;
mod ct_monitor;
mod ct_scenarios;
mod demands;
mod files;
mod hostile;
mod liar;
mod proxy;
mod rest_tls;
mod s3;
