//! UTCTime and GeneralizedTime (RFC 5280 section 4.1.2.5), and how to show them.

use crate::der::{Reader, Tlv, tag};

/// The time in milliseconds since 1970: `YYMMDDHHMM[SS]` or `YYYYMMDDHHMM[SS]` with `Z` or an
/// offset `±HHMM`, as X.509 allows and old certificates have it.
pub(crate) fn milliseconds(time: Tlv<'_>) -> Option<i64> {
    let mut text = Digits(time.value);
    let year = match time.tag {
        tag::UTC_TIME => match text.number(2)? {
            year @ 0..50 => 2000 + year,
            year => 1900 + year,
        },
        tag::GENERALIZED_TIME => text.number(4)?,
        _ => return None,
    };
    let (month, day) = (text.number(2)?, text.number(2)?);
    let (hour, minute) = (text.number(2)?, text.number(2)?);
    let second = text.number(2).unwrap_or(0);
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    let offset = text.offset_minutes()?;
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset;
    valid.then_some((minutes * 60 + second) * 1000)
}

/// An RFC 3339 time in UTC, as log lists have it (`2026-07-01T00:00:00Z`, with or without a
/// fraction), in milliseconds since 1970. `None`: not such a time, or before 1970.
pub(crate) fn rfc3339(text: &str) -> Option<u64> {
    let (date, fraction) = match text.strip_suffix('Z')?.split_once('.') {
        Some((date, fraction)) => (date, fraction),
        None => (text.strip_suffix('Z')?, ""),
    };
    let separated = |i| match i {
        4 | 7 => b'-',
        10 => b'T',
        _ => b':',
    };
    let bytes = date.as_bytes();
    let is_separated = [4, 7, 10, 13, 16]
        .iter()
        .all(|&i| bytes.get(i) == Some(&separated(i)));
    let is_fraction = fraction.bytes().all(|digit| digit.is_ascii_digit());
    if bytes.len() != 19 || !is_separated || !is_fraction {
        return None;
    }
    let digits: String = date.split(['-', 'T', ':']).collect();
    let time = digits + "Z";
    let tag = tag::GENERALIZED_TIME;
    let mut der = vec![tag, u8::try_from(time.len()).ok()?];
    der.extend_from_slice(time.as_bytes());
    let whole = milliseconds(Reader::new(&der).any("time").ok()?)?;
    let thousandths: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    u64::try_from(whole).ok()?.checked_add(thousandths)
}

struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        let number = number.iter().try_fold(0, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + i64::from(digit - b'0'))
        })?;
        self.0 = rest;
        Some(number)
    }

    /// Returns what follows the digits: `Z` or `±HHMM`.
    fn offset_minutes(&mut self) -> Option<i64> {
        let (sign, rest) = self.0.split_first()?;
        self.0 = rest;
        let offset = match sign {
            b'Z' => 0,
            b'+' => self.number(2)? * 60 + self.number(2)?,
            b'-' => -(self.number(2)? * 60 + self.number(2)?),
            _ => return None,
        };
        self.0.is_empty().then_some(offset)
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in
/// March so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days_in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + days_in_year
        - 719_468
}

/// `2026-07-01T00:00:00Z`, for messages.
pub(crate) fn display(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1000);
    let (mut days, second) = (
        seconds.div_euclid(86_400) + 719_468,
        seconds.rem_euclid(86_400),
    );
    let era = days.div_euclid(146_097);
    days -= era * 146_097;
    let year_of_era = (days - days / 1_460 + days / 36_524 - days / 146_096) / 365;
    let day_of_year = days - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + carry;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u8, text: &str) -> Option<i64> {
        let mut der = vec![tag, text.len() as u8];
        der.extend_from_slice(text.as_bytes());
        milliseconds(Reader::new(&der).any("time").unwrap())
    }

    #[test]
    fn every_form() {
        for (tag, text, shown) in [
            (tag::UTC_TIME, "700101000000Z", "1970-01-01T00:00:00Z"),
            (tag::UTC_TIME, "491231235959Z", "2049-12-31T23:59:59Z"),
            (tag::UTC_TIME, "500101000000Z", "1950-01-01T00:00:00Z"),
            (tag::UTC_TIME, "2402291200Z", "2024-02-29T12:00:00Z"),
            (tag::UTC_TIME, "240301003000+0130", "2024-02-29T23:00:00Z"),
            (
                tag::GENERALIZED_TIME,
                "20000229000000Z",
                "2000-02-29T00:00:00Z",
            ),
            (
                tag::GENERALIZED_TIME,
                "99991231235959Z",
                "9999-12-31T23:59:59Z",
            ),
            (
                tag::GENERALIZED_TIME,
                "00010101000000Z",
                "0001-01-01T00:00:00Z",
            ),
        ] {
            assert_eq!(display(read(tag, text).unwrap()), shown, "{text}");
        }
    }

    #[test]
    fn times_of_log_lists() {
        for (text, time) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-07-01T00:00:00Z", Some(1_782_864_000_000)),
            ("2026-07-01T00:00:00.25Z", Some(1_782_864_000_250)),
            ("2026-07-01T00:00:00.123456Z", Some(1_782_864_000_123)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-07-01T00:00:00", None),
            ("2026-07-01 00:00:00Z", None),
            ("2026-07-01T00:00:00+00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-07-01T00:00:00.xZ", None),
            ("-026-07-01T00:00:00Z", None),
            ("2026-07-01T00:00:0éZ", None),
            ("Z", None),
            ("", None),
        ] {
            assert_eq!(rfc3339(text), time, "{text}");
        }
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "Z",
            "7001010000",
            "701301000000Z",
            "700101250000Z",
            "70010100000xZ",
        ] {
            assert_eq!(read(tag::UTC_TIME, text), None, "{text}");
        }
        assert_eq!(read(tag::INTEGER, "700101000000Z"), None);
        assert_eq!(read(tag::UTC_TIME, "700101000000Zx"), None);
    }
}
