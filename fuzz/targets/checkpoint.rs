//! A checkpoint that parses is written with the same bytes.

use lucarne_tlog::Checkpoint;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok((checkpoint, extensions)) = Checkpoint::parse_extended(text) {
        let extensions: String = extensions.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(format!("{checkpoint}{extensions}"), text);
    }
}
