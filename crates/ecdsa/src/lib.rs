//! Verification of ECDSA signatures by a key that is met often.
#![cfg_attr(test, allow(clippy::unwrap_used))]
