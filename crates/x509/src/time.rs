//! UTCTime and GeneralizedTime (RFC 5280, section 4.1.2.5): a tolerant and a strict parser, a
//! writer, and formatting. The calendar is jiff's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, date};

use crate::der::{Der, Tlv, tag};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const DAY: i64 = 86_400;
/// Number of seconds in 400 years, after which the calendar repeats itself.
const ERA: i64 = 146_097 * DAY;

/// The forms of a written time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeForm {
    /// The form that RFC 5280, section 4.1.2.5 requires: UTCTime until 2049, then GeneralizedTime.
    #[default]
    Proper,
    /// Always GeneralizedTime, even before 2050.
    Generalized,
}

/// A time in a certificate's validity: whole seconds, UTC.
///
/// # Examples
///
/// ```
/// use lucarne_x509::{Der, Time};
///
/// let time = Time::from_unix(1_767_225_600);
/// let der = Der::build(|der| time.write(der));
/// assert_eq!(der, b"\x17\x0d260101000000Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    seconds: i64,
    form: TimeForm,
}

/// Returns the system time in Unix milliseconds; zero before 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Time {
    /// Creates a time from seconds since 1970-01-01T00:00:00Z. Years 0 to 9999 can be written.
    pub const fn from_unix(seconds: i64) -> Self {
        Time {
            seconds,
            form: TimeForm::Proper,
        }
    }

    /// Returns the current time in whole seconds.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Returns the same time in another form.
    pub const fn with_form(self, form: TimeForm) -> Self {
        Time { form, ..self }
    }

    /// Returns the seconds since 1970-01-01T00:00:00Z.
    pub const fn unix(self) -> i64 {
        self.seconds
    }

    /// Returns the time `days` later (or earlier, if negative).
    pub const fn plus_days(self, days: i64) -> Self {
        Time {
            seconds: self.seconds + days * DAY,
            ..self
        }
    }

    /// Parses UTCTime and GeneralizedTime strictly by RFC 5280, section 4.1.2.5: whole seconds,
    /// UTC. Returns `None` for other forms.
    pub fn read(element: Tlv<'_>) -> Option<Self> {
        let time = Time::from_unix(seconds(element.tag, element.value)?);
        let form = match element.tag {
            tag::GENERALIZED_TIME => TimeForm::Generalized,
            _ => TimeForm::Proper,
        };
        // A form that only the tolerant parser accepts is written differently.
        let (tag, text) = time.with_form(form).written();
        (tag == element.tag && text.as_bytes() == element.value).then_some(time)
    }

    /// Writes the time in its form.
    pub fn write(self, der: &mut Der) {
        let (tag, text) = self.written();
        der.put(tag, text.as_bytes());
    }

    fn written(self) -> (u8, String) {
        let (year, moment) = civil(self.seconds);
        let rest = moment.strftime("%m%d%H%M%SZ");
        if self.form == TimeForm::Proper && (1950..2050).contains(&year) {
            (tag::UTC_TIME, format!("{:02}{rest}", year % 100))
        } else {
            (tag::GENERALIZED_TIME, format!("{year:04}{rest}"))
        }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let whole = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
        Time::from_unix(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => whole(after),
            Err(before) => -whole(before.duration()),
        })
    }
}

/// Parses a time tolerantly. Returns milliseconds since 1970, or `None` for invalid times. The
/// forms are `YYMMDDHHMM[SS]` and `YYYYMMDDHHMM[SS]` with `Z` or an offset `±HHMM`, as X.509
/// permits and old certificates use.
pub fn milliseconds(time: Tlv<'_>) -> Option<i64> {
    seconds(time.tag, time.value).map(|seconds| seconds * 1000)
}

fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let mut text = Digits(text);
    let year = match tag {
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
    let valid = (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    let offset = text.offset_minutes()?;
    // An invalid day of a month counts as a day of the next month.
    let month = Date::new(year.try_into().ok()?, month.try_into().ok()?, 1).ok()?;
    let month = month.duration_since(EPOCH.date()).as_secs();
    let minutes = hour * 60 + minute - offset;
    valid.then_some(month + (day - 1) * DAY + minutes * 60 + second)
}

/// Parses an RFC 3339 time in UTC, as in log lists (`2026-07-01T00:00:00Z`, with or without a
/// fraction). Returns milliseconds since 1970, or `None` if the text is invalid or the time is
/// before 1970.
pub fn rfc3339(text: &str) -> Option<u64> {
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
    let whole = seconds(tag::GENERALIZED_TIME, (digits + "Z").as_bytes())? * 1000;
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

    /// Parses the offset after the digits: `Z` or `±HHMM`.
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

/// Returns the year and the calendar time of a second since 1970. The year of the calendar time is
/// moved into the 400 years from 1970, after which the calendar repeats itself: every second is
/// then in jiff's range.
fn civil(seconds: i64) -> (i64, DateTime) {
    let moment = EPOCH + SignedDuration::from_secs(seconds.rem_euclid(ERA));
    let year = i64::from(moment.year()) + 400 * seconds.div_euclid(ERA);
    (year, moment)
}

/// Formats a time as `2026-07-01T00:00:00Z`, for messages.
pub fn display(milliseconds: i64) -> String {
    let (year, moment) = civil(milliseconds.div_euclid(1000));
    format!("{year:04}{}", moment.strftime("-%m-%dT%H:%M:%SZ"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::Reader;

    fn element<T>(tag: u8, text: &str, read: impl Fn(Tlv<'_>) -> T) -> T {
        let der = Der::build(|der| der.put(tag, text.as_bytes()));
        read(Reader::new(&der).any("time").unwrap())
    }

    fn lax(tag: u8, text: &str) -> Option<i64> {
        element(tag, text, milliseconds)
    }

    fn strict(tag: u8, text: &str) -> Option<Time> {
        element(tag, text, Time::read)
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
            assert_eq!(display(lax(tag, text).unwrap()), shown, "{text}");
        }
    }

    #[test]
    fn what_no_calendar_has() {
        for (tag, text, shown) in [
            (tag::UTC_TIME, "240230000000Z", "2024-03-01T00:00:00Z"),
            (tag::UTC_TIME, "250231000000Z", "2025-03-03T00:00:00Z"),
            (tag::UTC_TIME, "491231235960Z", "2050-01-01T00:00:00Z"),
            (
                tag::GENERALIZED_TIME,
                "00000101000000Z",
                "0000-01-01T00:00:00Z",
            ),
            (
                tag::GENERALIZED_TIME,
                "00000101000000+0001",
                "-001-12-31T23:59:00Z",
            ),
            (
                tag::GENERALIZED_TIME,
                "99991231235960Z",
                "10000-01-01T00:00:00Z",
            ),
        ] {
            assert_eq!(display(lax(tag, text).unwrap()), shown, "{text}");
        }
        assert_eq!(display(i64::MAX), "292278994-08-17T07:12:55Z");
        assert_eq!(display(i64::MIN), "-292275055-05-16T16:47:04Z");
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
            assert_eq!(lax(tag::UTC_TIME, text), None, "{text}");
        }
        assert_eq!(lax(tag::INTEGER, "700101000000Z"), None);
        assert_eq!(lax(tag::UTC_TIME, "700101000000Zx"), None);
    }

    fn text(time: Time) -> (u8, String) {
        let bytes = Der::build(|der| time.write(der));
        (bytes[0], String::from_utf8(bytes[2..].to_vec()).unwrap())
    }

    #[test]
    fn times_are_written_as_rfc_5280_says() {
        for (seconds, tag, expected) in [
            (0, tag::UTC_TIME, "700101000000Z"),
            (951_782_400, tag::UTC_TIME, "000229000000Z"),
            (1_788_269_845, tag::UTC_TIME, "260901133725Z"),
            (2_524_607_999, tag::UTC_TIME, "491231235959Z"),
            (2_524_608_000, tag::GENERALIZED_TIME, "20500101000000Z"),
            (-631_152_001, tag::GENERALIZED_TIME, "19491231235959Z"),
            (253_402_300_799, tag::GENERALIZED_TIME, "99991231235959Z"),
        ] {
            assert_eq!(text(Time::from_unix(seconds)), (tag, expected.to_owned()));
            assert_eq!(strict(tag, expected), Some(Time::from_unix(seconds)));
        }
        let odd = Time::from_unix(0).with_form(TimeForm::Generalized);
        assert_eq!(
            text(odd),
            (tag::GENERALIZED_TIME, "19700101000000Z".to_owned())
        );
    }

    #[test]
    fn what_is_no_time_is_not_read() {
        for (tag, wrong) in [
            (tag::UTC_TIME, ""),
            (tag::UTC_TIME, "260901133725"),
            (tag::UTC_TIME, "2609011337Z"),
            (tag::UTC_TIME, "260901133725+0100"),
            (tag::UTC_TIME, "260230000000Z"),
            (tag::UTC_TIME, "261301000000Z"),
            (tag::UTC_TIME, "260001000000Z"),
            (tag::UTC_TIME, "260901240000Z"),
            (tag::UTC_TIME, "260901235960Z"),
            (tag::UTC_TIME, "491231235960Z"),
            (tag::UTC_TIME, "26-901133725Z"),
            (tag::GENERALIZED_TIME, "20260901133725.5Z"),
            (tag::OCTET_STRING, "260901133725Z"),
        ] {
            assert_eq!(strict(tag, wrong), None, "{wrong}");
        }
    }
}
