//! The proxy between real clients and servers.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod common;
mod fields;
mod identities;
mod intercept;
mod opening;
mod refusals;
mod semantics;
mod stalls;
mod upstream_proxies;
