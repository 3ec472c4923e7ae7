//! Tests with trees of every size, and of cosignatures, policies and proof files.
#![allow(clippy::unwrap_used)]

mod cosigning;
mod every_size;
mod large_trees;
mod policies;
mod proof_files;
mod subtrees;
mod support;
