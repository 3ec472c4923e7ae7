//! Retry-After (RFC 9110, section 10.2.3).

use std::time::Duration;

use jiff::Timestamp;
use lucarne_load::http::Response;
use lucarne_mint::now_ms;

/// Longest plausible wait.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reasons why a response does not request a plausible wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RetryAfterError {
    #[error("the response has no Retry-After")]
    Missing,
    #[error("Retry-After: {0} is more than a day away")]
    TooLong(String),
    #[error("Retry-After: {0} is neither a number of seconds nor an HTTP date")]
    Invalid(String),
}

/// Returns the wait that a response with status 429 or 503 requests.
pub(crate) fn retry_after(response: &Response) -> Result<Duration, RetryAfterError> {
    parse(response.headers.get("retry-after"), now_ms())
}

fn parse(header: Option<&str>, now_ms: u64) -> Result<Duration, RetryAfterError> {
    let text = header.ok_or(RetryAfterError::Missing)?;
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse().ok().map(Duration::from_secs)
    } else {
        date(text).map(|date| Duration::from_millis(date.saturating_sub(now_ms)))
    };
    match wait {
        Some(wait) if wait <= LONGEST => Ok(wait),
        Some(_) => Err(RetryAfterError::TooLong(text.to_owned())),
        None => Err(RetryAfterError::Invalid(text.to_owned())),
    }
}

/// Parses an HTTP date into milliseconds since 1970.
fn date(text: &str) -> Option<u64> {
    if !text.ends_with(" GMT") {
        return None;
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    u64::try_from(Timestamp::from(date).as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_nonsense() {
        let now = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
        let wait = |text| parse(Some(text), now);
        assert_eq!(wait("0"), Ok(Duration::ZERO));
        assert_eq!(wait("120"), Ok(Duration::from_secs(120)));
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:49:40 GMT"),
            Ok(Duration::from_secs(3))
        );
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Ok(Duration::ZERO));
        for text in [
            "",
            "-1",
            "1.5",
            "soon",
            "99999999999999999999",
            "2026-11-22 00:45:00 +0000 UTC m=+5",
        ] {
            assert_eq!(wait(text), Err(RetryAfterError::Invalid(text.into())));
        }
        for text in ["999999", "Sat, 06 Nov 2094 08:49:37 GMT"] {
            assert_eq!(wait(text), Err(RetryAfterError::TooLong(text.into())));
        }
        assert_eq!(parse(None, now), Err(RetryAfterError::Missing));
        assert_eq!(
            wait("soon").unwrap_err().to_string(),
            "Retry-After: soon is neither a number of seconds nor an HTTP date"
        );
    }
}
