//! Objects whose writes a store acknowledged, with their entity tags.

use std::collections::HashMap;

use lucarne_load::http::Response;
use parking_lot::Mutex;

use super::store::error_code;

/// Name of the check of a response to PUT, CREATE and DELETE.
pub(super) const ACKNOWLEDGED: &str = "write is acknowledged";
/// Name of the check that an entity tag is the tag of the write.
pub(super) const ENTITY_TAG: &str = "ETag is that of the write";

/// Limit of entity tags of one object: a store may choose a new tag for each write, even of the
/// same bytes.
const MOST: usize = 32;

/// Objects of one store with the entity tags of their last writes.
#[derive(Debug, Default)]
pub(super) struct AcknowledgedObjects(Mutex<HashMap<String, Vec<String>>>);

impl AcknowledgedObjects {
    /// Stores the entity tag of a write.
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

    /// Compares the entity tag of a response to GET or HEAD with the entity tags of the writes.
    ///
    /// # Errors
    /// Returns a description if the tag is missing, or belongs to another object.
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

/// Returns the entity tag of a response that acknowledges a PUT.
///
/// # Errors
/// Returns a description if the response does not acknowledge the write.
pub(super) fn acknowledgement(response: &Response) -> Result<String, String> {
    no_error(response)?;
    entity_tag(response)
}

/// Checks that a response with a status of success is not an error document.
///
/// # Errors
/// A description with S3's code.
pub(super) fn no_error(response: &Response) -> Result<(), String> {
    match error_code(&response.body) {
        Some(code) => Err(format!("{} with the error {code}", response.status)),
        None => Ok(()),
    }
}

/// Returns the tag without quotes: some stores send them for PUT and not for HEAD.
fn entity_tag(response: &Response) -> Result<String, String> {
    let tag = response.headers.get("etag").unwrap_or_default();
    match tag.trim_start_matches("W/").trim_matches('"') {
        "" => Err(format!("{} without an ETag", response.status)),
        tag => Ok(tag.to_owned()),
    }
}
