//! Parsers of single values: booleans, numbers, dates, times, durations, sizes.
//!
//! The error of each parser is a phrase that follows the value: "`soon` is not a whole number of
//! milliseconds".

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The reasons why a text is not a valid value, as phrases that follow the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not a [`boolean`].
    #[error("is neither true nor false")]
    Boolean,
    /// The text is not a [`number`] of this unit.
    #[error("is not a whole number of {0}")]
    Whole(String),
    /// The text is not a [`decimal`].
    #[error("is not a number")]
    Number,
    /// The value is less than this minimum.
    #[error("is too small: at least {0}")]
    TooSmall(String),
    /// The value is greater than this maximum.
    #[error("is too large: at most {0}")]
    TooLarge(String),
    /// The text is not a [`date`].
    #[error("is not a date such as 2026-01-31")]
    Date,
    /// The text is not a [`time`].
    #[error("is not a time such as 2026-01-01T00:00:00Z")]
    Time,
    /// The [`time`] is before 1970.
    #[error("is before 1970")]
    Before1970,
    /// The text is not a [`duration`].
    #[error("is not a duration such as 60s, 5m, 1m30s or 500ms")]
    Duration,
    /// The [`duration`] is only this number, without a unit.
    #[error("has no unit: write {0}s or {0}ms")]
    NoUnit(String),
    /// The unit of the [`duration`] is unknown.
    #[error("has the unit `{0}`; expected h, m, s, ms, us or ns")]
    Unit(String),
    /// The [`duration`] is zero, but a [`length`] is required.
    #[error("must be greater than zero")]
    NoTime,
    /// The [`duration`] is out of this range.
    #[error("is not between {} and {}", show_duration(*.0.start()), show_duration(*.0.end()))]
    NotBetween(RangeInclusive<Duration>),
    /// The number means this duration, which is out of this range.
    #[error(
        "without a unit means {}, which is not between {} and {}",
        show_duration(*.0),
        show_duration(*.1.start()),
        show_duration(*.1.end())
    )]
    NumberNotBetween(Duration, RangeInclusive<Duration>),
    /// The text is not a [`size`].
    #[error("is not a size such as 4KiB, 1MB or 500")]
    Size,
    /// The text is not of this kind, with an example.
    #[error("is not {0} such as {1}")]
    NotLike(&'static str, String),
    /// The value has no unit. The field is the value as it must be written, with a unit.
    #[error("has no unit: write {0}")]
    Write(String),
    /// The text is not one of these words.
    #[error("{}", one_of(.0))]
    Word(Vec<&'static str>),
    /// The error of another parser.
    #[error("{0}")]
    Other(String),
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match &quoted[..] {
        [one, other] => format!("is neither {one} nor {other}"),
        [first @ .., last] if !first.is_empty() => {
            format!("must be {} or {last}", first.join(", "))
        }
        words => format!("must be {}", words.concat()),
    }
}

/// Parses any type with `FromStr`, whose errors are phrases that follow the text.
///
/// # Errors
///
/// The error of the type.
pub fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, T::Err> {
    text.parse()
}

/// Parses `true` or `false`.
pub fn boolean(text: &str) -> Result<bool, ValueError> {
    match text {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        _ => Err(ValueError::Boolean),
    }
}

/// Returns a parser of whole numbers from `least` to `most`.
pub fn number(least: u64, most: u64, unit: &str) -> impl Fn(&str) -> Result<u64, ValueError> {
    move |text| {
        let value: u64 = text
            .parse()
            .map_err(|_| ValueError::Whole(unit.to_owned()))?;
        if value < least {
            return Err(ValueError::TooSmall(format!("{least} {unit}")));
        }
        if value > most {
            return Err(ValueError::TooLarge(format!("{most} {unit}")));
        }
        Ok(value)
    }
}

/// Returns a parser of numbers from `least` to `most`, which may have a fraction.
pub fn decimal(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, ValueError> {
    move |text| match text.parse::<f64>() {
        Ok(value) if value < least => Err(ValueError::TooSmall(least.to_string())),
        Ok(value) if value > most => Err(ValueError::TooLarge(most.to_string())),
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(ValueError::Number),
    }
}

/// Parses a date such as `2026-01-31`.
pub fn date(text: &str) -> Result<Date, ValueError> {
    if text.len() == 10
        && let Ok(date) = text.parse()
    {
        return Ok(date);
    }
    Err(ValueError::Date)
}

/// Parses an RFC 3339 time such as `2026-01-01T00:00:00Z`, or a date, which means midnight UTC.
/// Returns Unix milliseconds.
pub fn time(text: &str) -> Result<u64, ValueError> {
    let timestamp = match date(text) {
        Ok(date) => date
            .to_zoned(TimeZone::UTC)
            .map(|zoned| zoned.timestamp())
            .map_err(|_| ValueError::Time)?,
        Err(_) => text.parse::<Timestamp>().map_err(|_| ValueError::Time)?,
    };
    u64::try_from(timestamp.as_millisecond()).map_err(|_| ValueError::Before1970)
}

/// Formats Unix milliseconds as RFC 3339.
pub fn rfc3339(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| format!("{ms} ms"), |timestamp| timestamp.to_string())
}

/// Parses a duration such as `60s`, `1m30s`, `500ms` or `0`. The units are `h`, `m`, `s`, `ms`,
/// `us` (or `µs`) and `ns`; each number may have a fraction (`1.5s`).
///
/// # Errors
/// If the text is not a duration.
pub fn duration(text: &str) -> Result<Duration, ValueError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.parse::<f64>().is_ok() {
        return Err(ValueError::NoUnit(text.to_owned()));
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(digits.ok_or(ValueError::Duration)?);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let number: f64 = number.parse().map_err(|_| ValueError::Duration)?;
        let unit = unit_seconds(unit).ok_or_else(|| ValueError::Unit(unit.to_owned()))?;
        seconds += number * unit;
        rest = after;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !text.is_empty() => Ok(duration),
        _ => Err(ValueError::Duration),
    }
}

/// Parses a duration greater than zero.
///
/// # Errors
/// If the text is not a duration, or if it is zero.
pub fn length(text: &str) -> Result<Duration, ValueError> {
    match duration(text)? {
        Duration::ZERO => Err(ValueError::NoTime),
        duration => Ok(duration),
    }
}

/// Returns the seconds of a unit of time; `None` if the unit is unknown.
pub fn unit_seconds(unit: &str) -> Option<f64> {
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

/// Formats a duration for [`duration`] as shortly as possible: `1m30s`, `500ms`.
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

/// Units of sizes, in bytes. Each unit is before its divisors.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

/// Parses a size such as `4KiB`, `1MB` or `500`. Returns bytes.
///
/// # Errors
/// If the text is not a size.
pub fn size(text: &str) -> Result<u64, ValueError> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match text[digits.len()..].trim() {
        "" => Some(1),
        unit => UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, factor)| *factor),
    };
    let number = digits.parse::<u64>().ok().zip(factor);
    number
        .and_then(|(number, factor)| number.checked_mul(factor))
        .ok_or(ValueError::Size)
}

/// Formats a size for [`size`] with the largest unit that needs no fraction: `512KiB`, `1GiB`.
pub fn show_size(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*factor);
    let (unit, factor) = UNITS.iter().find(whole).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
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
            duration("60").unwrap_err().to_string(),
            "has no unit: write 60s or 60ms"
        );
    }

    #[test]
    fn sizes_are_shown_with_the_largest_unit() {
        for (text, bytes, shown) in [
            ("512KiB", 524_288, "512KiB"),
            ("1024", 1024, "1KiB"),
            ("100000", 100_000, "100kB"),
            ("1tib", 1 << 40, "1TiB"),
            ("7B", 7, "7B"),
            ("0", 0, "0B"),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
            assert_eq!(show_size(bytes), shown);
        }
        for wrong in ["", "MiB", "1.5MiB", "-1", "5 apples", "20000000TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
