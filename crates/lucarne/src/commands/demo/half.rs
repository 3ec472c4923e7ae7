//! Half years, the usual length of a shard's window.

use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};

/// January to June, or July to December, of one year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    year: i16,
    second: bool,
}

impl Half {
    /// Returns the current half year, in UTC.
    pub(super) fn current() -> Self {
        Half::of(Timestamp::now().to_zoned(TimeZone::UTC).date())
    }

    fn of(date: Date) -> Self {
        Half {
            year: date.year(),
            second: date.month() > 6,
        }
    }

    /// Formats the half year as `2026h1`.
    pub(super) fn name(self) -> String {
        format!("{}h{}", self.year, if self.second { 2 } else { 1 })
    }

    /// Returns the start of this and of the next half year, in RFC 3339.
    pub(super) fn window(self) -> (String, String) {
        let (year, next) = (self.year, self.year + 1);
        if self.second {
            (
                format!("{year}-07-01T00:00:00Z"),
                format!("{next}-01-01T00:00:00Z"),
            )
        } else {
            (
                format!("{year}-01-01T00:00:00Z"),
                format!("{year}-07-01T00:00:00Z"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        let half = |month, day| Half::of(Date::new(2026, month, day).unwrap());
        assert_eq!(half(6, 30).name(), "2026h1");
        assert_eq!(half(7, 1).name(), "2026h2");
        assert_eq!(half(1, 1).window().1, half(12, 31).window().0);
        assert_eq!(half(12, 31).window().1, "2027-01-01T00:00:00Z");
    }
}
