//! Guarantees of stores, with at least one test each.
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
