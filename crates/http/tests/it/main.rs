//! Tests of the server from the view of clients, byte by byte.
#![allow(clippy::unwrap_used)]

mod bucket;
mod conformance;
mod handover;
mod lanes;
mod mirror;
mod protocols;
mod read_limits;
mod replacing;
mod support;
mod witness;
