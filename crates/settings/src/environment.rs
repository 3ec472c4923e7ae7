//! References to environment variables in values: `${NAME}` and `${NAME:-default}`.
//!
//! The value of a variable is text: it cannot add keys or change the structure of the file, and
//! every value keeps its line. `$${` is a literal `${`. A default may contain braces and
//! references: `${RATE:-${K6_RATE:-50}}`.

use crate::report::Report;
use crate::tree::{Node, Value};

/// Replaces every reference in `node` with the result of `lookup` for its name. A variable that is
/// not set and has no default is reported with its line.
pub fn substitute(node: &mut Node, lookup: &impl Fn(&str) -> Option<String>, report: &mut Report) {
    match &mut node.value {
        Value::Nothing | Value::Unset => {}
        Value::Scalar(text) if text.contains("${") => match expand(text, lookup) {
            Ok(expanded) if expanded.is_empty() => node.value = Value::Nothing,
            Ok(expanded) => *text = expanded,
            Err(why) => {
                report.problem(Some(node.line), "", why.to_string());
                node.value = Value::Unset;
            }
        },
        Value::Scalar(_) => {}
        Value::List(items) => {
            for item in items {
                substitute(item, lookup, report);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                substitute(&mut entry.value, lookup, report);
            }
        }
    }
}

/// The reasons why a reference to a variable is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ReferenceError {
    #[error("`{0}` has `${{` without its `}}`")]
    Open(String),
    #[error("`${{{0}}}` is not a variable: write ${{NAME}} or ${{NAME:-default}}")]
    Name(String),
    #[error("the environment has no {0}: set {0}, or write ${{{0}:-a default}}")]
    NotSet(String),
}

fn expand(text: &str, lookup: &impl Fn(&str) -> Option<String>) -> Result<String, ReferenceError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(literal) = before.strip_suffix('$') {
            expanded.push_str(literal);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let end = closing(after).ok_or_else(|| ReferenceError::Open(text.to_owned()))?;
        let (name, default) = match after[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        expanded.push_str(&value_of(name, default, lookup)?);
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Finds the brace that closes the reference at the beginning of `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns the value of a variable. As in a shell, the default also replaces an empty value.
fn value_of(
    name: &str,
    default: Option<&str>,
    lookup: &impl Fn(&str) -> Option<String>,
) -> Result<String, ReferenceError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(letters) {
        return Err(ReferenceError::Name(name.to_owned()));
    }
    if let Some(value) = lookup(name).filter(|value| !value.is_empty()) {
        return Ok(value);
    }
    match default {
        Some(default) => expand(default, lookup),
        None => Err(ReferenceError::NotSet(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn expanded(text: &str) -> Result<String, ReferenceError> {
        let lookup = |name: &str| match name {
            "RATE" => Some("500".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        expand(text, &lookup)
    }

    #[test]
    fn variables_and_defaults() {
        for (text, expected) in [
            ("${RATE}", "500"),
            ("a${RATE}b${RATE:-1}c", "a500b500c"),
            ("${NONE:-http://localhost:6962}", "http://localhost:6962"),
            ("${EMPTY:-7}", "7"),
            ("${NONE:-}", ""),
            ("${NONE:-${RATE:-7}}/s", "500/s"),
            ("${NONE:-${EMPTY:-7}}", "7"),
            ("${NONE:-{\"a\": {}}}", "{\"a\": {}}"),
            ("${RATE:-${NONE}}", "500"),
            ("costs $5, $${RATE}", "costs $5, ${RATE}"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in [
            "${NONE}",
            "${RATE",
            "${}",
            "${A B}",
            "${RATE:1}",
            "${NONE:-${NONE}}",
            "${NONE:-{}",
        ] {
            assert!(expanded(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_missing_variable_is_reported_with_its_line() {
        let mut root = tree::parse("a: 1\nb:\n  - ${NONE}\n").unwrap();
        let mut report = Report::on(None);
        substitute(&mut root, &|_| None, &mut report);
        assert_eq!(report.problems()[0].line, Some(3));
    }
}
