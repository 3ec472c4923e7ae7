//! Files that options name by `@file`, as in curl and vegeta.

use std::io;
use std::str::Utf8Error;

/// Reasons why the file of an option cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error(
        "the file `{path}` cannot be read: {source}; to begin a text with @, write \
         {{{{\"@\"}}}}…"
    )]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Reason of the system.
        source: io::Error,
    },
    /// A text is required, and the content is not UTF-8.
    #[error("the file `{path}` is not UTF-8: {source}")]
    NotUtf8 {
        /// Path of the file.
        path: String,
        /// Place of the first invalid byte.
        source: Utf8Error,
    },
}

/// Reads the file that `text` names; `None` if `text` does not begin with `@`.
pub(super) fn bytes(text: &str) -> Result<Option<Vec<u8>>, FileError> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(None);
    };
    let read = std::fs::read(path);
    read.map(Some).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// Returns `text`, or the content of the file that it names, without the last line break.
pub(super) fn text(text: &str) -> Result<String, FileError> {
    let Some(bytes) = bytes(text)? else {
        return Ok(text.to_owned());
    };
    let content = String::from_utf8(bytes).map_err(|error| FileError::NotUtf8 {
        path: text[1..].to_owned(),
        source: error.utf8_error(),
    })?;
    let content = content.strip_suffix('\n').unwrap_or(&content);
    Ok(content.strip_suffix('\r').unwrap_or(content).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_from_a_file_of_utf_8() {
        let directory = tempfile::tempdir().unwrap();
        let file = |content: &[u8]| {
            let path = directory.path().join("text");
            std::fs::write(&path, content).unwrap();
            format!("@{}", path.display())
        };
        assert_eq!(text("plain").unwrap(), "plain");
        assert_eq!(text(&file(b"a\nb\r\n")).unwrap(), "a\nb");
        let binary = text(&file(b"\xff")).unwrap_err();
        assert!(binary.to_string().contains("/text` is not UTF-8: "));
        assert!(matches!(binary, FileError::NotUtf8 { .. }));
        let missing = text("@/no/such/file").unwrap_err().to_string();
        assert!(missing.starts_with("the file `/no/such/file` cannot be read: "));
        assert!(missing.ends_with("; to begin a text with @, write {{\"@\"}}…"));
    }
}
