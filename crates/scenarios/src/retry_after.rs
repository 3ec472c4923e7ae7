//! Retry-After (RFC 9110, section 10.2.3).

use std::time::Duration;

use jiff::Timestamp;

/// Longest plausible wait.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Parses the wait that a response with status 429 or 503 requests.
///
/// # Errors
/// Returns a description if the header is missing, or is neither a number of seconds nor an HTTP
/// date within a day.
pub(crate) fn retry_after(header: Option<&str>, now_ms: u64) -> Result<Duration, String> {
    let text = header.ok_or("the response has no Retry-After")?;
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse().ok().map(Duration::from_secs)
    } else {
        date(text).map(|date| Duration::from_millis(date.saturating_sub(now_ms)))
    };
    match wait {
        Some(wait) if wait <= LONGEST => Ok(wait),
        Some(_) => Err(format!("Retry-After: {text} is more than a day away")),
        None => Err(format!(
            "Retry-After: {text} is neither a number of seconds nor an HTTP date"
        )),
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
        let wait = |text| retry_after(Some(text), now);
        assert_eq!(wait("0"), Ok(Duration::ZERO));
        assert_eq!(wait("120"), Ok(Duration::from_secs(120)));
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:49:40 GMT"),
            Ok(Duration::from_secs(3))
        );
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Ok(Duration::ZERO));
        for nonsense in [
            "",
            "-1",
            "1.5",
            "soon",
            "999999",
            "99999999999999999999",
            "2026-11-22 00:45:00 +0000 UTC m=+5",
            "Sun, 06 Nov 2094 08:49:37 GMT",
        ] {
            assert!(wait(nonsense).is_err(), "{nonsense}");
        }
        assert!(retry_after(None, now).is_err());
    }
}
