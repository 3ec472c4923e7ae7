//! PEM (RFC 7468), parsed by OpenSSL's rules. This is the only PEM parser of Lucarne, so that the
//! same rules apply to all files. Text around the blocks is ignored. An unusable block is reported
//! with its line, and never dropped silently.

/// A PEM block, with the number of its first line.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the BEGIN line, starting at 1.
    pub line: usize,
    /// The words after BEGIN: `CERTIFICATE`.
    pub label: String,
    /// The decoded contents, or the reason why they are invalid.
    pub contents: Result<Vec<u8>, &'static str>,
}

/// The reasons why a PEM file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// A block is damaged.
    #[error("line {line}: PEM block {label}: {why}")]
    Damaged {
        /// Number of the first line of the block.
        line: usize,
        /// The words after BEGIN, as far as they are readable.
        label: String,
        /// The reason.
        why: &'static str,
    },
    /// The block does not belong in a file of certificates.
    #[error("line {line}: PEM block {label}: expected a CERTIFICATE")]
    NotCertificate {
        /// Number of the first line of the block.
        line: usize,
        /// The words after BEGIN.
        label: String,
    },
    /// The file has no certificate.
    #[error("the text has no PEM certificate")]
    NoCertificate,
    /// The file has a private key in place of certificates.
    #[error(
        "the text has no PEM certificate, but a private key: check whether the key file and the \
         certificate file are swapped"
    )]
    OnlyKey,
    /// The file has DER.
    #[error(
        "the file has DER in place of PEM: convert it with `openssl x509 -inform DER -in FILE -out \
         FILE.pem`"
    )]
    Der,
    /// The file has no private key.
    #[error("the text has no PRIVATE KEY block")]
    NoKey,
    /// The file has another encoding than PEM.
    #[error("{UTF_16}")]
    Utf16,
}

const UTF_16: &str = "the file is UTF-16: convert it to UTF-8 with `iconv -f UTF-16 -t UTF-8 FILE`";
const NOT_BASE64: &str = "its contents are not base64";
const ENCRYPTED: &str = "the key is encrypted: decrypt the key (openssl pkey -in KEY -out NEW)";
const NO_BEGIN: &str = "its BEGIN line is missing or damaged";
const BAD_BEGIN: &str =
    "its BEGIN line is damaged, or has more text: write BEGIN on a separate line";
const BAD_END: &str = "its END line is damaged, or has more text: write END on a separate line";
const NO_END: &str = "the block has no END line";
const CUT: &str = "the file ends before the block does";
const OTHER_LABEL: &str = "the END line has another name than the BEGIN line";
const HEADERS: &str = "no empty line follows its headers";

/// Encodes `der` as one PEM block with lines of 64 characters.
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

/// Returns label and content of all blocks of `text`, in order.
///
/// # Errors
/// The first block that cannot be parsed.
pub fn decode(text: &str) -> Result<Vec<(String, Vec<u8>)>, PemError> {
    let blocks = blocks(text.as_bytes()).into_iter();
    blocks
        .map(|block| Ok((block.label.clone(), block.sound()?)))
        .collect()
}

/// Returns the certificates of a file in order, at least one. Keys, parameters and revocation lists
/// are ignored.
///
/// # Errors
/// The first block of another kind, or that cannot be parsed; or the absence of a certificate.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, PemError> {
    let (mut found, mut has_key) = (Vec::new(), false);
    for block in blocks(text) {
        has_key |= block.label.ends_with("PRIVATE KEY");
        if block.is_certificate() {
            found.push(block.sound()?);
        } else if !block.may_stand_beside_certificates() {
            let (line, label) = (block.line, block.label.clone());
            block.sound()?;
            return Err(PemError::NotCertificate { line, label });
        }
    }
    if !found.is_empty() {
        Ok(found)
    } else if is_der(text) {
        Err(PemError::Der)
    } else if has_key {
        Err(PemError::OnlyKey)
    } else {
        Err(PemError::NoCertificate)
    }
}

/// Returns the first private key of a file, in the format that its label names.
///
/// # Errors
/// If there is no private key, or it cannot be parsed or is encrypted.
pub fn private_key(text: &[u8]) -> Result<Vec<u8>, PemError> {
    if is_utf_16(text) {
        return Err(PemError::Utf16);
    }
    let mut blocks = blocks(text).into_iter();
    let key = blocks.find(|block| block.label.ends_with("PRIVATE KEY"));
    let mut key = key.ok_or(PemError::NoKey)?;
    if key.label.starts_with("ENCRYPTED") {
        key.contents = Err(ENCRYPTED);
    }
    key.sound()
}

/// Returns the blocks of a file in order. The text need not be UTF-8, and may begin with a byte
/// order mark.
pub fn blocks(text: &[u8]) -> Vec<Block> {
    if is_utf_16(text) {
        return vec![Block {
            line: 1,
            label: String::new(),
            contents: Err(UTF_16),
        }];
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader::default();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        reader.read(number + 1, line.trim_ascii());
    }
    reader.close_broken(CUT);
    reader.blocks
}

/// Returns `true` if the file begins with a DER sequence, as certificates in DER do.
pub fn is_der(file: &[u8]) -> bool {
    file.starts_with(b"\x30\x82")
}

/// Returns `true` if the text begins with a byte order mark of UTF-16, which Windows editors write,
/// and with a character of ASCII. The first character of UTF-32 would be zero.
pub fn is_utf_16(text: &[u8]) -> bool {
    matches!(
        text,
        [0xff, 0xfe, 1..=255, 0, ..] | [0xfe, 0xff, 0, 1..=255, ..]
    )
}

impl Block {
    /// Returns `true` if the label is the label of a certificate.
    pub fn is_certificate(&self) -> bool {
        matches!(&*self.label, "CERTIFICATE" | "X509 CERTIFICATE")
    }

    fn may_stand_beside_certificates(&self) -> bool {
        let ends = ["PRIVATE KEY", "PUBLIC KEY", "PARAMETERS", "X509 CRL"];
        ends.iter().any(|end| self.label.ends_with(end))
    }

    fn sound(self) -> Result<Vec<u8>, PemError> {
        let (line, label) = (self.line, self.label);
        if self.contents == Err(UTF_16) {
            return Err(PemError::Utf16);
        }
        self.contents
            .map_err(|why| PemError::Damaged { line, label, why })
    }
}

/// A line that begins or ends a block.
enum Armour {
    Begin(String),
    End(String),
    /// A line that contains BEGIN or END, but is malformed.
    Damaged {
        ends: bool,
        begins: Option<String>,
    },
}

impl Armour {
    fn of(line: &[u8]) -> Option<Armour> {
        if let Some(label) = exact(line, b"-----BEGIN ") {
            return Some(Armour::Begin(label));
        }
        if let Some(label) = exact(line, b"-----END ") {
            return Some(Armour::End(label));
        }
        let begins = after(line, b"BEGIN ");
        let ends = after(line, b"END ").is_some();
        (ends || begins.is_some()).then_some(Armour::Damaged { ends, begins })
    }
}

fn exact(line: &[u8], prefix: &[u8]) -> Option<String> {
    let label = line.strip_prefix(prefix)?.strip_suffix(b"-----")?;
    let one = !label.windows(2).any(|pair| pair == b"--");
    one.then(|| String::from_utf8_lossy(label).into_owned())
}

/// Returns the label after the last `word` that follows a dash (also a typographic one).
fn after(line: &[u8], word: &[u8]) -> Option<String> {
    let at = line.windows(word.len()).rposition(|found| found == word)?;
    let dashes: [&[u8]; 3] = [b"-", "–".as_bytes(), "—".as_bytes()];
    if !dashes.iter().any(|dash| line[..at].ends_with(dash)) {
        return None;
    }
    let rest = line[at + word.len()..].split(|byte| *byte == b'-' || !byte.is_ascii());
    let label = rest.into_iter().next().unwrap_or_default();
    Some(String::from_utf8_lossy(label).into_owned())
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
    open: Option<Open>,
}

impl Reader {
    fn read(&mut self, number: usize, line: &[u8]) {
        match Armour::of(line) {
            Some(Armour::Begin(label)) => {
                self.close_broken(NO_END);
                self.open = Some(Open::new(number, label, None));
            }
            Some(Armour::End(label)) => match self.open.take() {
                Some(open) => self.blocks.push(open.close(&label)),
                None => {
                    let open = Open::new(number, label, None);
                    self.blocks.push(open.broken(NO_BEGIN));
                }
            },
            Some(Armour::Damaged { ends, begins }) => {
                self.close_broken(if ends { BAD_END } else { NO_END });
                self.open = begins.map(|label| Open::new(number, label, Some(BAD_BEGIN)));
            }
            None => {
                if let Some(open) = &mut self.open {
                    open.take(line);
                }
            }
        }
    }

    fn close_broken(&mut self, why: &'static str) {
        let open = self.open.take();
        self.blocks.extend(open.map(|open| open.broken(why)));
    }
}

struct Open {
    line: usize,
    label: String,
    base64: Vec<u8>,
    in_headers: bool,
    problem: Option<&'static str>,
}

impl Open {
    fn new(line: usize, label: String, problem: Option<&'static str>) -> Self {
        Open {
            line,
            label,
            base64: Vec::new(),
            in_headers: false,
            problem,
        }
    }

    /// Adds a line of headers (RFC 1421) or contents.
    fn take(&mut self, line: &[u8]) {
        if self.base64.is_empty() && line.contains(&b':') {
            self.in_headers = true;
            if line.ends_with(b"ENCRYPTED") {
                self.problem.get_or_insert(ENCRYPTED);
            }
        }
        if self.in_headers {
            self.in_headers = !line.is_empty();
        } else {
            let contents = line.iter().filter(|byte| !byte.is_ascii_whitespace());
            self.base64.extend(contents);
        }
    }

    fn close(self, label: &str) -> Block {
        if self.label != label {
            return self.broken(OTHER_LABEL);
        }
        if self.in_headers {
            return self.broken(HEADERS);
        }
        let decoded = base64_simd::STANDARD.decode_to_vec(&self.base64);
        match (self.problem, decoded) {
            (None, Ok(contents)) => Block {
                line: self.line,
                label: self.label,
                contents: Ok(contents),
            },
            _ => self.broken(NOT_BASE64),
        }
    }

    fn broken(self, why: &'static str) -> Block {
        Block {
            line: self.line,
            label: self.label,
            contents: Err(self.problem.unwrap_or(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line, label, and contents or the error, of each block.
    type Found = Vec<(usize, String, Result<Vec<u8>, &'static str>)>;

    fn found(text: &[u8]) -> Found {
        let blocks = blocks(text).into_iter();
        blocks
            .map(|block| (block.line, block.label, block.contents))
            .collect()
    }

    fn block(
        line: usize,
        label: &str,
        contents: Result<&[u8], &'static str>,
    ) -> (usize, String, Result<Vec<u8>, &'static str>) {
        (line, label.to_owned(), contents.map(<[u8]>::to_vec))
    }

    #[test]
    fn garbage_between_blocks_and_in_them() {
        let text = b"\xff\xfe noise\n-----BEGIN A-----\nAAEC\n-----END A-----\nnoise\n\
            -----BEGIN B-----\n!!\n-----END B-----\n-----BEGIN C-----\nAA==\r\n-----END D-----\n\
            -----BEGIN E-----\n-----BEGIN F-----\r\n  AA==\r\n-----END F-----\r\n-----BEGIN G-----";
        assert_eq!(
            found(text),
            [
                block(2, "A", Ok(&[0, 1, 2])),
                block(6, "B", Err(NOT_BASE64)),
                block(9, "C", Err(OTHER_LABEL)),
                block(12, "E", Err(NO_END)),
                block(13, "F", Ok(&[0])),
                block(16, "G", Err(CUT)),
            ]
        );
    }

    #[test]
    fn blocks_survive_a_round_trip_with_text_around_them() {
        let long = vec![0xa5; 200];
        let text = format!(
            "# a note on the BEGIN and END - of it\n{}\nmore\n{}",
            encode("A B", &long),
            encode("C", b"")
        );
        let expected = vec![("A B".to_owned(), long), ("C".to_owned(), Vec::new())];
        assert_eq!(decode(&text).unwrap(), expected);
        assert_eq!(decode(&text.replace('\n', "\r\n")).unwrap(), expected);
        assert_eq!(decode(&format!("\u{feff}{text}")).unwrap(), expected);
    }

    #[test]
    fn a_byte_order_mark_hides_no_block() {
        let text = b"\xef\xbb\xbf-----BEGIN A-----\nAAEC\n-----END A-----\n";
        assert_eq!(found(text), [block(1, "A", Ok(&[0, 1, 2]))]);
    }

    #[test]
    fn glued_and_damaged_lines_are_reported_with_their_line() {
        let (a, b, c) = (encode("A", b"a"), encode("B", b"b"), encode("C", b"c"));
        let glued = format!("{}{b}{c}", a.trim_end());
        assert_eq!(
            found(glued.as_bytes()),
            [
                block(1, "A", Err(BAD_END)),
                block(3, "B", Err(BAD_BEGIN)),
                block(6, "C", Ok(b"c")),
            ]
        );
        for (from, to, label, why) in [
            ("-----BEGIN B", "----BEGIN B", "B", BAD_BEGIN),
            ("-----BEGIN B", "——BEGIN B", "B", BAD_BEGIN),
            ("-----BEGIN B-----", "-----BEGIN B----", "B", BAD_BEGIN),
            ("-----BEGIN B", "text -----BEGIN B", "B", BAD_BEGIN),
            ("-----END B", "----END B", "B", BAD_END),
            ("-----END B-----", "-----END B----- more", "B", BAD_END),
            ("-----END B-----", "-----EN", "B", NO_END),
        ] {
            let text = format!("{a}{}{c}", b.replace(from, to));
            let expected = [
                block(1, "A", Ok(b"a")),
                block(4, label, Err(why)),
                block(7, "C", Ok(b"c")),
            ];
            assert_eq!(found(text.as_bytes()), expected, "{to}");
        }
        let text = format!("{a}{}", b.replace("-----BEGIN B-----", "-----BEGI"));
        let expected = [block(1, "A", Ok(b"a")), block(6, "B", Err(NO_BEGIN))];
        assert_eq!(found(text.as_bytes()), expected);
        // Old line endings (CR only): the file is a single line.
        let text = encode("A", b"a").replace('\n', "\r");
        assert_eq!(found(text.as_bytes()).len(), 1);
        assert!(blocks(text.as_bytes())[0].contents.is_err());
    }

    #[test]
    fn headers_are_passed_over_and_encryption_is_reported() {
        let headers = |headers: &str| {
            encode("A", b"a").replace("BEGIN A-----\n", &format!("BEGIN A-----\n{headers}"))
        };
        let read = |text: &str| blocks(text.as_bytes()).remove(0).contents;
        assert_eq!(read(&headers("Comment: x\n y\n\n")), Ok(b"a".to_vec()));
        assert_eq!(read(&headers("Comment: x\n")), Err(HEADERS));
        let encrypted = headers("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n");
        assert_eq!(read(&encrypted), Err(ENCRYPTED));
    }

    #[test]
    fn files_of_certificates() {
        let (one, two) = (
            encode("CERTIFICATE", b"1"),
            encode("X509 CERTIFICATE", b"2"),
        );
        let key = encode("PRIVATE KEY", b"k");
        let all = format!("{}{key}{one}{two}", encode("EC PARAMETERS", b"p"));
        assert_eq!(certificates(all.as_bytes()).unwrap(), [b"1", b"2"]);
        assert_eq!(private_key(all.as_bytes()).unwrap(), b"k");
        let said = |text: String| certificates(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(said(String::new()), "the text has no PEM certificate");
        assert!(said(key).starts_with("the text has no PEM certificate, but a private key"));
        let der = certificates(b"\x30\x82\x01\x02").unwrap_err().to_string();
        assert!(
            der.starts_with("the file has DER in place of PEM: convert it"),
            "{der}"
        );
        assert_eq!(
            said(format!("{one}{}", encode("TRUSTED CERTIFICATE", b"3"))),
            "line 4: PEM block TRUSTED CERTIFICATE: expected a CERTIFICATE"
        );
        assert_eq!(
            said(format!("{}{two}", one.trim_end())),
            "line 1: PEM block CERTIFICATE: its END line is damaged, or has more text: write END \
             on a separate line"
        );
        let none = private_key(one.as_bytes()).unwrap_err().to_string();
        assert_eq!(none, "the text has no PRIVATE KEY block");
        let key = encode("ENCRYPTED PRIVATE KEY", b"k");
        let said = private_key(key.as_bytes()).unwrap_err().to_string();
        assert!(said.ends_with("decrypt the key (openssl pkey -in KEY -out NEW)"));
    }

    #[test]
    fn damage_is_reported() {
        let damaged = |why| {
            let label = "X".to_owned();
            Err(PemError::Damaged {
                line: 1,
                label,
                why,
            })
        };
        assert_eq!(decode("-----BEGIN X-----\nAAAA\n"), damaged(CUT));
        let other = decode("-----BEGIN X-----\nAAAA\n-----END Y-----");
        assert_eq!(other, damaged(OTHER_LABEL));
        for contents in ["A*", "AA", "AA=", "AAA"] {
            let text = format!("-----BEGIN X-----\n{contents}\n-----END X-----");
            assert_eq!(decode(&text), damaged(NOT_BASE64), "{contents}");
        }
        let spaced = "-----BEGIN X-----\nA AA\tA\n-----END X-----";
        assert_eq!(decode(spaced).unwrap()[0].1, [0, 0, 0]);
    }

    #[test]
    fn utf_16_is_named() {
        let text = format!("\u{feff}{}", encode("CERTIFICATE", &[1, 2]));
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let utf_16: Vec<u8> = text.encode_utf16().flat_map(order).collect();
            assert_eq!(certificates(&utf_16), Err(PemError::Utf16));
            assert_eq!(private_key(&utf_16), Err(PemError::Utf16));
            assert_eq!(blocks(&utf_16)[0].contents, Err(UTF_16));
        }
        assert!(PemError::Utf16.to_string().contains("iconv -f UTF-16"));
        let utf_32: Vec<u8> = text
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        assert_ne!(certificates(&utf_32), Err(PemError::Utf16));
    }
}
