//! The status of a log for operators and monitoring systems.
//!
//! `state` has the state of a log and the results of its checks, `recent_stats` the figures of the
//! last seconds, and `scrub_status` the progress of the scrubber. `clock_jump` detects a clock that
//! jumped forward. `public_errors` removes locations from texts that the public can read. `metrics`
//! is for Prometheus.

pub(crate) mod clock_jump;
pub(crate) mod metrics;
pub(crate) mod public_errors;
pub(crate) mod recent_stats;
pub(crate) mod scrub_status;
pub(crate) mod state;
