//! The status of a log for operators and monitoring systems.
//!
//! `state` has the results of all checks, `health` runs them, and `recent_stats` has the figures of
//! the last seconds. `public_errors` removes locations from texts that the public can read.
//! `metrics` is for Prometheus, and `metadata` for the log lists of browsers.

pub(crate) mod health;
pub(crate) mod metadata;
pub(crate) mod metrics;
pub(crate) mod public_errors;
pub(crate) mod recent_stats;
pub(crate) mod state;
