//! The forms of single values: numbers, dates, durations.
//!
//! Each parser says what it wants in words that follow the value:
//! "`soon` is not a whole number of milliseconds".

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// `true` or `false`.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        _ => Err("is neither true nor false".into()),
    }
}

/// A whole number from `least` to `most`.
pub fn number(least: u64, most: u64, unit: &str) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        let value: u64 = text
            .parse()
            .map_err(|_| format!("is not a whole number of {unit}"))?;
        if value < least {
            return Err(format!("is too small: at least {least} {unit}"));
        }
        if value > most {
            return Err(format!("is too large: at most {most} {unit}"));
        }
        Ok(value)
    }
}

/// A number that may have a fraction, from `least` to `most`.
pub fn decimal(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> {
    move |text| match text.parse::<f64>() {
        Ok(value) if value < least => Err(format!("is too small: at least {least}")),
        Ok(value) if value > most => Err(format!("is too large: at most {most}")),
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("is not a number".into()),
    }
}

/// Whole milliseconds, from `least` to `most`.
pub fn milliseconds(least: u64, most: u64) -> impl Fn(&str) -> Result<Duration, String> {
    let number = number(least, most, "milliseconds");
    move |text| number(text).map(Duration::from_millis)
}

/// A date such as `2026-01-31`.
pub fn date(text: &str) -> Result<Date, String> {
    if text.len() == 10
        && let Ok(date) = text.parse()
    {
        return Ok(date);
    }
    Err("is not a date such as 2026-01-31".into())
}

/// An RFC 3339 time such as `2026-01-01T00:00:00Z`, or a date, which is its
/// midnight in UTC. In Unix milliseconds.
pub fn time(text: &str) -> Result<u64, String> {
    let wrong = "is not a time such as 2026-01-01T00:00:00Z";
    let timestamp = match date(text) {
        Ok(date) => date
            .to_zoned(TimeZone::UTC)
            .map(|zoned| zoned.timestamp())
            .map_err(|_| wrong.to_owned())?,
        Err(_) => text.parse::<Timestamp>().map_err(|_| wrong.to_owned())?,
    };
    u64::try_from(timestamp.as_millisecond()).map_err(|_| "is before 1970".into())
}

/// Unix milliseconds as RFC 3339.
pub fn rfc3339(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| format!("{ms} ms"), |timestamp| timestamp.to_string())
}

/// A length of time such as `60s`, `1m30s`, `500ms` or `0`; the units are `h`,
/// `m`, `s`, `ms`, `us` (or `µs`) and `ns`, each may have a fraction (`1.5s`).
///
/// # Errors
/// In words that follow the value.
pub fn duration(text: &str) -> Result<Duration, String> {
    const WRONG: &str = "is not a duration such as 60s, 5m, 1m30s or 500ms";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.parse::<f64>().is_ok() {
        return Err(format!("has no unit: write {text}s or {text}ms"));
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(digits.ok_or(WRONG)?);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let number: f64 = number.parse().map_err(|_| WRONG)?;
        let unit = unit_seconds(unit).ok_or_else(|| {
            format!("has the unit `{unit}`, which is none of h, m, s, ms, us and ns")
        })?;
        seconds += number * unit;
        rest = after;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !text.is_empty() => Ok(duration),
        _ => Err(WRONG.into()),
    }
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

/// A duration as [`duration`] reads it, as short as it goes: `1m30s`, `500ms`.
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (whole, below) = (duration.as_secs(), duration.subsec_nanos());
    match (whole, below) {
        (0, 0) => "0".into(),
        (0, _) if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        (0, _) if nanos.is_multiple_of(1000) => format!("{}us", nanos / 1000),
        (0, _) => format!("{nanos}ns"),
        (_, 1..) => format!("{}s", duration.as_secs_f64()),
        _ => [
            ("h", whole / 3600),
            ("m", whole / 60 % 60),
            ("s", whole % 60),
        ]
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(unit, number)| format!("{number}{unit}"))
        .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_midnight_in_utc() {
        assert_eq!(time("2026-01-01"), time("2026-01-01T00:00:00Z"));
        assert_eq!(time("2026-01-01T01:00:00+01:00"), Ok(1_767_225_600_000));
        assert!(time("2026-13-01").is_err());
        assert!(time("1969-01-01").is_err());
    }

    #[test]
    fn durations_as_k6_and_go_write_them() {
        let ms = |text: &str| duration(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("60s", 60_000),
            ("5m", 300_000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("500ms", 500),
            ("1.5s", 1500),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(ms(text), Ok(expected), "{text}");
            let shown = show_duration(duration(text).unwrap());
            assert_eq!(ms(&shown), Ok(expected), "{text} as {shown}");
        }
        assert_eq!(show_duration(Duration::from_secs(90)), "1m30s");
        for wrong in [
            "", "s", "5", "5 s", "5sec", "-5s", "1..5s", "5m3", "∞", "9e9h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            duration("60").unwrap_err(),
            "has no unit: write 60s or 60ms"
        );
    }
}
