//! The log has signed every checkpoint that verifies with the log's key.

use std::sync::LazyLock;

use lucarne_ct::{CheckpointVerifier, PublicKey, SignedTreeHead};
use crate::{HEADS, ORIGIN, log_key};

static LOG: LazyLock<CheckpointVerifier> = LazyLock::new(|| {
    CheckpointVerifier::new(ORIGIN, log_key().public_key_spki()).expect("the log's own key")
});

static KEY: LazyLock<PublicKey> =
    LazyLock::new(|| PublicKey::from_spki(log_key().public_key_spki()).expect("the log's own key"));

pub(crate) fn run(note: &[u8]) {
    if let Ok(sth) = SignedTreeHead::verify_json(note, &KEY) {
        assert!(HEADS.contains(&(sth.checkpoint.size, sth.checkpoint.root, sth.timestamp)));
    }
    if let Ok((checkpoint, timestamp)) = LOG.verify(note) {
        assert_eq!(checkpoint.origin, ORIGIN);
        assert!(HEADS.contains(&(checkpoint.size, checkpoint.root, timestamp)));
    }
}
