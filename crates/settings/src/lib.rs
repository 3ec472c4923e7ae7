//! Strict YAML: every key known, every problem with its line.
#![cfg_attr(test, allow(clippy::unwrap_used))]
