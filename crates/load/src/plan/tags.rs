//! Tags and names.

use lucarne_settings::{Node, Report, Value, join};

/// Reads a map of tags.
pub(super) fn read(node: Option<&Node>, path: &str, report: &mut Report) -> Vec<(String, String)> {
    let Some(node) = node else {
        return Vec::new();
    };
    let Value::Map(entries) = &node.value else {
        let message = format!("must be a map of keys, but is {}", node.value.kind());
        report.problem(Some(node.line), path, message);
        return Vec::new();
    };
    let mut tags: Vec<(String, String)> = Vec::new();
    for entry in entries {
        let read = match &entry.value.value {
            Value::Scalar(value) => checked(&entry.key, value),
            other => Err(TagError::NotOneValue(other.kind())),
        };
        match read {
            Ok(tag) if tags.iter().all(|(name, _)| *name != tag.0) => tags.push(tag),
            Ok(_) => report.problem(Some(entry.line), join(path, &entry.key), "is given twice"),
            Err(why) => report.problem(Some(entry.line), join(path, &entry.key), why.to_string()),
        }
    }
    tags
}

/// The fault of a tag or a name, in words that follow the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// No `=` in a flag.
    #[error("is not name=value")]
    NoPair,
    /// A list or a map.
    #[error("must be a single value, but is {0}")]
    NotOneValue(&'static str),
    /// The tag that the engine itself gives.
    #[error("is the tag that every scenario has by its name; use another")]
    Scenario,
    /// No value, or one that no threshold could name.
    #[error("must have a value, without commas and braces")]
    Value,
    /// A name that no threshold could have.
    #[error("is not a name: letters, digits, `_`, `-` and `.`")]
    Name,
}

/// A tag as a flag has it: `name=value`.
///
/// # Errors
/// [`TagError`].
pub fn tag(text: &str) -> Result<(String, String), TagError> {
    let (name, value) = text.split_once('=').ok_or(TagError::NoPair)?;
    checked(name, value)
}

fn checked(tag: &str, value: &str) -> Result<(String, String), TagError> {
    if tag == "scenario" {
        return Err(TagError::Scenario);
    }
    name(tag)?;
    if value.is_empty() || value.contains([',', '{', '}', '\n']) {
        return Err(TagError::Value);
    }
    Ok((tag.to_owned(), value.to_owned()))
}

/// A name that can stand in a threshold, `metric{tag:value}`.
pub(super) fn name(text: &str) -> Result<(), TagError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !text.is_empty() && text.chars().all(allowed) {
        true => Ok(()),
        false => Err(TagError::Name),
    }
}
