//! The proxy between real clients and servers.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod common;
mod early_responses;
mod fields;
mod identities;
mod intercept;
mod invalid_responses;
mod learning;
mod opening;
mod records;
mod refusals;
mod resembling;
mod semantics;
mod stalls;
mod streams;
mod tied;
mod upstream_proxies;
