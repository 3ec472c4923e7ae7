//! Objects that a store has acknowledged, with the entity tags that it gave them.

use std::collections::HashMap;

use lucarne_load::http::Response;
use parking_lot::Mutex;

use super::store::error_code;

/// The name of the check of a response to PUT, CREATE and DELETE.
pub(super) const ACKNOWLEDGED: &str = "write is acknowledged";
/// The name of the check of an entity tag: that of the write, and of no other object.
pub(super) const ENTITY_TAG: &str = "ETag is that of the write";

/// The number of entity tags that are kept of one object: a store may choose another one
/// for each write, even of the same bytes.
const MOST: usize = 32;

/// The objects of one store, each with the entity tags of its last writes.
#[derive(Debug, Default)]
pub(super) struct AcknowledgedObjects(Mutex<HashMap<String, Vec<String>>>);

impl AcknowledgedObjects {
    /// Keeps the entity tag of a write.
    pub(super) fn remember(&self, key: &str, tag: String) {
        let mut objects = self.0.lock();
        let tags = objects.entry(key.to_owned()).or_default();
        if !tags.contains(&tag) {
            if tags.len() == MOST {
                tags.remove(0);
            }
            tags.push(tag);
        }
    }

    /// Returns whether the object was written.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Returns the number of objects that were written.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().len() as u64
    }

    /// Compares the entity tag of a response to GET or HEAD with those of the writes.
    ///
    /// # Errors
    /// In words: it is missing, or that of another object.
    pub(super) fn compare(&self, key: &str, response: &Response) -> Result<(), String> {
        let found = entity_tag(response)?;
        match self.0.lock().get(key) {
            Some(tags) if !tags.contains(&found) => Err(format!(
                "expected the ETag {} of the write, found {found}",
                tags.last().map_or("", String::as_str)
            )),
            _ => Ok(()),
        }
    }
}

/// The entity tag of a response that acknowledges a PUT.
///
/// # Errors
/// In words: it acknowledges nothing.
pub(super) fn acknowledgement(response: &Response) -> Result<String, String> {
    no_error(response)?;
    entity_tag(response)
}

/// Checks that a response is not an error document with a status of success.
///
/// # Errors
/// In words, with S3's code.
pub(super) fn no_error(response: &Response) -> Result<(), String> {
    match error_code(&response.body) {
        Some(code) => Err(format!("{} with the error {code}", response.status)),
        None => Ok(()),
    }
}

/// Without quotes: some stores send them to PUT and not to HEAD.
fn entity_tag(response: &Response) -> Result<String, String> {
    let tag = response.headers.get("etag").unwrap_or_default();
    match tag.trim_start_matches("W/").trim_matches('"') {
        "" => Err(format!("{} without an ETag", response.status)),
        tag => Ok(tag.to_owned()),
    }
}
