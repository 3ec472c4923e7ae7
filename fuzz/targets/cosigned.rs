//! The cosigners have signed every checkpoint that verifies with their keys.

use std::sync::LazyLock;

use lucarne_tlog::{Checkpoint, SignedNote, VerifierKey};

use crate::{HEADS, ORIGIN, cosigners};

static KEYS: LazyLock<[VerifierKey; 2]> =
    LazyLock::new(|| cosigners().map(|cosigner| cosigner.verifier().clone()));

pub(crate) fn run(bytes: &[u8]) {
    let Ok(note) = SignedNote::parse(bytes) else {
        return;
    };
    for key in &*KEYS {
        if let Ok(Some(time)) = key.verify(&note) {
            let (checkpoint, _) = Checkpoint::parse_extended(&note.text).expect("a checkpoint");
            assert_eq!(checkpoint.origin, ORIGIN);
            let head = HEADS.iter().find(|(size, ..)| *size == checkpoint.size);
            let (_, root, timestamp) = head.expect("a signed size");
            assert_eq!((checkpoint.root, time), (*root, timestamp / 1000));
        }
    }
}
