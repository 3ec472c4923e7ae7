//! A YAML document as a tree whose nodes have line numbers.
//!
//! Scalars stay text: a log may be called `2026e1` without becoming the number 20260. Anchors,
//! aliases and merge keys (`<<`) are supported, so that several logs can share settings.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

/// A node with its line (1 is the first).
#[derive(Clone, Debug)]
pub struct Node {
    /// Line number, from 1.
    pub line: usize,
    /// Kind and contents.
    pub value: Value,
}

impl Node {
    /// Returns an estimate of the memory of the node and its descendants, in bytes.
    fn size(&self) -> usize {
        let contents = match &self.value {
            Value::Nothing | Value::Unset => 0,
            Value::Scalar(text) => text.len(),
            Value::List(items) => items.iter().map(Node::size).sum(),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| entry.key.len() + size_of::<String>() + entry.value.size())
                .sum(),
        };
        size_of::<Node>() + contents
    }
}

/// The kind of a node, with its contents.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value, `null`, or `~`.
    Nothing,
    /// A reference to an environment variable that is not set, which was reported.
    Unset,
    /// A single value as text, without quotes.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, including repeated keys.
    Map(Vec<Entry>),
}

/// A pair `key: value` of a map.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The line of the key.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The node under the key.
    pub value: Node,
    /// Whether the entry comes from `<<`. An explicit key overrides this entry.
    merged: bool,
}

impl Entry {
    /// Creates an entry at the place of its value.
    pub fn new(key: &str, value: Node) -> Self {
        Entry {
            line: value.line,
            key: key.to_owned(),
            value,
            merged: false,
        }
    }
}

impl Value {
    /// Describes the kind for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nothing => "nothing",
            Value::Unset => "an environment variable that is not set",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map of keys",
        }
    }
}

/// The first position at which the file is not valid YAML.
#[derive(Debug)]
pub struct SyntaxError {
    /// Line of the error.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

impl From<ScanError> for SyntaxError {
    fn from(error: ScanError) -> Self {
        SyntaxError {
            line: error.marker().line(),
            message: advised(&error.info()),
        }
    }
}

/// Adds the usual remedy to the parser's description of an error.
fn advised(description: &str) -> String {
    let advice = if description.contains("found a tab") {
        ": indent with spaces"
    } else if description.contains("expected ':'") {
        ": write `key: value`"
    } else {
        ""
    };
    format!("{description}{advice}")
}

/// Parses `yaml`, which must be one document; an empty file is an empty map.
///
/// # Errors
/// If the text is not YAML, or has a second document, whose settings would be ignored.
pub fn parse(yaml: &str) -> Result<Node, SyntaxError> {
    let mut builder = Builder {
        events: Parser::new_from_str(yaml),
        anchors: HashMap::new(),
        copied: 0,
    };
    loop {
        match builder.next()? {
            (Event::StreamEnd, _) => {
                return Ok(Node {
                    line: 1,
                    value: Value::Map(Vec::new()),
                });
            }
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (event, line) => {
                let root = builder.node(event, line)?;
                builder.end()?;
                return Ok(root);
            }
        }
    }
}

/// Limit of the [size](Node::size) of all nodes that aliases copy. Nested aliases multiply, so that
/// a file of 1 KiB can otherwise fill the memory.
const MOST_COPIED: usize = 64 << 20;

struct Builder<'y, I: Iterator<Item = Spanned<'y>>> {
    events: I,
    /// Anchored nodes, with their sizes.
    anchors: HashMap<usize, (Node, usize)>,
    /// Size of all nodes that aliases have copied.
    copied: usize,
}

type Spanned<'y> = Result<(Event<'y>, granit_parser::Span), ScanError>;

impl<'y, I: Iterator<Item = Spanned<'y>>> Builder<'y, I> {
    /// Returns the next event that is not a comment, with its line. The tags of the core schema,
    /// such as `!!str`, change nothing here, because values are read by their keys. Another tag
    /// requires a function of another program, such as `!include`.
    fn next(&mut self) -> Result<(Event<'y>, usize), SyntaxError> {
        loop {
            match self.events.next().transpose()? {
                None => return Ok((Event::StreamEnd, 0)),
                Some((Event::Comment(..), _)) => {}
                Some((event, span)) => {
                    let line = span.start.line();
                    return match event.tag().filter(|tag| tag.is_custom()) {
                        None => Ok((event, line)),
                        Some(tag) => Err(SyntaxError {
                            line,
                            message: format!("unknown YAML tag `{tag}`: remove the tag"),
                        }),
                    };
                }
            }
        }
    }

    /// Checks the end of the only document.
    fn end(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(..), line) => {
                    return Err(SyntaxError {
                        line,
                        message: "a second document begins here (`---`): a file must have one \
                                  document: remove this line, or the settings after this line"
                            .into(),
                    });
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'y>, line: usize) -> Result<Node, SyntaxError> {
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(id) => self.alias(id, line)?,
            Event::Scalar(text, style, ..) => scalar(text.into_owned(), style),
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            _ => return Err(unexpected(line)),
        };
        let node = Node { line, value };
        if let Some(id) = anchor {
            self.anchors.insert(id, (node.clone(), node.size()));
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, line: usize) -> Result<Value, SyntaxError> {
        let (target, size) = self.anchors.get(&id).ok_or(SyntaxError {
            line,
            message: "this alias refers to an anchor that is not complete here".into(),
        })?;
        self.copied = self.copied.saturating_add(*size);
        if self.copied > MOST_COPIED {
            return Err(SyntaxError {
                line,
                message: "the aliases of this file copy more than 64 MiB: remove aliases".into(),
            });
        }
        Ok(target.value.clone())
    }

    fn list(&mut self) -> Result<Value, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, line) => items.push(self.node(event, line)?),
            }
        }
    }

    fn map(&mut self) -> Result<Value, SyntaxError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, line) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Map(settle(entries))),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(unexpected(line)),
            };
            let (event, value_line) = self.next()?;
            let value = self.node(event, value_line)?;
            if key == "<<" {
                merge(value, &mut entries)?;
            } else {
                entries.push(Entry {
                    line,
                    key,
                    value,
                    merged: false,
                });
            }
        }
    }
}

fn scalar(text: String, style: ScalarStyle) -> Value {
    let plain = style == ScalarStyle::Plain;
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" if plain => Value::Nothing,
        _ => Value::Scalar(text),
    }
}

/// Appends the entries of a merge key's map (or list of maps).
fn merge(source: Node, entries: &mut Vec<Entry>) -> Result<(), SyntaxError> {
    match source.value {
        Value::Map(merged) => entries.extend(merged.into_iter().map(|entry| Entry {
            merged: true,
            ..entry
        })),
        Value::List(maps) => {
            for map in maps {
                merge(map, entries)?;
            }
        }
        _ => {
            return Err(SyntaxError {
                line: source.line,
                message: "`<<` takes a map, or a list of maps".into(),
            });
        }
    }
    Ok(())
}

/// Removes merged entries that an explicit entry, or an earlier merge, overrides. Explicit
/// duplicates stay, because they are reported.
fn settle(entries: Vec<Entry>) -> Vec<Entry> {
    let mut settled: Vec<Entry> = Vec::with_capacity(entries.len());
    let (merged, written): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.merged);
    settled.extend(written);
    for entry in merged {
        if settled.iter().all(|other| other.key != entry.key) {
            settled.push(entry);
        }
    }
    settled
}

fn unexpected(line: usize) -> SyntaxError {
    SyntaxError {
        line,
        message: "a key or a value is expected here".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten levels of ten aliases each are ten thousand million nodes.
    #[test]
    fn nested_aliases_are_bounded() {
        let levels = |count: usize| {
            let mut yaml = String::from("a0: &a0 [x]\n");
            for level in 1..=count {
                let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
                yaml.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
            }
            yaml
        };
        parse(&levels(3)).unwrap();
        let error = parse(&levels(10)).unwrap_err();
        assert!(error.message.contains("64 MiB"), "{}", error.message);
        assert!(error.line > 3, "{}", error.line);
    }

    #[test]
    fn unknown_tags_are_refused() {
        parse("a: !!str 1\nb: !!map {c: !!seq []}\n").unwrap();
        for (yaml, tag, line) in [
            ("a: 1\nb: !include x.yaml\n", "!include", 2),
            ("a: [!secret x]\n", "!secret", 1),
            ("a:\n  !Custom {b: 1}\n", "!Custom", 2),
            ("!key a: 1\n", "!key", 1),
            ("a: !!binary aGk=\n", "tag:yaml.org,2002:binary", 1),
        ] {
            let error = parse(yaml).unwrap_err();
            let message = format!("unknown YAML tag `{tag}`: remove the tag");
            assert_eq!((error.message, error.line), (message, line), "{yaml}");
        }
    }

    #[test]
    fn frequent_mistakes_have_a_remedy() {
        for (yaml, remedy) in [
            ("a:\n  b: 1\n\tc: 2\n", "indent with spaces"),
            ("a:\n  b: 1\n  c 2\n  d: 3\n", "write `key: value`"),
        ] {
            let error = parse(yaml).unwrap_err();
            assert!(
                error.message.ends_with(remedy),
                "{yaml:?}: {}",
                error.message
            );
        }
    }
}
