//! A load test engine: arrivals, histograms, thresholds, reports.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod http;
pub mod plan;
pub mod report;
pub mod ui;
