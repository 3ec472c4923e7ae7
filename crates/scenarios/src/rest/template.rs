//! Texts with `{{…}}` in them, compiled once.
//!
//! | written | stands for |
//! |---|---|
//! | `{{unique}}` | a word that is unique to the iteration among all runs |
//! | `{{iteration}}`, `{{user}}` | their numbers, from 0; `{{iteration(width=5)}}` pads with zeros |
//! | `{{counter(from=1, to=5000, width=5)}}` | the next number, shared by all users; after `to` comes `from` again |
//! | `{{random(from=1, to=6)}}` | a whole number, both ends included |
//! | `{{pick(a, "b c")}}` | one of these words |
//! | `{{hex(16)}}`, `{{uuid}}` | random bytes in hexadecimal, a random UUID |
//! | `{{now}}`, `{{now(ms)}}` | Unix time in seconds or milliseconds |
//! | `{{name}}` | the value of this name in `vars`, `capture` or `remember` |
//! | `{{users.name}}` | the column `name` of the iteration's row of `users` in `data` |
//! | `{{"{{"}}` | `{{` |
//!
//! In a URL a value is percent-encoded and in JSON escaped; `{{name | raw}}` is not escaped.

mod parse;
mod values;

pub(super) use parse::is_name;
pub(super) use values::{NameError, Scope, SharedValues, Values};

use parse::SyntaxError;
use values::{ArgumentError, Source};

use super::files::FileError;

/// Reasons why a text is not a template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("`{0}` has `{{{{` without its `}}}}`")]
    Unclosed(String),
    #[error("`{{{{{expression}}}}}` {source}")]
    Syntax {
        /// The text between the braces.
        expression: String,
        source: SyntaxError,
    },
    #[error("`{{{{{value}(…)}}}}` {source}")]
    Arguments {
        value: String,
        source: ArgumentError,
    },
    #[error("`{{{{{name}}}}}` is not a known value; did you mean `{{{{{near}}}}}`?")]
    Misspelt { name: String, near: String },
    #[error("`{{{{{name}}}}}` is not a known value; known values: {}", .known.join(", "))]
    Unknown { name: String, known: Vec<String> },
}

/// Reasons why a text that may be in a file is not a template.
#[derive(Debug, thiserror::Error)]
pub(super) enum TextError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// A text with values.
#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Value(Source, Escaping),
}

/// Escaping of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escaping {
    /// No escaping.
    Plain,
    /// Escaping for a JSON string.
    Json,
    /// Percent-encoding for a path or a query (RFC 3986).
    Url,
}

impl Template {
    /// Compiles `text`, whose names must be known to `scope`.
    pub(super) fn compile(
        text: &str,
        form: Escaping,
        scope: &mut Scope,
    ) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, expression, after)) = parse::next(rest)? {
            push_text(&mut parts, before);
            match parse::expression(expression)? {
                parse::Expression::Text(text) => push_text(&mut parts, &text),
                parse::Expression::Value(call) => {
                    let form = if call.raw { Escaping::Plain } else { form };
                    parts.push(Part::Value(scope.source(&call)?, form));
                }
            }
            rest = after;
        }
        push_text(&mut parts, rest);
        Ok(Self(parts))
    }

    /// Compiles the path of a URL.
    pub(super) fn compile_path(path: &str, scope: &mut Scope) -> Result<Self, TemplateError> {
        Self::compile(path, Escaping::Url, scope)
    }

    /// Returns whether `text` is a single value without escaping. In JSON, this value is written
    /// without quotes.
    pub(super) fn is_raw(text: &str) -> bool {
        let whole = text.trim();
        matches!(parse::next(whole), Ok(Some(("", expression, ""))) if matches!(
            parse::expression(expression), Ok(parse::Expression::Value(call)) if call.raw))
    }

    /// Escapes the text around the values for JSON.
    pub(super) fn escape_texts(self) -> Self {
        let escaped = |part| match part {
            Part::Text(text) => {
                let mut out = String::with_capacity(text.len());
                escape(&text, Escaping::Json, &mut out);
                Part::Text(out)
            }
            value => value,
        };
        Self(self.0.into_iter().map(escaped).collect())
    }

    /// Appends another template.
    pub(super) fn extend(&mut self, other: Template) {
        for part in other.0 {
            match part {
                Part::Text(text) => push_text(&mut self.0, &text),
                value => self.0.push(value),
            }
        }
    }

    /// Creates a template without values.
    pub(super) fn fixed(text: &str) -> Self {
        let mut parts = Vec::new();
        push_text(&mut parts, text);
        Self(parts)
    }

    /// Returns the text if the template has no values.
    pub(super) fn as_fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the parts without values, in their written form.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Value(..) => None,
        })
    }

    /// Returns whether all values are available.
    pub(super) fn is_ready(&self, values: &Values) -> bool {
        self.0.iter().all(|part| match part {
            Part::Value(Source::Slot(slot), _) => values.get(*slot).is_some(),
            _ => true,
        })
    }

    /// Appends the rendered text to `out`. Values that are not [ready](Self::is_ready) are empty.
    pub(super) fn write(&self, out: &mut String, values: &mut Values) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(source, Escaping::Plain) => values.write(source, out),
                Part::Value(source, form) => {
                    let from = out.len();
                    values.write(source, out);
                    if out[from..].bytes().any(|byte| !plain(byte, *form)) {
                        let value = out.split_off(from);
                        escape(&value, *form, out);
                    }
                }
            }
        }
    }

    /// Returns the rendered text.
    pub(super) fn text(&self, values: &mut Values) -> String {
        let mut out = String::new();
        self.write(&mut out, values);
        out
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Returns whether the byte needs no escaping.
fn plain(byte: u8, form: Escaping) -> bool {
    match form {
        Escaping::Plain => true,
        Escaping::Json => !matches!(byte, b'"' | b'\\' | 0..0x20),
        Escaping::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'),
    }
}

fn escape(value: &str, form: Escaping, out: &mut String) {
    use std::fmt::Write;
    for character in value.chars() {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        if bytes.iter().all(|byte| plain(*byte, form)) {
            out.push(character);
            continue;
        }
        // Writing to memory cannot fail.
        let _ = match (form, character) {
            (Escaping::Json, '"' | '\\') => write!(out, "\\{character}"),
            (Escaping::Json, _) => write!(out, "\\u{:04x}", u32::from(character)),
            _ => bytes.iter().try_for_each(|byte| write!(out, "%{byte:02X}")),
        };
    }
}

#[cfg(test)]
mod tests;
