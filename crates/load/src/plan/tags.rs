//! Tags and names.

use lucarne_settings::{Node, Report, Value, join};

/// Parses a map of tags.
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

/// Reasons why a tag or a name is invalid. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The flag has no `=`.
    #[error("is not name=value")]
    NoPair,
    /// The value is a list or a map.
    #[error("must be a single value, but is {0}")]
    NotOneValue(&'static str),
    /// The tag is reserved for the engine.
    #[error("is reserved for the scenario's name; use another tag")]
    Scenario,
    /// The value is empty, or no threshold could contain it.
    #[error("must have a value, without commas and braces")]
    Value,
    /// The name could not be part of a threshold.
    #[error("is not a name of letters, digits, `_`, `-` and `.`")]
    Name,
}

/// Parses a tag in a flag: `name=value`.
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

/// Checks a name that can be part of a threshold, `metric{tag:value}`.
pub(super) fn name(text: &str) -> Result<(), TagError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !text.is_empty() && text.chars().all(allowed) {
        Ok(())
    } else {
        Err(TagError::Name)
    }
}
