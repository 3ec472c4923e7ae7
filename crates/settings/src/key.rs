//! Definitions of keys (name, form, default and documentation, each written once), tables of them,
//! and messages about unknown keys.

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

/// The keys of a map, or a group of them.
#[derive(Clone, Copy)]
pub struct Table {
    keys: &'static [&'static dyn AnyKey],
    groups: &'static [&'static Table],
    follows: bool,
}

impl Table {
    /// Creates a table of these keys.
    pub const fn of(keys: &'static [&'static dyn AnyKey]) -> Self {
        Table {
            keys,
            groups: &[],
            follows: false,
        }
    }

    /// Creates the table of a map whose keys are in several groups.
    pub const fn join(groups: &'static [&'static Table]) -> Self {
        Table {
            keys: &[],
            groups,
            follows: false,
        }
    }

    /// Documents these keys in the same table as the key of their map, after this key.
    pub const fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns all keys in the order of the documentation.
    pub fn keys(&self) -> Vec<&'static dyn AnyKey> {
        let below = self.groups.iter().flat_map(|group| group.keys());
        self.keys.iter().copied().chain(below).collect()
    }

    /// Returns the names of all keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys().iter().map(|key| key.about().name).collect()
    }

    /// Returns whether the table has a key of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    /// Formats the keys as a table of Markdown. `beside` is the heading of the column beside the
    /// name, if there is one.
    pub fn to_markdown(&self, beside: Option<&str>) -> String {
        let mut text = match beside {
            None => "| key | default | meaning |\n|---|---|---|\n".to_owned(),
            Some("") => "| key | | default | meaning |\n|---|---|---|---|\n".to_owned(),
            Some(heading) => {
                format!("| key | {heading} | default | meaning |\n|---|---|---|---|\n")
            }
        };
        self.add_rows(beside.is_some(), &mut text);
        text
    }

    fn add_rows(&self, beside: bool, text: &mut String) {
        let keys = self.keys();
        for (index, key) in keys.iter().enumerate() {
            let about = key.about();
            let mut cells = vec![format!("`{}`", about.name)];
            if beside {
                cells.push(about.beside.to_owned());
            }
            cells.extend([about.default(), about.meaning.to_owned()]);
            text.push('|');
            for cell in cells {
                text.push_str(&if cell.is_empty() {
                    " |".to_owned()
                } else {
                    format!(" {cell} |")
                });
            }
            text.push('\n');
            // Keys whose maps have the same table stand together, before the rows of this table.
            let table = following(key.shape());
            let next = keys.get(index + 1).and_then(|key| following(key.shape()));
            if let Some(table) = table
                && !next.is_some_and(|next| std::ptr::eq(table, next))
            {
                table.add_rows(beside, text);
            }
        }
    }
}

/// Returns the table of a map whose keys follow the key of the map.
fn following(shape: Shape) -> Option<&'static Table> {
    shape.table().filter(|table| table.follows)
}

/// Returns the message about a key that is not in `known`. The message suggests the nearest known
/// key, or lists all known keys.
pub fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("no such key; did you mean `{near}`?"),
        None if known.is_empty() => "no such key; no keys are known here".to_owned(),
        None => format!("no such key; the keys are {}", known.join(", ")),
    }
}

/// Returns the known word that is most similar to `word`, if any is similar. Letter case, `-` and
/// `_` are ignored.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    known
        .iter()
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(&plain(word), &plain(candidate)),
                *candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::form::{Boolean, Durations, Sizes};

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

    static FAST: Key<Boolean> = Key::new("fast", Boolean, "false", "Fast.").beside("`--fast`");
    static RATE: Key<Shape> = Key::new("rate", Shape::Text, "", "Of both.");
    static INNER: Table = Table::of(&[&RATE]).following();
    static ONE: Key<Shape> = Key::new("one", Shape::Map(&INNER), "none", "One.");
    static TWO: Key<Shape> = Key::new("two", Shape::List(&Shape::Map(&INNER)), "none", "Two.");
    static LAST: Key<Shape> = Key::new("last", Shape::Text, "none", "Last.");
    static FIRST_GROUP: Table = Table::of(&[&FAST, &ONE, &TWO, &LAST]);
    static ALL: Table = Table::join(&[&FIRST_GROUP, &INNER]);

    #[test]
    fn keys_of_an_inner_map_follow_its_last_key() {
        assert_eq!(
            FIRST_GROUP.to_markdown(Some("flag")),
            "| key | flag | default | meaning |\n|---|---|---|---|\n\
             | `fast` | `--fast` | false | Fast. |\n\
             | `one` | | none | One. |\n\
             | `two` | | none | Two. |\n\
             | `rate` | | | Of both. |\n\
             | `last` | | none | Last. |\n"
        );
        assert_eq!(ALL.names(), ["fast", "one", "two", "last", "rate"]);
        assert!(ALL.has("rate") && !FIRST_GROUP.has("rate"));
    }

    #[test]
    fn a_typo_finds_the_nearest_key_and_nonsense_the_list() {
        let known = ["duration", "rate", "timeUnit"];
        assert_eq!(nearest("duraton", &known), Some("duration"));
        assert_eq!(nearest("time-unit", &known), Some("timeUnit"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(
            unknown("colour", &known),
            "no such key; the keys are duration, rate, timeUnit"
        );
    }
}
