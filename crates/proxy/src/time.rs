//! Readable times.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// Formats Unix milliseconds as `2026-07-01 12:00:00 UTC`.
pub(crate) fn time(ms: impl TryInto<i64>) -> String {
    show(ms, "%F %T UTC")
}

/// Formats Unix milliseconds as `2026-07-01`.
pub(crate) fn day(ms: impl TryInto<i64>) -> String {
    show(ms, "%F")
}

/// Formats times up to the last second of 9999, which certificates without expiry have (RFC 5280,
/// section 4.1.2.5). `jiff::Timestamp` ends earlier.
fn show(ms: impl TryInto<i64>, format: &str) -> String {
    const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
    let since = ms.try_into().ok().map(SignedDuration::from_millis);
    let moment = since.and_then(|since| EPOCH.checked_add(since).ok());
    moment.map_or_else(
        || "not readable".to_owned(),
        |moment| moment.strftime(format).to_string(),
    )
}
