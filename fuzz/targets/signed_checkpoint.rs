//! The log has signed every checkpoint that verifies with the log's key.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use lucarne_ct::CheckpointVerifier;
use lucarne_fuzz::{HEADS, ORIGIN, log_key};

static LOG: LazyLock<CheckpointVerifier> = LazyLock::new(|| {
    CheckpointVerifier::new(ORIGIN, log_key().public_key_spki()).expect("the log's own key")
});

fuzz_target!(|note: &[u8]| {
    if let Ok((checkpoint, timestamp)) = LOG.verify(note) {
        assert_eq!(checkpoint.origin, ORIGIN);
        assert!(HEADS.contains(&(checkpoint.size, checkpoint.root, timestamp)));
    }
});
