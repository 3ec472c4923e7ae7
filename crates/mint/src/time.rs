use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::der::{Der, Element, tag};

/// The forms in which a time is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeForm {
    /// As RFC 5280 4.1.2.5 demands: UTCTime until 2049, then GeneralizedTime.
    #[default]
    Proper,
    /// Always GeneralizedTime, also before 2050.
    Generalized,
}

/// A moment in a certificate's validity: whole seconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    seconds: i64,
    form: TimeForm,
}

/// The system's clock, in Unix milliseconds; zero before 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Time {
    /// Seconds since 1970-01-01T00:00:00Z. Years 0 to 9999 can be written.
    pub const fn from_unix(seconds: i64) -> Self {
        Time {
            seconds,
            form: TimeForm::Proper,
        }
    }

    /// The present, to the second.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// The same moment in another form.
    pub const fn with_form(self, form: TimeForm) -> Self {
        Time { form, ..self }
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub const fn unix(self) -> i64 {
        self.seconds
    }

    /// This moment so many days later (or earlier).
    pub const fn plus_days(self, days: i64) -> Self {
        Time {
            seconds: self.seconds + days * 86_400,
            ..self
        }
    }

    /// Reads UTCTime and GeneralizedTime as RFC 5280 4.1.2.5 has them: whole
    /// seconds, UTC. `None` for anything else.
    pub fn read(element: Element<'_>) -> Option<Self> {
        let (century, rest) = match element.tag {
            tag::UTC_TIME => (None, element.content),
            tag::GENERALIZED_TIME => {
                let (century, rest) = element.content.split_at_checked(2)?;
                (Some(digits(century)?), rest)
            }
            _ => return None,
        };
        let (numbers, end) = rest.split_at_checked(12)?;
        if end != b"Z" {
            return None;
        }
        let mut pairs = [0; 6];
        for (pair, text) in pairs.iter_mut().zip(numbers.chunks(2)) {
            *pair = digits(text)?;
        }
        let [of_century, month, day, hour, minute, second] = pairs;
        let century = century.unwrap_or(if of_century < 50 { 20 } else { 19 });
        let days = days(century * 100 + of_century, month, day)?;
        let in_day = hour < 24 && minute < 60 && second < 60;
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
        in_day.then(|| Time::from_unix(seconds))
    }

    pub(crate) fn write(self, der: &mut Der) {
        let (year, month, day) = civil(self.seconds.div_euclid(86_400));
        let of_day = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
        if self.form == TimeForm::Proper && (1950..2050).contains(&year) {
            let text = format!("{:02}{rest}", year % 100);
            der.put(tag::UTC_TIME, text.as_bytes());
        } else {
            der.put(tag::GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes());
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

/// Two decimal digits.
fn digits(text: &[u8]) -> Option<i64> {
    match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        }
        _ => None,
    }
}

/// The inverse of [`civil`]: `None` where there is no such day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let years = year - i64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let days = 365 * years + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + day_of_year
        - 719_468;
    (civil(days) == (year, month, day)).then_some(days)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian
/// calendar. Years are counted from March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097; // days in 400 years
    let since_march_0000 = days + 719_468;
    let era = since_march_0000.div_euclid(ERA);
    let day_of_era = since_march_0000.rem_euclid(ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(read(tag, expected), Some(Time::from_unix(seconds)));
        }
        let odd = Time::from_unix(0).with_form(TimeForm::Generalized);
        assert_eq!(
            text(odd),
            (tag::GENERALIZED_TIME, "19700101000000Z".to_owned())
        );
    }

    fn read(tag: u8, text: &str) -> Option<Time> {
        let written = Der::build(|der| der.put(tag, text.as_bytes()));
        Time::read(crate::der::read(&mut &written[..])?)
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
            (tag::UTC_TIME, "26-901133725Z"),
            (tag::GENERALIZED_TIME, "20260901133725.5Z"),
            (tag::OCTET_STRING, "260901133725Z"),
        ] {
            assert_eq!(read(tag, wrong), None, "{wrong}");
        }
    }
}
