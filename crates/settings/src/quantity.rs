//! Quantities with a unit: durations and sizes.

use std::time::Duration;

use crate::form::{Form, Parsed, Shape};
use crate::values::{self, ValueError};

/// Meaning of a number without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Numbers are refused.
    Refused,
    /// Numbers count units of this many bytes or milliseconds. A warning names the present form.
    Former(u64),
    /// Numbers count units of this many bytes or milliseconds.
    Accepted(u64),
}

impl Numbers {
    /// Returns the bytes or milliseconds of a number without a unit.
    fn value_of(self, text: &str) -> Option<u64> {
        let (Numbers::Former(unit) | Numbers::Accepted(unit)) = self else {
            return None;
        };
        text.parse::<u64>().ok()?.checked_mul(unit)
    }

    /// Returns the bytes or milliseconds of a number that needs a unit in the next version. Zero
    /// needs no unit.
    fn former_value_of(self, text: &str) -> Option<u64> {
        match self {
            Numbers::Former(_) => self.value_of(text).filter(|value| *value > 0),
            Numbers::Refused | Numbers::Accepted(_) => None,
        }
    }
}

/// Durations in a range, such as `300ms`, `75s` or `1m30s`.
#[derive(Clone, Copy, Debug)]
pub struct Durations {
    /// Minimum.
    pub least: Duration,
    /// Maximum.
    pub most: Duration,
    numbers: Numbers,
}

impl Durations {
    /// Creates the form of durations in a range.
    pub const fn within(least: Duration, most: Duration) -> Self {
        Durations {
            least,
            most,
            numbers: Numbers::Refused,
        }
    }

    /// Also accepts numbers without a unit: a number counts units of this many milliseconds.
    pub const fn numbers(mut self, unit: u64) -> Self {
        self.numbers = Numbers::Accepted(unit);
        self
    }

    /// Also accepts numbers without a unit, with a warning: a number counts units of this many
    /// milliseconds.
    pub const fn former_numbers(mut self, unit: u64) -> Self {
        self.numbers = Numbers::Former(unit);
        self
    }

    /// Parses a duration, and refuses a number without a unit.
    ///
    /// # Errors
    /// If the text is not a duration, or if it is out of range.
    pub fn parse_duration(&self, text: &str) -> Result<Duration, ValueError> {
        self.checked(values::duration(text)?)
    }

    fn checked(&self, duration: Duration) -> Result<Duration, ValueError> {
        if (self.least..=self.most).contains(&duration) {
            Ok(duration)
        } else if duration.is_zero() && self.most == Duration::MAX {
            Err(ValueError::NoTime)
        } else {
            Err(ValueError::NotBetween(self.least..=self.most))
        }
    }
}

impl Form for Durations {
    fn shape(&self) -> Shape {
        Shape::Duration(self.numbers)
    }

    fn with_unit(&self, text: &str) -> Option<String> {
        self.parse(text).ok().map(values::show_duration)
    }
}

impl Parsed for Durations {
    type Value = Duration;

    fn parse(&self, text: &str) -> Result<Duration, ValueError> {
        match self.numbers.value_of(text) {
            Some(ms) => {
                let duration = Duration::from_millis(ms);
                self.checked(duration).map_err(|why| match why {
                    ValueError::NotBetween(range)
                        if matches!(self.numbers, Numbers::Accepted(_)) =>
                    {
                        ValueError::NumberNotBetween(duration, range)
                    }
                    why => why,
                })
            }
            None => self.parse_duration(text),
        }
    }

    /// Formats a value with one unit, as in the documentation: `28h`, `75s`, `200ms`.
    fn show(&self, value: &Duration) -> String {
        let is_hours = value.as_nanos().is_multiple_of(3_600_000_000_000);
        match value.as_secs() {
            0 => values::show_duration(*value),
            seconds if is_hours => format!("{}h", seconds / 3600),
            _ => format!("{}s", value.as_secs_f64()),
        }
    }

    fn renewed(&self, text: &str) -> Option<String> {
        self.numbers.former_value_of(text)?;
        self.with_unit(text)
    }
}

/// Sizes in bytes in a range, such as `512KiB` or `1GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Minimum, in bytes.
    pub least: u64,
    /// Maximum, in bytes.
    pub most: u64,
    numbers: Numbers,
}

impl Sizes {
    /// Creates the form of sizes in a range, in bytes.
    pub const fn within(least: u64, most: u64) -> Self {
        Sizes {
            least,
            most,
            numbers: Numbers::Refused,
        }
    }

    /// Also accepts numbers without a unit, with a warning: a number counts units of this many
    /// bytes.
    pub const fn former_numbers(mut self, unit: u64) -> Self {
        self.numbers = Numbers::Former(unit);
        self
    }
}

impl Form for Sizes {
    fn shape(&self) -> Shape {
        Shape::Size(self.numbers)
    }

    fn with_unit(&self, text: &str) -> Option<String> {
        self.parse(text).ok().map(values::show_size)
    }
}

impl Parsed for Sizes {
    type Value = u64;

    fn parse(&self, text: &str) -> Result<u64, ValueError> {
        let is_number = text != "0" && text.bytes().all(|c| c.is_ascii_digit());
        let bytes = match self.numbers.value_of(text) {
            Some(bytes) => bytes,
            None if is_number && !text.is_empty() => return Err(ValueError::NoUnit(text.into())),
            None => values::size(text)?,
        };
        if bytes < self.least {
            Err(ValueError::TooSmall(values::show_size(self.least)))
        } else if bytes > self.most {
            Err(ValueError::TooLarge(values::show_size(self.most)))
        } else {
            Ok(bytes)
        }
    }

    fn show(&self, value: &u64) -> String {
        values::show_size(*value)
    }

    fn renewed(&self, text: &str) -> Option<String> {
        self.numbers.former_value_of(text)?;
        self.with_unit(text)
    }
}
