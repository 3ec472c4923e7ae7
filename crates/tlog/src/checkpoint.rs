//! Checkpoints (C2SP tlog-checkpoint): a tree head as three lines of text, which are the text of a
//! signed note.

use std::fmt;

use crate::hash::Hash;

/// A tree head: the origin of the log, the number of leaves, and the root.
///
/// `Display` writes the signed text: three lines, each with its newline.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{Checkpoint, EMPTY_ROOT};
///
/// let text = "log.example/2026h2\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
/// let checkpoint = Checkpoint::parse(text)?;
/// assert_eq!((checkpoint.size, checkpoint.root), (0, EMPTY_ROOT));
/// assert_eq!(checkpoint.to_string(), text);
/// # Ok::<(), lucarne_tlog::CheckpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log: the submission prefix without scheme and trailing slash (C2SP
    /// static-ct-api, "Checkpoints").
    pub origin: String,
    /// The number of leaves.
    pub size: u64,
    /// The Merkle tree hash of the leaves.
    pub root: Hash,
}

/// The reasons why a text is not a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// There are fewer than three lines, or the last line has no newline.
    #[error("the checkpoint is not three whole lines (origin, size, root)")]
    Lines,
    /// The first line is empty or has a control character.
    #[error("the checkpoint's origin is empty or has a control character")]
    Origin,
    /// The second line is not a decimal number without leading zeros.
    #[error("the checkpoint's size is not a decimal number without leading zeros")]
    Size,
    /// The third line is not a hash in base64.
    #[error("the checkpoint's root is not 32 bytes of standard base64")]
    Root,
    /// There is a fourth line, which a static CT log never has.
    #[error("the checkpoint has extension lines, which a static CT log must not have")]
    Extension,
}

impl Checkpoint {
    /// Parses the checkpoint of a static CT log: exactly three lines.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        match Self::parse_extended(text)? {
            (checkpoint, extensions) if extensions.is_empty() => Ok(checkpoint),
            _ => Err(CheckpointError::Extension),
        }
    }

    /// Parses the checkpoint of any transparency log. Returns the checkpoint and its extension
    /// lines (C2SP tlog-checkpoint), which must not be empty.
    pub fn parse_extended(text: &str) -> Result<(Self, Vec<&str>), CheckpointError> {
        let text = text.strip_suffix('\n').ok_or(CheckpointError::Lines)?;
        let mut lines = text.split('\n');
        let mut line = || lines.next().ok_or(CheckpointError::Lines);
        let (origin, size, root) = (line()?, line()?, line()?);

        let checkpoint = Self {
            origin: parse_origin(origin)
                .ok_or(CheckpointError::Origin)?
                .to_owned(),
            size: parse_size(size).ok_or(CheckpointError::Size)?,
            root: Hash::from_base64(root).ok_or(CheckpointError::Root)?,
        };
        let extensions: Vec<_> = lines.collect();
        if extensions
            .iter()
            .any(|line| line.is_empty() || line.contains(char::is_control))
        {
            return Err(CheckpointError::Extension);
        }
        Ok((checkpoint, extensions))
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.size, self.root)
    }
}

fn parse_origin(text: &str) -> Option<&str> {
    (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
}

/// Parses a decimal number without sign and leading zeros: a size or an index of C2SP formats.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    // `u64::from_str` would also accept a plus sign.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = plain && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOT: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    #[test]
    fn parses_three_lines() {
        let text = format!("log.example/2026h2\n0\n{ROOT}\n");
        let parsed = Checkpoint::parse(&text).unwrap();
        assert_eq!(parsed.origin, "log.example/2026h2");
        assert_eq!((parsed.size, parsed.root), (0, crate::EMPTY_ROOT));
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn reports_extensions() {
        let text = format!("o\n7\n{ROOT}\nalpha\nbeta gamma\n");
        let (parsed, extensions) = Checkpoint::parse_extended(&text).unwrap();
        assert_eq!((parsed.size, extensions), (7, vec!["alpha", "beta gamma"]));
        assert_eq!(Checkpoint::parse(&text), Err(CheckpointError::Extension));
    }

    #[test]
    fn malformed_ones_are_refused() {
        use CheckpointError::*;
        for (text, error) in [
            (String::new(), Lines),
            (format!("o\n0\n{ROOT}"), Lines),
            ("o\n0\n".to_owned(), Lines),
            (format!("\n0\n{ROOT}\n"), Origin),
            (format!("o\r\n0\n{ROOT}\n"), Origin),
            (format!("o\n\n{ROOT}\n"), Size),
            (format!("o\n+1\n{ROOT}\n"), Size),
            (format!("o\n-1\n{ROOT}\n"), Size),
            (format!("o\n01\n{ROOT}\n"), Size),
            (format!("o\n00\n{ROOT}\n"), Size),
            (format!("o\n1 \n{ROOT}\n"), Size),
            (format!("o\n18446744073709551616\n{ROOT}\n"), Size),
            ("o\n0\n\n".to_owned(), Root),
            (format!("o\n0\n{ROOT}A\n"), Root),
            (format!("o\n0\n{}\n", &ROOT[..43]), Root),
            (format!("o\n0\n{ROOT}\n\n"), Extension),
            (format!("o\n0\n{ROOT}\n\nx\n"), Extension),
        ] {
            assert_eq!(Checkpoint::parse(&text), Err(error), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn display_round_trips(origin in "[!-~é ]{1,40}", size: u64, root: [u8; 32]) {
            let checkpoint = Checkpoint { origin, size, root: Hash(root) };
            prop_assert_eq!(Checkpoint::parse(&checkpoint.to_string()), Ok(checkpoint));
        }

        #[test]
        fn mutations_have_one_spelling(
            size: u64, root: [u8; 32], at: prop::sample::Index, byte in 0..128u8, how in 0..3,
        ) {
            let checkpoint = Checkpoint { origin: "a.example/log".into(), size, root: Hash(root) };
            let mut bytes = checkpoint.to_string().into_bytes();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            let text = String::from_utf8(bytes).unwrap();
            if let Ok(parsed) = Checkpoint::parse(&text) {
                prop_assert_eq!(parsed.to_string(), text);
            }
        }
    }
}
