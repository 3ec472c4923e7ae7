//! Characters that paths and queries of requests can contain.

/// Characters of a URL besides letters and digits (RFC 3986, section 2).
const MARKS: &str = "-._~:/?#[]@!$&'()*+,;=%";

/// A character that is not allowed in a URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a URL cannot contain {found:?}: write {}", percent_encoded(*.found))]
pub(crate) struct UrlCharacterError {
    found: char,
}

/// Checks that a part of a path or of a query has only characters of a URL. Values of templates are
/// not part of `text`, because they are percent-encoded.
pub(crate) fn check(text: &str) -> Result<(), UrlCharacterError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || MARKS.contains(c);
    match text.chars().find(|c| !allowed(*c)) {
        Some(found) => Err(UrlCharacterError { found }),
        None => Ok(()),
    }
}

fn percent_encoded(character: char) -> String {
    let text = character.to_string();
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_outside_urls_are_refused_with_their_encoding() {
        for good in ["", "/", "/a-b_c.d~e/%20?x[0]=1&y='(a)'", "*"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (text, expected) in [
            ("/o k", "a URL cannot contain ' ': write %20"),
            ("/x?q=\u{e9}", "a URL cannot contain '\u{e9}': write %C3%A9"),
            ("/{id}", "a URL cannot contain '{': write %7B"),
            ("/a\nb", "a URL cannot contain '\\n': write %0A"),
        ] {
            assert_eq!(check(text).unwrap_err().to_string(), expected);
        }
    }
}
