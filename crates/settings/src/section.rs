//! One map of a file: looks up keys, parses values, reports problems and continues.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use lucarne_net::without_secrets;

use crate::form::Parsed;
use crate::key;
use crate::key::Key;
use crate::report::Report;
use crate::tree::{Entry, Node, Value};

/// A value with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Line in the configuration file; `None` for the command line.
    pub line: Option<usize>,
}

impl<T> Located<T> {
    /// Creates a value on `line`.
    pub fn new(value: T, line: usize) -> Self {
        Located {
            value,
            line: Some(line),
        }
    }

    /// Applies `f` to the value, and keeps the line.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located {
            value: f(self.value),
            line: self.line,
        }
    }
}

/// A map, with a fallback map for missing keys.
#[derive(Clone, Copy)]
pub struct Section<'t> {
    entries: &'t [Entry],
    fallback: &'t [Entry],
    /// Line of the map itself, for messages about missing keys.
    pub line: usize,
}

impl<'t> Section<'t> {
    /// Opens `node` as a map, and reports unknown and repeated keys. Reports a node of another
    /// kind, and returns `None` in this case.
    pub fn open(node: &'t Node, path: &str, known: &[&str], report: &mut Report) -> Option<Self> {
        Section::open_advised(node, path, known, key::unknown, report)
    }

    /// Opens `node` as a map with a custom message for unknown keys: `advice` gets the key and the
    /// known keys.
    pub fn open_advised(
        node: &'t Node,
        path: &str,
        known: &[&str],
        advice: impl Fn(&str, &[&str]) -> String,
        report: &mut Report,
    ) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Nothing => &[],
            other => {
                let message = format!("must be a map of keys, but is {}", other.kind());
                report.problem(Some(node.line), path, message);
                return None;
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            let key = join(path, &entry.key);
            if !known.contains(&entry.key.as_str()) {
                report.problem(Some(entry.line), key, advice(&entry.key, known));
            } else if let Some(first) = entries[..index].iter().find(|e| e.key == entry.key) {
                let message = format!("is given twice, first on line {}", first.line);
                report.problem(Some(entry.line), key, message);
            }
        }
        Some(Section {
            entries,
            fallback: &[],
            line: node.line,
        })
    }

    /// Returns the same section with `defaults` as the fallback.
    pub fn or(self, defaults: Option<Section<'t>>) -> Self {
        Section {
            fallback: defaults.map_or(&[], |section| section.entries),
            ..self
        }
    }

    /// Returns `true` if the value of `key` comes from the fallback.
    pub fn inherited(&self, key: &str) -> bool {
        let has = |entries: &[Entry]| entries.iter().any(|entry| entry.key == key);
        !has(self.entries) && has(self.fallback)
    }

    /// Returns the node under `key`, if it has a value (`key:` alone has none).
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<&'t Node> {
        let key = key.as_ref();
        let find = |entries: &'t [Entry]| entries.iter().find(|entry| entry.key == key);
        find(self.entries)
            .or_else(|| find(self.fallback))
            .map(|entry| &entry.value)
            .filter(|node| !matches!(node.value, Value::Nothing))
    }
}

/// Reads the keys of one section into values.
pub struct Reader<'t, 'r> {
    section: Section<'t>,
    path: String,
    directory: &'r Path,
    report: &'r mut Report,
}

impl<'t, 'r> Reader<'t, 'r> {
    /// Creates a reader. Relative paths are relative to `directory`.
    pub fn new(
        section: Section<'t>,
        path: impl Into<String>,
        directory: &'r Path,
        report: &'r mut Report,
    ) -> Self {
        Reader {
            section,
            path: path.into(),
            directory,
            report,
        }
    }

    /// Returns the report of this reader.
    pub fn report(&mut self) -> &mut Report {
        self.report
    }

    /// Reports a problem with `key`.
    pub fn problem(
        &mut self,
        line: Option<usize>,
        key: &(impl AsRef<str> + ?Sized),
        message: impl Into<String>,
    ) {
        let key = key.as_ref();
        self.report.problem(line, self.path_of(key), message);
    }

    /// Reports a warning about `key`.
    pub fn warning(
        &mut self,
        line: Option<usize>,
        key: &(impl AsRef<str> + ?Sized),
        message: impl Into<String>,
    ) {
        let key = key.as_ref();
        self.report.warning(line, self.path_of(key), message);
    }

    /// Returns the node under `key`, if it has a value.
    pub fn node(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<&'t Node> {
        let key = key.as_ref();
        self.section.get(key)
    }

    /// Returns the line of the value of `key`, if it has one.
    pub fn line(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<usize> {
        self.node(key).map(|node| node.line)
    }

    /// Returns the directory of relative paths.
    pub fn directory(&self) -> &'r Path {
        self.directory
    }

    /// Returns `true` if the value of `key` comes from the fallback.
    pub fn inherited(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        let key = key.as_ref();
        self.section.inherited(key)
    }

    /// Returns the position of `key` for messages, such as `logs[a].period`. Keys from the fallback
    /// are below `defaults`.
    pub fn path_of(&self, key: &(impl AsRef<str> + ?Sized)) -> String {
        let key = key.as_ref();
        join(
            if self.inherited(key) {
                "defaults"
            } else {
                &self.path
            },
            key,
        )
    }

    /// Returns `value`, and reports a problem if the required `key` is missing.
    pub fn required<T>(
        &mut self,
        key: &(impl AsRef<str> + ?Sized),
        value: Option<Located<T>>,
        example: &str,
    ) -> Option<Located<T>> {
        let key = key.as_ref();
        if value.is_none() && self.section.get(key).is_none() {
            let line = Some(self.section.line);
            self.problem(
                line,
                key,
                format!("is missing; for example `{key}: {example}`"),
            );
        }
        value
    }

    /// Returns `true` if `key` has a value.
    pub fn has(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        let key = key.as_ref();
        self.section.get(key).is_some()
    }

    /// Returns a single value as text. Reports a list or a map, and returns `None` in this case.
    pub fn text(&mut self, key: &(impl AsRef<str> + ?Sized)) -> Option<Located<&'t str>> {
        let key = key.as_ref();
        let node = self.section.get(key)?;
        self.scalar(key, node)
    }

    fn scalar(&mut self, key: &str, node: &'t Node) -> Option<Located<&'t str>> {
        match &node.value {
            Value::Scalar(text) => Some(Located::new(text.as_str(), node.line)),
            Value::Unset => None,
            other => {
                let message = format!("must be a single value, but is {}", other.kind());
                self.problem(Some(node.line), key, message);
                None
            }
        }
    }

    /// Parses a single value, and reports the error of the parser.
    pub fn parse<T, E: Display>(
        &mut self,
        key: &(impl AsRef<str> + ?Sized),
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let key = key.as_ref();
        let text = self.text(key)?;
        self.parsed(key, text, parser)
    }

    /// Parses a single value, without its line.
    pub fn value<T, E: Display>(
        &mut self,
        key: &(impl AsRef<str> + ?Sized),
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let key = key.as_ref();
        self.parse(key, parser).map(|located| located.value)
    }

    /// Parses a single value by the definition of its key. A former form causes a warning.
    pub fn read<F: Parsed>(&mut self, key: &Key<F>) -> Option<Located<F::Value>> {
        let text = self.text(key.name())?;
        let (written, line) = (text.value, text.line);
        let value = self.parsed(key.name(), text, |text| key.parse(text))?;
        if let Some(renewed) = key.form.renewed(written) {
            // Users often mean seconds, although the number counts milliseconds.
            let seconds = if renewed.ends_with("ms") {
                format!(" ({written}s for seconds)")
            } else {
                String::new()
            };
            let message = format!(
                "`{written}` has no unit and means {renewed}: write {renewed}{seconds}. The next \
                 version requires a unit"
            );
            self.warning(line, key.name(), message);
        }
        Some(value)
    }

    /// Parses a single value by the definition of its key, without its line.
    pub fn get<F: Parsed>(&mut self, key: &Key<F>) -> Option<F::Value> {
        self.read(key).map(|located| located.value)
    }

    fn parsed<T, E: Display>(
        &mut self,
        key: &str,
        text: Located<&str>,
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        match parser(text.value) {
            Ok(value) => Some(Located {
                value,
                line: text.line,
            }),
            Err(why) => {
                let value = without_secrets(text.value);
                self.problem(text.line, key, format!("`{value}` {why}"));
                None
            }
        }
    }

    /// Parses a list of values, or a single value.
    pub fn list<T, E: Display>(
        &mut self,
        key: &(impl AsRef<str> + ?Sized),
        parser: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<Located<T>> {
        let key = key.as_ref();
        let Some(node) = self.section.get(key) else {
            return Vec::new();
        };
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        items
            .iter()
            .filter_map(|item| {
                let text = self.scalar(key, item)?;
                self.parsed(key, text, &parser)
            })
            .collect()
    }

    /// Parses a list of values, without their lines.
    pub fn values<T, E: Display>(
        &mut self,
        key: &(impl AsRef<str> + ?Sized),
        parser: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let key = key.as_ref();
        let located = self.list(key, parser).into_iter();
        located.map(|located| located.value).collect()
    }

    /// Returns a path, made absolute with the directory of the configuration file.
    pub fn path(&mut self, key: &(impl AsRef<str> + ?Sized)) -> Option<Located<PathBuf>> {
        let key = key.as_ref();
        let text = self.text(key)?;
        Some(text.map(|path| self.directory.join(path)))
    }

    /// Returns a list of paths like [`path`](Self::path), or a single path.
    pub fn paths(&mut self, key: &(impl AsRef<str> + ?Sized)) -> Vec<PathBuf> {
        let key = key.as_ref();
        let directory = self.directory;
        self.values(key, |path| Ok::<_, Infallible>(directory.join(path)))
    }

    /// Returns a URL without changes, or a path like [`path`](Self::path).
    pub fn url_or_path(&mut self, key: &(impl AsRef<str> + ?Sized)) -> Option<Located<String>> {
        let key = key.as_ref();
        let text = self.text(key)?;
        Some(text.map(|text| {
            if text.contains("://") {
                text.to_owned()
            } else {
                self.directory.join(text).to_string_lossy().into_owned()
            }
        }))
    }
}

/// Returns `path.key`, or one of the two texts if the other is empty.
pub fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn the_password_in_an_invalid_value_is_not_shown() {
        let root = tree::parse("mirrors: [\"https://u:hush@ct.example/a\"]\n").unwrap();
        let mut report = Report::on(None);
        let section = Section::open(&root, "", &["mirrors"], &mut report).unwrap();
        let mut reader = Reader::new(section, "", Path::new(""), &mut report);
        let refuse = |_: &str| Err::<(), _>("has a user name");
        assert!(reader.list("mirrors", refuse).is_empty());
        let said = report.problem_lines().join("\n");
        assert!(
            said.contains("`https://u:***@ct.example/a` has a user name"),
            "{said}"
        );
    }
}
