//! The server as clients see it, byte by byte.
#![allow(clippy::unwrap_used)]

mod bucket;
mod conformance;
mod protocols;
mod support;
