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
            other => Err(format!("must be a single value, but is {}", other.kind())),
        };
        match read {
            Ok(tag) if tags.iter().all(|(name, _)| *name != tag.0) => tags.push(tag),
            Ok(_) => report.problem(Some(entry.line), join(path, &entry.key), "is given twice"),
            Err(why) => report.problem(Some(entry.line), join(path, &entry.key), why),
        }
    }
    tags
}

/// A tag as a flag has it: `name=value`.
///
/// # Errors
/// In words that follow the text.
pub fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("is not name=value")?;
    checked(name, value)
}

fn checked(tag: &str, value: &str) -> Result<(String, String), String> {
    if tag == "scenario" {
        return Err("is the tag that every scenario has by its name; use another".into());
    }
    name(tag)?;
    if value.is_empty() || value.contains([',', '{', '}', '\n']) {
        return Err("must have a value, without commas and braces".into());
    }
    Ok((tag.to_owned(), value.to_owned()))
}

/// A name that can stand in a threshold, `metric{tag:value}`.
pub(super) fn name(text: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !text.is_empty() && text.chars().all(allowed) {
        true => Ok(()),
        false => Err("is not a name: letters, digits, `_`, `-` and `.`".into()),
    }
}
