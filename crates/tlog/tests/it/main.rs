//! Tests with trees of every size.
#![allow(clippy::unwrap_used)]

mod every_size;
mod large_trees;
mod support;
