//! Serialization of tags as a JSON object.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serializer};

use super::TagList;

pub(super) fn serialize<S: Serializer>(tags: &TagList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tags.iter().map(|(name, value)| (name, value)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TagList, D::Error> {
    Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
}
