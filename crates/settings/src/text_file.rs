//! Files with a bounded size, and files that are read as text.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Maximum size of a file. The list of CCADB's roots, the largest one, has a few MiB. A device may
/// have no end.
const MAX: u64 = 64 << 20;

/// Reads an open file.
///
/// # Errors
/// If the file cannot be read, or has more than 64 MiB.
pub fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        let message = format!("it has more than {} MiB", MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads the text file at `path`. A byte order mark of UTF-8 is left out.
///
/// # Errors
/// If the file cannot be read, is too large, or is not UTF-8. The errors for UTF-16 and UTF-32 have
/// the remedy.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bounded(File::open(path)?)?;
    if let Some(encoding) = other_encoding(&bytes) {
        let file = path.display();
        let message = format!(
            "the file is {encoding}: convert it with `iconv -f {encoding} -t UTF-8 {file}`"
        );
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

/// Returns the encoding that the byte order mark names, if it is not UTF-8. The mark of UTF-32 in
/// little-endian order begins with the mark of UTF-16.
fn other_encoding(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let why = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(why.to_string(), "it has more than 64 MiB");
    }

    #[test]
    fn other_encodings_are_named_and_have_a_remedy() {
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
        for utf_32 in [&b"\xff\xfe\0\0a\0\0\0"[..], b"\0\0\xfe\xff\0\0\0a"] {
            let why = read(utf_32).unwrap_err();
            let remedy = "the file is UTF-32: convert it with `iconv -f UTF-32 -t UTF-8 /";
            assert!(why.starts_with(remedy), "{why}");
        }
        let why = read(b"a: 1\nb: \xe9\n").unwrap_err();
        assert!(why.starts_with("line 2 is not UTF-8"), "{why}");
        fs::remove_file(&file).unwrap();
    }
}
