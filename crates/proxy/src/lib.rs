//! An intercepting forward proxy whose certificates come from a store, and that
//! observes the certificates of the servers it talks to.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod observe;
