//! A note that parses is written with the same bytes.

use lucarne_tlog::SignedNote;

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(note) = SignedNote::parse(bytes) {
        assert_eq!(note.encode().as_bytes(), bytes);
    }
}
