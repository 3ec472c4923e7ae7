//! Tests of the engine with scenarios that only wait.
#![allow(clippy::unwrap_used)]

mod arrivals;
mod beginnings;
mod ends;
mod excuses;
mod finishing;
mod outcomes;
mod summaries;
mod user_time;
mod waiting;
