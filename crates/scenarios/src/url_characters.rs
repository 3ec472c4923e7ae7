//! Characters that paths and queries of requests can contain.

/// A character that a request cannot contain in its URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a URL cannot contain {found:?}: write {}", percent_encoded(*.found))]
pub(crate) struct UrlCharacterError {
    found: char,
}

/// Checks that a part of a path or of a query has only printable ASCII characters. Others would
/// break the line of the request (RFC 9112, section 3). Clients also send characters that RFC 3986
/// does not allow, for example `{`, so they are accepted, and sent unchanged. Values of templates
/// are not part of `text`, because they are percent-encoded.
pub(crate) fn check(text: &str) -> Result<(), UrlCharacterError> {
    match text.chars().find(|c| !c.is_ascii_graphic()) {
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
        for good in [
            "",
            "/",
            "/a-b_c.d~e/%20?x[0]=1&y='(a)'",
            "*",
            "/{id}?a=\"x|y\"",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (text, expected) in [
            ("/o k", "a URL cannot contain ' ': write %20"),
            ("/x?q=\u{e9}", "a URL cannot contain '\u{e9}': write %C3%A9"),
            ("/a\nb", "a URL cannot contain '\\n': write %0A"),
        ] {
            assert_eq!(check(text).unwrap_err().to_string(), expected);
        }
    }
}
