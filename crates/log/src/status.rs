//! The status of a log for operators and monitoring systems.
//!
//! `log_status` has the status of a running log: its `state`, the figures of the last seconds
//! (`recent_stats`), the progress of the scrubber (`scrub_status`) and the witnesses
//! (`witness_status`). `clock_jump` detects a clock
//! that jumped forward. `public_errors` removes locations from texts that the public can read.
//! `metrics` is for Prometheus.

pub(crate) mod clock_jump;
pub(crate) mod log_status;
pub(crate) mod metrics;
pub(crate) mod public_errors;
pub(crate) mod recent_stats;
pub(crate) mod scrub_status;
pub(crate) mod state;
pub(crate) mod witness_status;
