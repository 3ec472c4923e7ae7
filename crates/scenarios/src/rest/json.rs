//! Looking at a few places of a JSON document without building the rest of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::options::JsonType;

/// The places that are looked at, as a tree.
#[derive(Debug, Default)]
pub(super) struct Places {
    root: Place,
    count: usize,
}

#[derive(Debug, Default)]
struct Place {
    /// The numbers under which this place is wanted.
    wanted: Vec<usize>,
    /// By key of an object, or number of an item.
    below: Vec<(String, Place)>,
}

/// What stands at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: JsonType,
    /// Items, keys, or letters; 0 for everything else.
    pub(super) length: u64,
    /// What a text says, or a number as it would be written; empty for objects
    /// and arrays.
    pub(super) text: String,
}

impl Places {
    /// Adds a place by its pointer (RFC 6901); `/` alone stands for the whole
    /// document, as the empty pointer does.
    pub(super) fn add(&mut self, pointer: &str) -> Result<usize, String> {
        let mut place = &mut self.root;
        if !pointer.is_empty() && pointer != "/" {
            let tokens = pointer.strip_prefix('/').ok_or_else(|| {
                format!("`{pointer}` is not a JSON pointer: it begins with a slash")
            })?;
            for token in tokens.split('/') {
                let token = token.replace("~1", "/").replace("~0", "~");
                let known = place.below.iter().position(|(key, _)| *key == token);
                let index = known.unwrap_or_else(|| {
                    place.below.push((token, Place::default()));
                    place.below.len() - 1
                });
                place = &mut place.below[index].1;
            }
        }
        place.wanted.push(self.count);
        self.count += 1;
        Ok(self.count - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Looks at every place of `document`.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn look(&self, document: &[u8]) -> Result<Vec<Option<Found>>, String> {
        let mut found = vec![None; self.count];
        let mut reader = serde_json::Deserializer::from_slice(document);
        let look = Look {
            place: &self.root,
            found: &mut found,
        };
        let read = look.deserialize(&mut reader).and_then(|()| reader.end());
        match read {
            Ok(()) => Ok(found),
            Err(error) => Err(format!("the body is not JSON: {error}")),
        }
    }
}

struct Look<'a> {
    place: &'a Place,
    found: &'a mut [Option<Found>],
}

impl Look<'_> {
    fn is(self, kind: JsonType, length: u64, text: impl fmt::Display) {
        let Some((last, others)) = self.place.wanted.split_last() else {
            return;
        };
        let text = text.to_string();
        let found = Found { kind, length, text };
        for index in others {
            self.found[*index] = Some(found.clone());
        }
        self.found[*last] = Some(found);
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.place.wanted.is_empty() && self.place.below.is_empty() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
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
        let length = match self.place.wanted.is_empty() {
            true => 0,
            false => value.chars().count() as u64,
        };
        self.is(JsonType::String, length, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.is(JsonType::Null, 0, "null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Look { place, found } = self;
        let nowhere = Place::default();
        let mut count = 0_u64;
        loop {
            let below = place.below.iter().find(|(key, _)| is_number(key, count));
            let item = Look {
                place: below.map_or(&nowhere, |(_, place)| place),
                found: &mut *found,
            };
            if items.next_element_seed(item)?.is_none() {
                break;
            }
            count += 1;
        }
        Look { place, found }.is(JsonType::Array, count, "");
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Look { place, found } = self;
        let mut count = 0;
        while let Some(below) = entries.next_key_seed(Key(place))? {
            count += 1;
            match below {
                None => _ = entries.next_value::<IgnoredAny>()?,
                Some(place) => entries.next_value_seed(Look {
                    place,
                    found: &mut *found,
                })?,
            }
        }
        Look { place, found }.is(JsonType::Object, count, "");
        Ok(())
    }
}

/// Whether a token of a pointer names this item.
fn is_number(token: &str, number: u64) -> bool {
    token.parse() == Ok(number) && (token.len() == 1 || !token.starts_with(['0', '+']))
}

/// Finds what is looked at below a key.
struct Key<'p>(&'p Place);

impl<'de, 'p> DeserializeSeed<'de> for Key<'p> {
    type Value = Option<&'p Place>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Option<&'p Place>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let mut below = self.0.below.iter();
        Ok(below
            .find(|(known, _)| known == key)
            .map(|(_, place)| place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found at these places, as `type length text`.
    fn look(document: &str, pointers: &[&str]) -> Result<Vec<String>, String> {
        let mut places = Places::default();
        for (index, pointer) in pointers.iter().enumerate() {
            assert_eq!(places.add(pointer), Ok(index));
        }
        let show = |found: Option<Found>| match found {
            Some(found) => format!("{:?} {} {}", found.kind, found.length, found.text),
            None => "nothing".to_owned(),
        };
        Ok(places
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
    fn what_is_not_json_is_said_to_be_none_wherever_it_breaks() {
        for text in [
            "",
            "<html></html>",
            "{\"a\": 1",
            "{} {}",
            "[1, 2,]",
            "{\"a\": nul}",
        ] {
            let said = look(text, &["/b"]).unwrap_err();
            assert!(said.contains("is not JSON"), "{text}: {said}");
        }
        assert_eq!(look("7", &["/", "/a"]).unwrap(), ["Number 0 7", "nothing"]);
        assert!(Places::default().add("data").is_err());
    }
}
