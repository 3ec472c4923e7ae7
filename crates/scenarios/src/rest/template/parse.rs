//! Parser of `{{…}}`.

use super::TemplateError;

/// Reasons why the text between the braces is not an expression. The message follows the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum SyntaxError {
    #[error("has an unknown filter after `|`; expected `raw`")]
    Filter,
    #[error("has `(` without a matching `)`")]
    Parenthesis,
    #[error("is not a name: expected letters, digits and `_`")]
    Name,
    #[error("has an empty argument")]
    EmptyArgument,
}

/// An expression between braces.
#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    /// A quoted text.
    Text(String),
    /// A value.
    Value(Call),
}

/// A value with its arguments, if any.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    /// Names and values of the arguments. A positional argument has an empty name.
    pub(super) arguments: Vec<(String, String)>,
    /// Whether the value is written without escaping.
    pub(super) raw: bool,
}

/// Splits a text at its next braces: into the text before, within and after the braces.
pub(super) fn next(text: &str) -> Result<Option<(&str, &str, &str)>, TemplateError> {
    let Some(begin) = text.find("{{") else {
        return Ok(None);
    };
    let inner = &text[begin + 2..];
    let end = outside_quotes(inner, "}}")
        .next()
        .ok_or_else(|| TemplateError::Unclosed(text.to_owned()))?;
    Ok(Some((&text[..begin], &inner[..end], &inner[end + 2..])))
}

/// Parses the text between the braces.
pub(super) fn expression(text: &str) -> Result<Expression, TemplateError> {
    parse(text).map_err(|source| TemplateError::Syntax {
        expression: text.to_owned(),
        source,
    })
}

fn parse(text: &str) -> Result<Expression, SyntaxError> {
    let (body, filter) = match outside_quotes(text, "|").next() {
        Some(bar) => (text[..bar].trim(), Some(text[bar + 1..].trim())),
        None => (text.trim(), None),
    };
    let raw = match filter {
        None => false,
        Some("raw") => true,
        Some(_) => return Err(SyntaxError::Filter),
    };
    if let Some(text) = quoted(body) {
        return Ok(Expression::Text(text.to_owned()));
    }
    let (name, arguments) = match body.split_once('(') {
        None => (body, ""),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(arguments) => (name.trim_end(), arguments),
            None => return Err(SyntaxError::Parenthesis),
        },
    };
    let (set, column) = name.split_once('.').unwrap_or((name, "column"));
    if !is_name(set) || !is_name(column) {
        return Err(SyntaxError::Name);
    }
    Ok(Expression::Value(Call {
        name: name.to_owned(),
        arguments: split(arguments)?,
        raw,
    }))
}

/// Returns whether the text is a valid name.
pub(in super::super) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(allowed)
}

fn split(text: &str) -> Result<Vec<(String, String)>, SyntaxError> {
    let mut arguments = Vec::new();
    if text.trim().is_empty() {
        return Ok(arguments);
    }
    let mut from = 0;
    let ends = outside_quotes(text, ",").chain([text.len()]);
    for end in ends {
        let piece = text[from..end].trim();
        from = end + 1;
        if piece.is_empty() {
            return Err(SyntaxError::EmptyArgument);
        }
        let (name, value) = match outside_quotes(piece, "=").next() {
            Some(at) => (piece[..at].trim(), piece[at + 1..].trim()),
            None => ("", piece),
        };
        let value = quoted(value).unwrap_or(value);
        arguments.push((name.to_owned(), value.to_owned()));
    }
    Ok(arguments)
}

/// Returns the text within quotes, if `text` is quoted.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote)).then_some(inner)
}

/// Finds `what` outside quotes.
fn outside_quotes<'t>(text: &'t str, what: &'t str) -> impl Iterator<Item = usize> + 't {
    let mut quote = None;
    text.char_indices().filter_map(move |(at, character)| {
        match quote {
            Some(open) if open == character => quote = None,
            Some(_) => {}
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None if text[at..].starts_with(what) => return Some(at),
            None => {}
        }
        None
    })
}
