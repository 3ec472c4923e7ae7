//! PEM (RFC 7468), read forgivingly: whatever is not between armour lines is passed over.

/// One block, and the line where it begins (counted from 1).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) label: String,
    /// The decoded contents, or what is wrong with them.
    pub(crate) contents: Result<Vec<u8>, &'static str>,
}

/// The blocks of a file, in order. The text need not be UTF-8.
pub(crate) fn blocks(text: &[u8]) -> Vec<Block> {
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
            blocks.extend(open.take().map(|open| open.close(&label)));
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
    fn close(self, label: &str) -> Block {
        if self.label != label {
            return self.broken("it ends under another name than it begins");
        }
        match base64_simd::forgiving_decode_to_vec(&self.base64) {
            Ok(contents) => Block {
                line: self.line,
                label: self.label,
                contents: Ok(contents),
            },
            Err(_) => self.broken("its contents are not base64"),
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
}
