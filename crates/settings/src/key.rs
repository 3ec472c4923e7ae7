//! Definitions of keys: name, form, default and documentation, each written once.

use crate::form::{Form, Parsed, Shape};
use crate::values::ValueError;

/// Definition of a key whose values have the form `F`.
#[derive(Clone, Copy, Debug)]
pub struct Key<F> {
    /// Name and documentation.
    pub about: About,
    /// Valid values.
    pub form: F,
}

/// Name and documentation of a key.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name in the file.
    pub name: &'static str,
    /// Markdown beside the name in the documentation, such as the flag of the same meaning.
    pub beside: &'static str,
    /// Default, as Markdown; empty if it follows from `value`.
    documented: &'static str,
    /// Returns the default that the program applies, as Markdown.
    value: Option<fn() -> String>,
    /// Meaning, as Markdown.
    pub meaning: &'static str,
}

impl About {
    /// Returns the default, as Markdown.
    pub fn default(&self) -> String {
        match (self.documented, self.value) {
            ("", Some(value)) => value(),
            (text, _) => text.to_owned(),
        }
    }

    /// Returns the default without Markdown: `200ms; 1s in a bucket`.
    pub fn plain_default(&self) -> String {
        self.default().replace('`', "")
    }

    /// Returns the default that the program applies, without Markdown, if the key has one.
    pub fn applied_default(&self) -> Option<String> {
        let value = self.value?().replace('`', "");
        (!value.is_empty()).then_some(value)
    }
}

impl<F: Copy> Key<F> {
    /// Creates the definition of a key. `default` and `meaning` are Markdown.
    pub const fn new(
        name: &'static str,
        form: F,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        let about = About {
            name,
            beside: "",
            documented: default,
            value: None,
            meaning,
        };
        Key { about, form }
    }

    /// Returns the key with this Markdown beside its name in the documentation.
    pub const fn beside(mut self, text: &'static str) -> Self {
        self.about.beside = text;
        self
    }

    /// Returns the key with this default in the documentation, as Markdown.
    pub const fn documented(mut self, default: &'static str) -> Self {
        self.about.documented = default;
        self
    }

    /// Returns the key with the default that `value` returns, as Markdown.
    pub const fn defaulting(mut self, value: fn() -> String) -> Self {
        self.about.value = Some(value);
        self
    }
}

impl<F> Key<F> {
    /// Returns the name of the key in the file.
    pub const fn name(&self) -> &'static str {
        self.about.name
    }
}

impl<F> AsRef<str> for Key<F> {
    fn as_ref(&self) -> &str {
        self.about.name
    }
}

impl<F: Parsed> Key<F> {
    /// Parses a value.
    ///
    /// # Errors
    /// If the text does not have the form. The error has an example in the key's unit.
    pub fn parse(&self, text: &str) -> Result<F::Value, ValueError> {
        self.form.parse(text).map_err(|why| self.explained(why))
    }

    /// Replaces general examples with the key's default.
    fn explained(&self, why: ValueError) -> ValueError {
        let default = self.about.plain_default();
        let example = default.split([';', ' ']).next().unwrap_or_default();
        if self.form.parse(example).is_err() {
            return why;
        }
        let unit = example.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        match why {
            ValueError::Duration => ValueError::NotLike("a duration", example.to_owned()),
            ValueError::Size => ValueError::NotLike("a size", example.to_owned()),
            ValueError::NoUnit(number) => ValueError::Write(format!("{number}{unit}")),
            why => why,
        }
    }
}

/// A key with a form of any type.
pub trait AnyKey: Sync {
    /// Returns name and documentation.
    fn about(&self) -> &About;

    /// Returns the shape of valid values.
    fn shape(&self) -> Shape;

    /// Returns the valid words of [`Shape::Word`].
    fn words(&self) -> Vec<&'static str>;

    /// Returns a valid duration or size in its shortest spelling with a unit.
    fn with_unit(&self, text: &str) -> Option<String>;
}

impl<F: Form> AnyKey for Key<F> {
    fn about(&self) -> &About {
        &self.about
    }

    fn shape(&self) -> Shape {
        self.form.shape()
    }

    fn words(&self) -> Vec<&'static str> {
        self.form.words()
    }

    fn with_unit(&self, text: &str) -> Option<String> {
        self.form.with_unit(text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::form::{Durations, Sizes};

    static PERIOD: Key<Durations> = Key::new(
        "period",
        Durations::within(Duration::from_millis(1), Duration::from_secs(60)).numbers(1),
        "200ms; 1s in a bucket",
        "",
    );
    static CACHE: Key<Sizes> = Key::new("cache", Sizes::within(0, 1 << 40), "`16MiB`", "");

    #[test]
    fn errors_have_an_example_in_the_key_s_unit() {
        let why = |text| PERIOD.parse(text).unwrap_err().to_string();
        assert_eq!(why("soon"), "is not a duration such as 200ms");
        assert_eq!(why("1.5"), "has no unit: write 1.5ms");
        assert_eq!(why("2m"), "is not between 1ms and 1m");
        let number = "without a unit means 1m40s, which is not between 1ms and 1m";
        assert_eq!(why("100000"), number);
        let why = |text| CACHE.parse(text).unwrap_err().to_string();
        assert_eq!(why("much"), "is not a size such as 16MiB");
        assert_eq!(why("16"), "has no unit: write 16MiB");
        assert_eq!(why("2TiB"), "is too large: at most 1TiB");
    }
}
