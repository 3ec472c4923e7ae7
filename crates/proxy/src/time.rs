//! Moments, for people.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// `2026-07-01 12:00:00 UTC`; milliseconds since 1970.
pub(crate) fn time(ms: impl TryInto<i64>) -> String {
    show(ms, "%F %T UTC")
}

/// `2026-07-01`; milliseconds since 1970.
pub(crate) fn day(ms: impl TryInto<i64>) -> String {
    show(ms, "%F")
}

/// Through the last second of 9999, which certificates without an end have (RFC 5280 section
/// 4.1.2.5) and time stamps do not reach.
fn show(ms: impl TryInto<i64>, format: &str) -> String {
    const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
    let since = ms.try_into().ok().map(SignedDuration::from_millis);
    let moment = since.and_then(|since| EPOCH.checked_add(since).ok());
    moment.map_or_else(
        || "not readable".to_owned(),
        |moment| moment.strftime(format).to_string(),
    )
}
