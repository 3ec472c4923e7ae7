//! What stores promise: one test and more for each point.
#![allow(clippy::unwrap_used, missing_docs)]

mod bounds;
mod disk;
mod flights;
mod lifetime;
mod minting;
mod processes;
mod stats;
mod stress;
mod support;
