//! Extraction of a few values from a JSON document without building the rest of it.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use serde_json::Value;

use super::options::JsonType;

/// The text is not a JSON pointer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a JSON pointer: it must begin with a slash")]
pub(super) struct JsonPointerError(String);

/// The document is not JSON. All pointers into the document share the error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the body is not JSON: {0}")]
pub(super) struct DocumentError(#[source] Arc<serde_json::Error>);

/// Tree of the wanted places.
#[derive(Debug, Default)]
pub(super) struct JsonPointers {
    root: PointerNode,
    count: usize,
}

#[derive(Debug, Default)]
struct PointerNode {
    /// Numbers of the pointers to this place.
    wanted: Vec<usize>,
    /// Children by key of an object, or by index of an array.
    below: Vec<(String, PointerNode)>,
}

/// The value at a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonMatch {
    pub(super) kind: JsonType,
    /// Number of items, keys or characters; 0 for other types.
    pub(super) length: u64,
    /// The text itself, or the number as written; empty for objects and arrays.
    pub(super) text: String,
}

impl JsonMatch {
    /// Returns whether the value is an object or an array.
    pub(super) fn is_structure(&self) -> bool {
        matches!(self.kind, JsonType::Object | JsonType::Array)
    }
}

impl JsonPointers {
    /// Adds a JSON pointer (RFC 6901).
    pub(super) fn add(&mut self, pointer: &str) -> Result<usize, JsonPointerError> {
        let mut node = &mut self.root;
        for token in tokens(pointer)? {
            let known = node.below.iter().position(|(key, _)| *key == token);
            let index = known.unwrap_or_else(|| {
                node.below.push((token, PointerNode::default()));
                node.below.len() - 1
            });
            node = &mut node.below[index].1;
        }
        node.wanted.push(self.count);
        self.count += 1;
        Ok(self.count - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Extracts the values at all pointers from `document`.
    pub(super) fn look(&self, document: &[u8]) -> Result<Vec<Option<JsonMatch>>, DocumentError> {
        let mut found = vec![None; self.count];
        let mut reader = serde_json::Deserializer::from_slice(document);
        let look = PointerVisitor {
            node: &self.root,
            found: &mut found,
        };
        let read = look.deserialize(&mut reader).and_then(|()| reader.end());
        match read {
            Ok(()) => Ok(found),
            Err(error) => Err(DocumentError(Arc::new(error))),
        }
    }
}

/// A JSON pointer to several values: `*` stands for every item of an array.
#[derive(Debug)]
pub(super) struct JsonList(Vec<String>);

impl JsonList {
    pub(super) fn parse(pointer: &str) -> Result<Self, JsonPointerError> {
        tokens(pointer).map(Self)
    }

    /// Returns the texts, numbers and other single values at the pointer. An array there counts as
    /// its items.
    pub(super) fn texts(&self, document: &[u8]) -> Result<Vec<String>, DocumentError> {
        let document: Value =
            serde_json::from_slice(document).map_err(|error| DocumentError(Arc::new(error)))?;
        let mut found = vec![&document];
        for token in &self.0 {
            found = found.into_iter().flat_map(|it| below(it, token)).collect();
        }
        let values = found.into_iter().flat_map(items);
        let texts = values.filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Array(_) | Value::Object(_) => None,
            other => Some(other.to_string()),
        });
        Ok(texts.collect())
    }
}

/// Returns the values at a token of a pointer.
fn below<'v>(value: &'v Value, token: &str) -> Vec<&'v Value> {
    match (token, value) {
        ("*", Value::Array(_)) => items(value),
        ("*", _) => Vec::new(),
        (token, Value::Array(list)) => {
            let index = (0..list.len()).find(|index| is_number(token, *index as u64));
            index.map(|index| &list[index]).into_iter().collect()
        }
        (token, value) => value.get(token).into_iter().collect(),
    }
}

/// Returns the items of an array, or the value itself.
fn items(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![other],
    }
}

/// Splits a JSON pointer; `/` alone means the whole document, like the empty pointer.
fn tokens(pointer: &str) -> Result<Vec<String>, JsonPointerError> {
    if pointer.is_empty() || pointer == "/" {
        return Ok(Vec::new());
    }
    let tokens = pointer.strip_prefix('/');
    let tokens = tokens.ok_or_else(|| JsonPointerError(pointer.to_owned()))?;
    let tokens = tokens.split('/');
    let decode = |token: &str| token.replace("~1", "/").replace("~0", "~");
    Ok(tokens.map(decode).collect())
}

struct PointerVisitor<'a> {
    node: &'a PointerNode,
    found: &'a mut [Option<JsonMatch>],
}

impl PointerVisitor<'_> {
    fn is(self, kind: JsonType, length: u64, text: impl fmt::Display) {
        let Some((last, others)) = self.node.wanted.split_last() else {
            return;
        };
        let text = text.to_string();
        let found = JsonMatch { kind, length, text };
        for index in others {
            self.found[*index] = Some(found.clone());
        }
        self.found[*last] = Some(found);
    }
}

impl<'de> DeserializeSeed<'de> for PointerVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.node.wanted.is_empty() && self.node.below.is_empty() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PointerVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.is(JsonType::Boolean, 0, value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.is(JsonType::Number, 0, value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.is(JsonType::Number, 0, value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.is(JsonType::Number, 0, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        let length = if self.node.wanted.is_empty() {
            0
        } else {
            value.chars().count() as u64
        };
        self.is(JsonType::String, length, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.is(JsonType::Null, 0, "null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let PointerVisitor { node, found } = self;
        let nowhere = PointerNode::default();
        let mut count = 0_u64;
        loop {
            let below = node.below.iter().find(|(key, _)| is_number(key, count));
            let item = PointerVisitor {
                node: below.map_or(&nowhere, |(_, node)| node),
                found: &mut *found,
            };
            if items.next_element_seed(item)?.is_none() {
                break;
            }
            count += 1;
        }
        PointerVisitor { node, found }.is(JsonType::Array, count, "");
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let PointerVisitor { node, found } = self;
        let mut count = 0;
        while let Some(below) = entries.next_key_seed(Key(node))? {
            count += 1;
            match below {
                None => _ = entries.next_value::<IgnoredAny>()?,
                Some(node) => entries.next_value_seed(PointerVisitor {
                    node,
                    found: &mut *found,
                })?,
            }
        }
        PointerVisitor { node, found }.is(JsonType::Object, count, "");
        Ok(())
    }
}

/// Returns whether a token of a pointer is the index of this item.
fn is_number(token: &str, number: u64) -> bool {
    token.parse() == Ok(number) && (token.len() == 1 || !token.starts_with(['0', '+']))
}

/// Finds the node of an object's key.
struct Key<'p>(&'p PointerNode);

impl<'de, 'p> DeserializeSeed<'de> for Key<'p> {
    type Value = Option<&'p PointerNode>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Option<&'p PointerNode>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let mut below = self.0.below.iter();
        Ok(below.find(|(known, _)| known == key).map(|(_, node)| node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the values at these pointers as `type length text`.
    fn look(document: &str, pointers: &[&str]) -> Result<Vec<String>, DocumentError> {
        let mut compiled = JsonPointers::default();
        for (index, pointer) in pointers.iter().enumerate() {
            assert_eq!(compiled.add(pointer), Ok(index));
        }
        let show = |found: Option<JsonMatch>| match found {
            Some(found) => format!("{:?} {} {}", found.kind, found.length, found.text),
            None => "nothing".to_owned(),
        };
        Ok(compiled
            .look(document.as_bytes())?
            .into_iter()
            .map(show)
            .collect())
    }

    #[test]
    fn places_are_found_and_the_rest_is_passed_over() {
        let document = r#"{"data": [{"id": "ä\"x"}, {"id": 7}], "total": 2.5, "a/b": {"~": null},
            "deep": {"deeper": [[], [true]]}, "unused": [1, {"x": "y"}]}"#;
        let found = look(
            document,
            &[
                "/",
                "",
                "/data",
                "/data/0/id",
                "/data/1/id",
                "/data/2",
                "/total",
                "/a~1b/~0",
                "/deep/deeper/1/0",
                "/deep/deeper/01",
                "/none",
                "/total/x",
                "/data",
            ],
        );
        assert_eq!(
            found.unwrap(),
            [
                "Object 5 ",
                "Object 5 ",
                "Array 2 ",
                "String 3 ä\"x",
                "Number 0 7",
                "nothing",
                "Number 0 2.5",
                "Null 0 null",
                "Boolean 0 true",
                "nothing",
                "nothing",
                "nothing",
                "Array 2 "
            ]
        );
    }

    #[test]
    fn lists_have_all_values_at_their_pointer() {
        let document = br#"{"data": [{"id": 1, "tags": ["a", "b"]}, {"id": "x"}, 7], "none": []}"#;
        let texts = |pointer: &str| JsonList::parse(pointer).unwrap().texts(document).unwrap();
        assert_eq!(texts("/data/*/id"), ["1", "x"]);
        assert_eq!(texts("/data"), ["7"], "objects are no values");
        assert_eq!(texts("/data/0/tags"), ["a", "b"]);
        assert_eq!(texts("/data/*/tags/*"), ["a", "b"]);
        assert_eq!(texts("/data/1/id"), ["x"]);
        for nothing in ["/none", "/none/*", "/data/01/id", "/*"] {
            assert!(texts(nothing).is_empty(), "{nothing}");
        }
        let whole = JsonList::parse("/").unwrap().texts(b"[1, \"a\"]");
        assert_eq!(whole.unwrap(), ["1", "a"]);
        assert!(JsonList::parse("/a").unwrap().texts(b"<html>").is_err());
        assert!(JsonList::parse("data").is_err());
    }

    #[test]
    fn what_is_not_json_is_said_to_be_none_wherever_it_breaks() {
        for text in [
            "",
            "<html></html>",
            "{\"a\": 1",
            "{} {}",
            "[1, 2,]",
            "{\"a\": nul}",
        ] {
            let said = look(text, &["/b"]).unwrap_err().to_string();
            assert!(said.starts_with("the body is not JSON: "), "{text}: {said}");
        }
        assert_eq!(look("7", &["/", "/a"]).unwrap(), ["Number 0 7", "nothing"]);
        let error = JsonPointers::default().add("data").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`data` is not a JSON pointer: it must begin with a slash"
        );
    }
}
