//! A node of the tree as a serde deserializer.

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use crate::tree::{Entry, Node, Value};
use crate::typed::SettingsError;
use crate::values;

/// Beginning of the name of a field that is a group: a struct with keys of the same map. Serde's
/// `flatten` would guess the types of values, and lose the lines of invalid values.
const GROUP: &str = "..";

fn scalar(node: &Node) -> Result<&str, SettingsError> {
    match &node.value {
        Value::Scalar(text) => Ok(text),
        other => Err(SettingsError::custom(format!(
            "must be a single value, but is {}",
            other.kind()
        ))),
    }
}

fn parse<T: std::str::FromStr>(node: &Node, what: &str) -> Result<T, SettingsError> {
    let text = scalar(node)?;
    let wrong = |_| SettingsError::custom(format!("`{text}` is not {what}"));
    text.parse().map_err(wrong)
}

/// Numbers are parsed only if the type requires a number, because a text may look like a number.
macro_rules! numbers {
    ($($method:ident $visit:ident $what:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
            visitor.$visit(parse(self, $what)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = SettingsError;

    numbers! {
        deserialize_i8 visit_i8 "a whole number from -128 to 127"
        deserialize_i16 visit_i16 "a whole number"
        deserialize_i32 visit_i32 "a whole number"
        deserialize_i64 visit_i64 "a whole number"
        deserialize_u8 visit_u8 "a whole number from 0 to 255"
        deserialize_u16 visit_u16 "a whole number from 0 to 65535"
        deserialize_u32 visit_u32 "a whole number"
        deserialize_u64 visit_u64 "a whole number"
        deserialize_f32 visit_f32 "a number"
        deserialize_f64 visit_f64 "a number"
    }

    /// For types that inspect the value first: the type of a scalar is guessed, as in other YAML
    /// parsers.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match &self.value {
            Value::Nothing | Value::Unset => visitor.visit_none(),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            Value::Scalar(text) => {
                if let Ok(value) = values::boolean(text) {
                    visitor.visit_bool(value)
                } else if let Ok(number) = text.parse() {
                    visitor.visit_u64(number)
                } else if let Ok(number) = text.parse() {
                    visitor.visit_f64(number)
                } else {
                    visitor.visit_borrowed_str(text)
                }
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        let text = scalar(self)?;
        let value = values::boolean(text);
        visitor.visit_bool(value.map_err(|why| SettingsError::custom(format!("`{text}` {why}")))?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        visitor.visit_char(parse(self, "a single letter")?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        visitor.visit_borrowed_str(scalar(self)?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        visitor.visit_borrowed_bytes(scalar(self)?.as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.value {
            Value::Nothing => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        visitor.visit_newtype_struct(self)
    }

    /// A single value is accepted as a list of one.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        visitor.visit_seq(Items {
            rest: match &self.value {
                Value::List(items) => items,
                Value::Nothing => &[],
                _ => std::slice::from_ref(self),
            },
            next: 0,
            alone: !matches!(self.value, Value::List(_)),
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        let entries = match &self.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Nothing => &[],
            other => {
                let message = format!("must be a map of keys, but is {}", other.kind());
                return Err(SettingsError::custom(message));
            }
        };
        visitor.visit_map(Entries {
            rest: entries.iter(),
            fields: fields.iter(),
            map: self,
            value: None,
        })
    }

    /// A word, or a map with the word as its only key.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        match &self.value {
            Value::Map(entries) if entries.len() == 1 => visitor.visit_enum(Variant(&entries[0])),
            _ => visitor.visit_enum(scalar(self)?.into_deserializer()),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        visitor.visit_unit()
    }
}

struct Items<'de> {
    rest: &'de [Node],
    next: usize,
    alone: bool,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = SettingsError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SettingsError> {
        let Some((node, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let key = if self.alone {
            String::new()
        } else {
            format!("[{}]", self.next)
        };
        (self.rest, self.next) = (rest, self.next + 1);
        let value = seed.deserialize(node);
        value
            .map(Some)
            .map_err(|error| error.under(&key, node.line))
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    /// Fields of the struct, for its groups.
    fields: std::slice::Iter<'static, &'static str>,
    map: &'de Node,
    /// Key in messages, and value.
    value: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = SettingsError;

    /// A key without a value counts as missing.
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, SettingsError> {
        let written = |entry: &&Entry| !matches!(entry.value.value, Value::Nothing | Value::Unset);
        let (key, line) = if let Some(entry) = self.rest.find(written) {
            self.value = Some((&entry.key, &entry.value));
            (entry.key.as_str(), entry.line)
        } else if let Some(group) = self.fields.find(|field| field.starts_with(GROUP)) {
            self.value = Some(("", self.map));
            (*group, self.map.line)
        } else {
            return Ok(None);
        };
        let key: StrDeserializer<'de, SettingsError> = key.into_deserializer();
        let key = seed.deserialize(key).map_err(|mut error| {
            error.line.get_or_insert(line);
            error
        });
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, SettingsError> {
        let value = self.value.take();
        let (key, node) = value.ok_or_else(|| SettingsError::custom("a value without its key"))?;
        let value = seed.deserialize(node);
        value.map_err(|error| error.under(key, node.line))
    }
}

struct Variant<'de>(&'de Entry);

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = SettingsError;
    type Variant = &'de Node;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), SettingsError> {
        let name: StrDeserializer<'de, SettingsError> = self.0.key.as_str().into_deserializer();
        Ok((seed.deserialize(name)?, &self.0.value))
    }
}

impl<'de> VariantAccess<'de> for &'de Node {
    type Error = SettingsError;

    fn unit_variant(self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, SettingsError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_map(visitor)
    }
}
