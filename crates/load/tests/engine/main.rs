//! The engine, with scenarios that only wait.
#![allow(clippy::unwrap_used)]

mod arrivals;
mod outcomes;
mod waiting;
