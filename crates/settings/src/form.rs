//! Forms of values: the type of a key's values, with its bounds.

use std::fmt::Debug;
use std::time::Duration;

use jiff::civil;

use crate::table::Table;
use crate::values::{self, ValueError};

/// Form of a key's values.
pub trait Form: Copy + Send + Sync + 'static {
    /// Returns the shape of the values, for documentation and editors.
    fn shape(&self) -> Shape;

    /// Returns the valid words of [`Shape::Word`].
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns a valid duration or size in its shortest spelling with a unit.
    fn with_unit(&self, _text: &str) -> Option<String> {
        None
    }
}

/// Form whose values are parsed without other settings.
pub trait Parsed: Form {
    /// Type of a parsed value.
    type Value;

    /// Parses a value.
    ///
    /// # Errors
    /// If the text does not have this form.
    fn parse(&self, text: &str) -> Result<Self::Value, ValueError>;

    /// Returns the present form of a valid value in a former form, which the next version refuses.
    fn renewed(&self, _text: &str) -> Option<String> {
        None
    }
}

/// Shape of values. [`Shape`] is also the form of values that other code parses.
#[derive(Clone, Copy)]
pub enum Shape {
    /// Any text.
    Text,
    /// Place of a secret, or a text that may contain a password.
    Secret,
    /// `true` or `false`.
    Boolean,
    /// Whole number in this range.
    Number(u64, u64),
    /// Duration, or a number without a unit.
    Duration(Numbers),
    /// Size, or a number without a unit.
    Size(Numbers),
    /// A date such as `2026-01-31`.
    Date,
    /// Time of RFC 3339, or a date.
    Time,
    /// Word from the list of the key.
    Word,
    /// Only this word.
    Exactly(&'static str),
    /// List of values, or a single value.
    List(&'static Shape),
    /// Map with the keys of a table.
    Map(&'static Table),
    /// Any of these shapes.
    Either(&'static [Shape]),
}

impl Shape {
    /// Returns the keys of a map, or of the maps in a list.
    pub fn table(self) -> Option<&'static Table> {
        match self {
            Shape::Map(table) => Some(table),
            Shape::List(inside) => inside.table(),
            Shape::Either(shapes) => shapes.iter().find_map(|shape| shape.table()),
            _ => None,
        }
    }
}

impl Form for Shape {
    fn shape(&self) -> Shape {
        *self
    }
}

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

/// `true` or `false`.
#[derive(Clone, Copy, Debug)]
pub struct Boolean;

impl Form for Boolean {
    fn shape(&self) -> Shape {
        Shape::Boolean
    }
}

impl Parsed for Boolean {
    type Value = bool;

    fn parse(&self, text: &str) -> Result<bool, ValueError> {
        values::boolean(text)
    }
}

/// A date such as `2026-01-31`.
#[derive(Clone, Copy, Debug)]
pub struct Date;

impl Form for Date {
    fn shape(&self) -> Shape {
        Shape::Date
    }
}

impl Parsed for Date {
    type Value = civil::Date;

    fn parse(&self, text: &str) -> Result<civil::Date, ValueError> {
        values::date(text)
    }
}

/// A time in Unix milliseconds, written as in RFC 3339 or as a date.
#[derive(Clone, Copy, Debug)]
pub struct Time;

impl Form for Time {
    fn shape(&self) -> Shape {
        Shape::Time
    }
}

impl Parsed for Time {
    type Value = u64;

    fn parse(&self, text: &str) -> Result<u64, ValueError> {
        values::time(text)
    }
}

/// Whole numbers in a range.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
    /// Unit for messages.
    pub unit: &'static str,
}

impl Count {
    /// Creates the form of numbers of this unit in a range.
    pub const fn within(least: u64, most: u64, unit: &'static str) -> Self {
        Count { least, most, unit }
    }
}

impl Form for Count {
    fn shape(&self) -> Shape {
        Shape::Number(self.least, self.most)
    }
}

impl Parsed for Count {
    type Value = u64;

    fn parse(&self, text: &str) -> Result<u64, ValueError> {
        values::number(self.least, self.most, self.unit)(text)
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

    fn renewed(&self, text: &str) -> Option<String> {
        self.numbers.former_value_of(text)?;
        self.with_unit(text)
    }
}

/// Words, each with the value that it means.
#[derive(Clone, Copy, Debug)]
pub struct Words<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + Send + Sync> Form for Words<T> {
    fn shape(&self) -> Shape {
        Shape::Word
    }

    fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|(word, _)| *word).collect()
    }
}

impl<T: Copy + Send + Sync> Parsed for Words<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Result<T, ValueError> {
        let found = self.0.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| ValueError::Word(self.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_unit_keep_their_meaning() {
        let minute = Durations::within(Duration::from_millis(1), Duration::from_secs(60));
        let seconds = |form: Durations, text| form.parse(text).map(|it| it.as_secs());
        assert_eq!(seconds(minute.numbers(1), "10000"), Ok(10));
        assert_eq!(seconds(minute.former_numbers(1), "10000"), Ok(10));
        assert!(minute.parse("10000").is_err());
        assert_eq!(minute.numbers(1).renewed("10000"), None);
        let renewed = |text| minute.former_numbers(1).renewed(text);
        assert_eq!(renewed("10000").as_deref(), Some("10s"));
        assert_eq!(renewed("1500").as_deref(), Some("1.5s"));
        assert_eq!(renewed("10s"), None);
        assert_eq!(minute.with_unit("90s"), None);
        assert_eq!(minute.with_unit("60s").as_deref(), Some("1m"));
        let sizes = Sizes::within(0, 1 << 40).former_numbers(1 << 20);
        assert_eq!(sizes.parse("16"), Ok(16 << 20));
        assert_eq!(sizes.parse("0"), Ok(0));
        assert_eq!(sizes.parse("64KiB"), Ok(64 << 10));
        assert_eq!(sizes.renewed("1024").as_deref(), Some("1GiB"));
        assert_eq!(sizes.renewed("0"), None);
        assert!(sizes.parse("99999999999999999999").is_err());
    }

    #[test]
    fn words_are_listed_in_the_error() {
        let why = |words: &'static [(&'static str, u8)]| {
            let error = Words(words).parse("none").unwrap_err();
            error.to_string()
        };
        assert_eq!(why(&[("a", 1)]), "must be `a`");
        assert_eq!(why(&[("a", 1), ("b", 2)]), "is neither `a` nor `b`");
        let three = &[("a", 1), ("b", 2), ("c", 3)];
        assert_eq!(why(three), "must be `a`, `b` or `c`");
        assert_eq!(Words(three).parse("b"), Ok(2));
    }

    #[test]
    fn a_duration_without_an_end_is_greater_than_zero() {
        let form = Durations::within(Duration::from_nanos(1), Duration::MAX);
        assert_eq!(form.parse("0"), Err(ValueError::NoTime));
        assert!(form.parse("9000h").is_ok());
    }
}
