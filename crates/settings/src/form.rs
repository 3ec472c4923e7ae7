//! Forms of values: the type of a key's values, with its bounds.

use std::fmt::Display;
use std::path::PathBuf;

use jiff::civil;

use crate::key::{Key, Table};
pub use crate::quantity::{Durations, Numbers, Sizes};
use crate::section::Reader;
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

    /// Formats a value as Markdown. Returns an empty text if there is no short one.
    fn show(&self, _value: &Self::Value) -> String {
        String::new()
    }

    /// Returns the present form of a valid value in a former form, which the next version refuses.
    fn renewed(&self, _text: &str) -> Option<String> {
        None
    }
}

/// Form whose keys are read without other settings.
pub trait Readable: Form {
    /// Type of the value of a key.
    type Read;

    /// Reads the value of a key, and reports its problems. Returns `None` without a valid value.
    fn read(key: &Key<Self>, reader: &mut Reader<'_, '_>) -> Option<Self::Read>;

    /// Formats a value as Markdown. Returns an empty text if there is no short one.
    fn show(&self, value: &Self::Read) -> String;
}

impl<F: Parsed> Readable for F {
    type Read = F::Value;

    fn read(key: &Key<Self>, reader: &mut Reader<'_, '_>) -> Option<F::Value> {
        reader.get(key)
    }

    fn show(&self, value: &F::Value) -> String {
        Parsed::show(self, value)
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

    fn show(&self, value: &bool) -> String {
        value.to_string()
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

    fn show(&self, value: &civil::Date) -> String {
        value.to_string()
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

    fn show(&self, value: &u64) -> String {
        values::rfc3339(*value)
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

    fn show(&self, value: &u64) -> String {
        value.to_string()
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

impl<T: Copy + PartialEq + Send + Sync> Parsed for Words<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Result<T, ValueError> {
        let found = self.0.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| ValueError::Word(self.words()))
    }

    fn show(&self, value: &T) -> String {
        let word = self.0.iter().find(|(_, meant)| meant == value);
        word.map_or_else(String::new, |(word, _)| format!("`{word}`"))
    }
}

/// A single value, and its parser.
pub struct One<T, E> {
    shape: Shape,
    parse: fn(&str) -> Result<T, E>,
    show: fn(&T) -> String,
}

impl<T, E> One<T, E> {
    /// Creates the form of texts that `parse` parses.
    pub const fn new(parse: fn(&str) -> Result<T, E>) -> Self {
        One {
            shape: Shape::Text,
            parse,
            show: |_| String::new(),
        }
    }

    /// Returns the form with this shape.
    pub const fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Returns the form with this function, which formats a value as Markdown.
    pub const fn shown(mut self, show: fn(&T) -> String) -> Self {
        self.show = show;
        self
    }
}

/// A list of texts, or a single text, and the parser of each.
pub struct Each<T, E>(pub fn(&str) -> Result<T, E>);

impl<T, E> Clone for One<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Copy for One<T, E> {}

impl<T: 'static, E: 'static> Form for One<T, E> {
    fn shape(&self) -> Shape {
        self.shape
    }
}

impl<T: 'static, E: Display + 'static> Parsed for One<T, E> {
    type Value = T;

    fn parse(&self, text: &str) -> Result<T, ValueError> {
        (self.parse)(text).map_err(|why| ValueError::Other(why.to_string()))
    }

    fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}

impl<T, E> Clone for Each<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Copy for Each<T, E> {}

impl<T: 'static, E: 'static> Form for Each<T, E> {
    fn shape(&self) -> Shape {
        Shape::List(&Shape::Text)
    }
}

impl<T: 'static, E: Display + 'static> Readable for Each<T, E> {
    type Read = Vec<T>;

    fn read(key: &Key<Self>, reader: &mut Reader<'_, '_>) -> Option<Vec<T>> {
        reader.has(key).then(|| reader.values(key, key.form.0))
    }

    fn show(&self, _: &Vec<T>) -> String {
        String::new()
    }
}

/// Path of a file or directory, relative to the directory of the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct File;

/// List of paths of files or directories, or a single path.
#[derive(Clone, Copy, Debug)]
pub struct Files;

/// URL, or a path like those of [`File`].
#[derive(Clone, Copy, Debug)]
pub struct UrlOrFile;

/// Implements [`Readable`] with a method of [`Reader`].
macro_rules! readable {
    ($($form:ident: $shape:expr, $read:ty, |$reader:ident, $key:ident| $value:expr;)*) => {$(
        impl Form for $form {
            fn shape(&self) -> Shape {
                $shape
            }
        }

        impl Readable for $form {
            type Read = $read;

            fn read($key: &Key<Self>, $reader: &mut Reader<'_, '_>) -> Option<$read> {
                $value
            }

            fn show(&self, _: &$read) -> String {
                String::new()
            }
        }
    )*};
}

readable! {
    File: Shape::Text, PathBuf, |reader, key| Some(reader.path(key)?.value);
    Files: Shape::List(&Shape::Text), Vec<PathBuf>, |reader, key| {
        reader.has(key).then(|| reader.paths(key))
    };
    UrlOrFile: Shape::Text, String, |reader, key| Some(reader.url_or_path(key)?.value);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
