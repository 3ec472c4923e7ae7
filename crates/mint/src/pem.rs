//! PEM (RFC 7468): strict enough for files of our own, forgiving of text
//! around the blocks.

use crate::Error;

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
/// A block that does not end, or that is not base64.
pub fn decode(text: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = bracketed(line, "BEGIN") else {
            continue;
        };
        let mut body = String::new();
        loop {
            match lines.next() {
                Some(line) if bracketed(line, "END") == Some(label) => break,
                Some(line) => body.push_str(line),
                None => return Err(Error::Pem(format!("PEM block {label} has no END line"))),
            }
        }
        let der = base64_simd::STANDARD
            .decode_to_vec(&body)
            .map_err(|_| Error::Pem(format!("PEM block {label} is not base64")))?;
        blocks.push((label.to_owned(), der));
    }
    Ok(blocks)
}

fn bracketed<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.strip_prefix("-----")?
        .strip_prefix(word)?
        .strip_prefix(' ')?
        .strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(decode("-----BEGIN X-----\nAAAA\n").is_err());
        assert!(decode("-----BEGIN X-----\nA*\n-----END X-----").is_err());
    }
}
