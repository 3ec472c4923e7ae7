//! Trials of the plans of certificate infrastructure.

pub(crate) mod breaker;
pub(crate) mod trial;
