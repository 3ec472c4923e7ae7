//! Signed notes (C2SP signed-note): a text, an empty line, signature lines.
//!
//! Parsing does not verify signatures, because verification requires the keys.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use base64_simd::STANDARD;

/// A text with its signatures.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::SignedNote;
///
/// let note = SignedNote::parse("a text\n\n— log.example AAAAAQI=\n".as_bytes())?;
/// assert_eq!(note.text, "a text\n");
/// let signatures: Vec<_> = note.signatures_by("log.example", [0, 0, 0, 1]).collect();
/// assert_eq!(signatures, [[2]]);
/// # Ok::<(), lucarne_tlog::NoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNote {
    /// The signed text, including the newline of its last line.
    pub text: String,
    /// The signature lines in order; a parsed note has at least one.
    pub signatures: Vec<NoteSignature>,
}

/// A signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    /// Name of the key, see [`is_key_name`].
    pub name: String,
    /// Identifier of the key, see [`key_id`].
    pub key_id: [u8; 4],
    /// The bytes after the identifier, in the format of the key's algorithm.
    pub signature: Vec<u8>,
}

/// The reasons why bytes are not a signed note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The bytes are not UTF-8.
    #[error("the note is not UTF-8")]
    Encoding,
    /// The note has an ASCII control character other than a newline.
    #[error("the note has a control character")]
    ControlCharacter,
    /// There is no empty line after a text.
    #[error("the note has no empty line between a text and its signatures")]
    NoSignatures,
    /// A signature line does not have the form `— <name> <base64>` with a newline.
    #[error("line {0} after the text is not a signature line (— <name> <base64>)")]
    SignatureLine(usize),
}

const SIGNATURE_START: &str = "— ";

impl SignedNote {
    /// Parses a signed note.
    pub fn parse(note: &[u8]) -> Result<Self, NoteError> {
        let note = std::str::from_utf8(note).map_err(|_| NoteError::Encoding)?;
        if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return Err(NoteError::ControlCharacter);
        }
        // The text itself may contain empty lines: the last empty line ends the text.
        let end = note.rfind("\n\n").ok_or(NoteError::NoSignatures)? + 1;
        let (text, signatures) = (&note[..end], &note[end + 1..]);
        if signatures.is_empty() {
            return Err(NoteError::NoSignatures);
        }
        Ok(Self {
            text: text.to_owned(),
            signatures: parse_signatures(signatures)?,
        })
    }

    /// Returns the published form of the note; the inverse of [`parse`](Self::parse).
    #[must_use]
    pub fn encode(&self) -> String {
        self.to_string()
    }

    /// Returns the signatures of one key.
    pub fn signatures_by<'n>(
        &'n self,
        name: &'n str,
        key_id: [u8; 4],
    ) -> impl Iterator<Item = &'n [u8]> {
        let by = move |line: &&NoteSignature| line.name == name && line.key_id == key_id;
        self.signatures
            .iter()
            .filter(by)
            .map(|line| line.signature.as_slice())
    }
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for NoteSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = [&self.key_id, self.signature.as_slice()].concat();
        write!(
            f,
            "{SIGNATURE_START}{} {}",
            self.name,
            STANDARD.encode_to_string(body)
        )
    }
}

/// Parses signature lines without their text, which witnesses and mirrors send.
pub fn parse_signatures(lines: &str) -> Result<Vec<NoteSignature>, NoteError> {
    lines
        .split_inclusive('\n')
        .zip(1..)
        .map(|(line, number)| parse_line(line).ok_or(NoteError::SignatureLine(number)))
        .collect()
}

fn parse_line(line: &str) -> Option<NoteSignature> {
    let line = line.strip_suffix('\n')?.strip_prefix(SIGNATURE_START)?;
    let (name, base64) = line.split_once(' ')?;
    let body = STANDARD.decode_to_vec(base64).ok()?;
    let (key_id, signature) = body.split_first_chunk()?;
    (is_key_name(name) && !signature.is_empty()).then(|| NoteSignature {
        name: name.to_owned(),
        key_id: *key_id,
        signature: signature.to_owned(),
    })
}

/// Returns `true` if this is a valid name of a key: "non-empty, and not containing Unicode spaces
/// or plus (U+002B)" (C2SP signed-note), and without control characters, which are not allowed in
/// notes.
#[must_use]
pub fn is_key_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+')
}

/// Returns the identifier of a key: the first four bytes of SHA-256(name ‖ `0A` ‖ algorithm ‖
/// public key) (C2SP signed-note). The key of an RFC 6962 log has the algorithm `05`, and its log
/// ID takes the place of the public key (C2SP static-ct-api).
#[must_use]
pub fn key_id(name: &str, algorithm: u8, public_key: &[u8]) -> [u8; 4] {
    let mut context = Context::new(&SHA256);
    context.update(name.as_bytes());
    context.update(&[b'\n', algorithm]);
    context.update(public_key);
    let digest = context.finish();
    let mut id = [0; 4];
    id.copy_from_slice(&digest.as_ref()[..4]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(text: &str, lines: &str) -> Result<SignedNote, NoteError> {
        SignedNote::parse(format!("{text}\n{lines}").as_bytes())
    }

    #[test]
    fn parses_what_the_specification_shows() {
        let parsed = note(
            "This is an example message.\n",
            "— example.com/foo jKVkT/fIGpWbJN1dg3zCVN9tMV/fDQ==\n— b AAAAAQI=\n",
        )
        .unwrap();
        assert_eq!(parsed.text, "This is an example message.\n");
        assert_eq!(parsed.signatures[0].name, "example.com/foo");
        assert_eq!(parsed.signatures[0].key_id, [0x8c, 0xa5, 0x64, 0x4f]);
        assert_eq!(parsed.signatures[1].signature, [2]);
        assert_eq!(
            parsed.signatures_by("b", [0, 0, 0, 1]).collect::<Vec<_>>(),
            [[2]]
        );
        assert_eq!(parsed.signatures_by("b", [0, 0, 0, 2]).count(), 0);
    }

    #[test]
    fn the_last_empty_line_ends_the_text() {
        let parsed = note("a\n\n— b AAAAAQI=\n", "— c AAAAAQI=\n").unwrap();
        assert_eq!(parsed.text, "a\n\n— b AAAAAQI=\n");
        assert_eq!(parsed.signatures.len(), 1);
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in [
            "— b AAAAAQI=",          // no newline
            "b AAAAAQI=\n",          // no dash
            "- b AAAAAQI=\n",        // another dash
            "—b AAAAAQI=\n",         // no space
            "— AAAAAQI=\n",          // no name
            "—  AAAAAQI=\n",         // an empty name
            "— b+c AAAAAQI=\n",      // a plus
            "— b\u{a0}c AAAAAQI=\n", // a Unicode space
            "— b AAAAAQI\n",         // no padding
            "— b AAAAAQJ=\n",        // bits beyond the last byte
            "— b AAAAAQI= \n",       // something after it
            "— b  AAAAAQI=\n",       // two spaces
            "— b AAAA\n",            // shorter than an identifier
            "— b AAAAAA==\n",        // nothing after the identifier
            "— b AA_A_QI=\n",        // the URL alphabet
            "— b AAAAAQI=\n\n",      // one more line
        ] {
            assert!(note("text\n", line).is_err(), "{line:?}");
        }
        assert_eq!(note("text\n", ""), Err(NoteError::NoSignatures));
        assert_eq!(note("text", "— b AAAAAQI=\n"), Err(NoteError::NoSignatures));
        assert_eq!(
            note("te\rxt\n", "— b AAAAAQI=\n"),
            Err(NoteError::ControlCharacter)
        );
        assert_eq!(
            note("text\n", "— b AAAAAQI=\nx\n"),
            Err(NoteError::SignatureLine(2))
        );
        assert_eq!(SignedNote::parse(b"\xff\n\n"), Err(NoteError::Encoding));
    }

    prop_compose! {
        fn any_note()(
            text in "([ -~é—]{0,20}\n){1,5}",
            lines in prop::collection::vec(
                ("[!-*,-~é]{1,20}", any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 1..80)),
                1..20,
            ),
        ) -> SignedNote {
            let line = |(name, key_id, signature)| NoteSignature { name, key_id, signature };
            SignedNote { text, signatures: lines.into_iter().map(line).collect() }
        }
    }

    proptest! {
        #[test]
        fn encoding_round_trips(note in any_note()) {
            prop_assert_eq!(SignedNote::parse(note.encode().as_bytes()), Ok(note));
        }

        /// A note with a byte changed, removed or added is refused, or is written exactly as it was
        /// read: there is only one encoding.
        #[test]
        fn mutations_have_one_spelling(
            note in any_note(), at: prop::sample::Index, byte: u8, how in 0..3,
        ) {
            let mut bytes = note.encode().into_bytes();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            if let Ok(parsed) = SignedNote::parse(&bytes) {
                prop_assert_eq!(parsed.encode().into_bytes(), bytes);
            }
        }
    }
}
