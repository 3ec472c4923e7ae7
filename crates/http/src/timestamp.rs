//! Times in responses.

use jiff::Timestamp;

/// Formats milliseconds since 1970 as `2026-01-01T00:00:00Z`.
pub(crate) fn rfc3339(ms: u64) -> String {
    match i64::try_from(ms).map(Timestamp::from_millisecond) {
        Ok(Ok(timestamp)) => timestamp.to_string(),
        _ => format!("{ms} ms after 1970"),
    }
}
