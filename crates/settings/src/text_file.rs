//! Files that are read as text.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Reads the text file at `path`. A byte order mark of UTF-8 is left out.
///
/// # Errors
/// If the file cannot be read, or is not UTF-8. The error for UTF-16 has the remedy.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let file = path.display();
        let message =
            format!("the file is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8 {file}`");
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message =
            format!("line {line} is not UTF-8 text: convert the file, for example with iconv");
        io::Error::new(ErrorKind::InvalidData, message)
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_named_and_has_a_remedy() {
        let file = std::env::temp_dir().join(format!("lucarne-text-{}", std::process::id()));
        let read = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            read_text(&file).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"a: 1\n"), Ok("a: 1\n".to_owned()));
        assert_eq!(read(b"\xef\xbb\xbfa: 1\n"), Ok("a: 1\n".to_owned()));
        for utf_16 in [&b"\xff\xfea\0:\0"[..], b"\xfe\xff\0a\0:"] {
            let why = read(utf_16).unwrap_err();
            let remedy = "the file is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8 /";
            assert!(why.starts_with(remedy), "{why}");
        }
        let why = read(b"a: 1\nb: \xe9\n").unwrap_err();
        assert!(why.starts_with("line 2 is not UTF-8"), "{why}");
        fs::remove_file(&file).unwrap();
    }
}
