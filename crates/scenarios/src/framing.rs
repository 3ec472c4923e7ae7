//! Headers that the HTTP client writes itself, given by a user.
//!
//! The client replaces `Content-Length` and `Transfer-Encoding`, as k6 and vegeta do. Values that
//! contradict the request are refused before the run.

/// Reasons why a request cannot have the given headers. The message begins with the key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("headers.{0}: is given twice")]
    Twice(&'static str),
    #[error(
        "headers.content-length: is `{given}`, but the body has {length} bytes; remove the header, \
         which the load test writes itself"
    )]
    Length { given: String, length: usize },
    #[error("headers: Content-Length and Transfer-Encoding exclude each other; remove both")]
    Both,
}

/// Checks the headers of a request: names with values, which are `None` if they vary. `body` is the
/// length of the body, and `None` if it varies.
pub(crate) fn check<'h>(
    headers: impl Iterator<Item = (&'h str, Option<&'h str>)> + Clone,
    body: Option<usize>,
) -> Result<(), FramingError> {
    let values = |name: &'static str| {
        let named = headers.clone();
        named.filter(move |(other, _)| other.eq_ignore_ascii_case(name))
    };
    for name in ["host", "content-length"] {
        if values(name).count() > 1 {
            return Err(FramingError::Twice(name));
        }
    }
    let Some((_, given)) = values("content-length").next() else {
        return Ok(());
    };
    if values("transfer-encoding").next().is_some() {
        return Err(FramingError::Both);
    }
    match (given, body) {
        (Some(given), Some(length)) if given.parse::<usize>() != Ok(length) => {
            Err(FramingError::Length {
                given: given.to_owned(),
                length,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_found() {
        let checked = |headers: &[(&'static str, &'static str)], body| {
            let headers = headers.iter().map(|(name, value)| (*name, Some(*value)));
            check(headers, body)
        };
        let length = ("Content-Length", "3");
        assert_eq!(checked(&[length], Some(3)), Ok(()));
        assert_eq!(checked(&[length, ("Host", "a")], None), Ok(()));
        assert_eq!(checked(&[("Transfer-Encoding", "chunked")], None), Ok(()));
        let wrong = checked(&[length], Some(0)).unwrap_err().to_string();
        assert!(
            wrong.contains("is `3`, but the body has 0 bytes"),
            "{wrong}"
        );
        assert!(checked(&[("content-length", "x")], Some(1)).is_err());
        let both = checked(&[length, ("transfer-encoding", "chunked")], Some(3));
        assert_eq!(both, Err(FramingError::Both));
        let hosts = [("host", "a"), ("Host", "b")];
        assert_eq!(checked(&hosts, None), Err(FramingError::Twice("host")));
    }
}
