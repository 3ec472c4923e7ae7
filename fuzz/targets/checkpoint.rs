//! A checkpoint that parses is written with the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_tlog::Checkpoint;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok((checkpoint, extensions)) = Checkpoint::parse_extended(text) {
        let extensions: String = extensions.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(format!("{checkpoint}{extensions}"), text);
    }
});
