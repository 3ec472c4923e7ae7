//! Trials of the plans for certificate infrastructure.

pub(crate) mod breaker;
pub(crate) mod trial;
