//! What stores promise: one test and more for each point.
#![allow(clippy::unwrap_used, missing_docs)]

mod bounds;
mod disk;
mod lifetime;
mod minting;
mod processes;
mod single_flight;
mod stats;
mod stress;
mod support;
