//! PEM (RFC 7468). Text around the blocks is passed over; what is in them is read forgivingly
//! ([`blocks`]), or as strictly as files of our own are written ([`decode`]).

/// One block, and the line where it begins (counted from 1).
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its BEGIN.
    pub line: usize,
    /// The words after BEGIN: `CERTIFICATE`.
    pub label: String,
    /// The decoded contents, or what is wrong with them.
    pub contents: Result<Vec<u8>, &'static str>,
}

/// Why a PEM file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// A block that does not end; its label.
    #[error("PEM block {0} has no END line")]
    NoEnd(String),
    /// A block of something else; its label.
    #[error("PEM block {0} is not base64")]
    NotBase64(String),
}

const NOT_BASE64: &str = "its contents are not base64";

/// One PEM block of `der`, lines of 64 characters.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = base64_simd::STANDARD.encode_to_string(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// All blocks of `text`, in order: label and content.
///
/// # Errors
/// The first block that does not end, or that is not base64 with its padding.
pub fn decode(text: &str) -> Result<Vec<(String, Vec<u8>)>, PemError> {
    let strict = |base64: &[u8]| base64_simd::STANDARD.decode_to_vec(base64).ok();
    let blocks = read(text.as_bytes(), strict).into_iter();
    let decoded = blocks.map(|block| match block.contents {
        Ok(contents) => Ok((block.label, contents)),
        Err(NOT_BASE64) => Err(PemError::NotBase64(block.label)),
        Err(_) => Err(PemError::NoEnd(block.label)),
    });
    decoded.collect()
}

/// The blocks of a file, in order. The text need not be UTF-8, and base64 may lack its padding.
pub fn blocks(text: &[u8]) -> Vec<Block> {
    read(text, |base64| {
        base64_simd::forgiving_decode_to_vec(base64).ok()
    })
}

fn read(text: &[u8], decode: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Open> = None;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if let Some(label) = armour(line, b"-----BEGIN ") {
            blocks.extend(open.take().map(|open| open.broken("it never ends")));
            open = Some(Open {
                line: number + 1,
                label,
                base64: Vec::new(),
            });
        } else if let Some(label) = armour(line, b"-----END ") {
            blocks.extend(open.take().map(|open| open.close(&label, &decode)));
        } else if let Some(open) = &mut open {
            open.base64.extend_from_slice(line);
        }
    }
    blocks.extend(open.map(|open| open.broken("the file ends before the block does")));
    blocks
}

fn armour(line: &[u8], prefix: &[u8]) -> Option<String> {
    let label = line.strip_prefix(prefix)?.strip_suffix(b"-----")?;
    Some(String::from_utf8_lossy(label).into_owned())
}

struct Open {
    line: usize,
    label: String,
    base64: Vec<u8>,
}

impl Open {
    fn close(self, label: &str, decode: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Block {
        if self.label != label {
            return self.broken("it ends under another name than it begins");
        }
        match decode(&self.base64) {
            Some(contents) => Block {
                line: self.line,
                label: self.label,
                contents: Ok(contents),
            },
            None => self.broken(NOT_BASE64),
        }
    }

    fn broken(self, why: &'static str) -> Block {
        Block {
            line: self.line,
            label: self.label,
            contents: Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_between_blocks_and_in_them() {
        let text = b"\xff\xfe noise\n-----BEGIN A-----\nAAEC\n-----END A-----\nnoise\n\
            -----BEGIN B-----\n!!\n-----END B-----\n-----BEGIN C-----\nAA==\r\n-----END D-----\n\
            -----BEGIN E-----\n-----BEGIN F-----\r\n  AA==\r\n-----END F-----\r\n-----BEGIN G-----";
        let found: Vec<_> = blocks(text)
            .into_iter()
            .map(|block| (block.line, block.label, block.contents.ok()))
            .collect();
        let block = |line, label: &str, contents| (line, label.to_owned(), contents);
        assert_eq!(
            found,
            [
                block(2, "A", Some(vec![0, 1, 2])),
                block(6, "B", None),
                block(9, "C", None),
                block(12, "E", None),
                block(13, "F", Some(vec![0])),
                block(16, "G", None),
            ]
        );
    }
    #[test]
    fn blocks_survive_a_round_trip_with_text_around_them() {
        let long = vec![0xa5; 200];
        let text = format!(
            "# a note\n{}\nmore\n{}",
            encode("A B", &long),
            encode("C", b"")
        );
        let expected = vec![("A B".to_owned(), long), ("C".to_owned(), Vec::new())];
        assert_eq!(decode(&text).unwrap(), expected);
        assert_eq!(decode(&text.replace('\n', "\r\n")).unwrap(), expected);
    }

    #[test]
    fn damage_is_said() {
        let no_end = Err(PemError::NoEnd("X".to_owned()));
        let not_base64 = Err(PemError::NotBase64("X".to_owned()));
        assert_eq!(decode("-----BEGIN X-----\nAAAA\n"), no_end);
        assert_eq!(decode("-----BEGIN X-----\nAAAA\n-----END Y-----"), no_end);
        assert_eq!(decode("-----BEGIN X-----\nA*\n-----END X-----"), not_base64);
        let unpadded = "-----BEGIN X-----\nAA\n-----END X-----";
        assert_eq!(decode(unpadded), not_base64);
        assert_eq!(blocks(unpadded.as_bytes())[0].contents, Ok(vec![0]));
    }
}
