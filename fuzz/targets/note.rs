//! A note that parses is written with the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_tlog::SignedNote;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(note) = SignedNote::parse(bytes) {
        assert_eq!(note.encode().as_bytes(), bytes);
    }
});
