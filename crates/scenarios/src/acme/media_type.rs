//! Media types of responses.

/// Media type of the directory, and of all objects (RFC 8555, section 7.1).
pub(super) const JSON: &str = "application/json";
/// Media type of a chain (RFC 8555, section 9.1).
pub(super) const CHAIN: &str = "application/pem-certificate-chain";
/// Media type of a problem document (RFC 7807, section 6.1).
pub(super) const PROBLEM: &str = "application/problem+json";

/// A response has another media type than its kind of body requires.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the Content-Type {expected}, found {}", .found.as_deref().unwrap_or("none"))]
pub(super) struct MediaTypeError {
    expected: &'static str,
    found: Option<String>,
}

/// Compares the value of a Content-Type with a media type. Parameters are ignored.
pub(super) fn check(found: Option<&str>, expected: &'static str) -> Result<(), MediaTypeError> {
    let kind = found.map(|found| found.split(';').next().unwrap_or_default().trim());
    if kind.is_some_and(|kind| kind.eq_ignore_ascii_case(expected)) {
        Ok(())
    } else {
        let found = found.map(str::to_owned);
        Err(MediaTypeError { expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_letter_case_do_not_matter() {
        assert_eq!(check(Some("Application/JSON; charset=utf-8"), JSON), Ok(()));
        for other in [None, Some("text/plain"), Some("application/jsonp")] {
            assert!(check(other, JSON).is_err(), "{other:?}");
        }
    }
}
