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

/// The reasons why a response with a status of success does not acknowledge a write.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcknowledgementError {
    /// The body is an error document with S3's code.
    #[error("status {status} with the error {code}")]
    ErrorDocument { status: u16, code: String },
    #[error("status {status} without an ETag")]
    NoEntityTag { status: u16 },
    /// The last known entity tag of the object, and the entity tag of the response.
    #[error("expected the ETag {expected} of the write, found {found}")]
    EntityTag { expected: String, found: String },
}

/// Objects of one store with the entity tags of their last writes.
#[derive(Debug, Default)]
pub(super) struct AcknowledgedObjects(Mutex<HashMap<String, Vec<String>>>);

impl AcknowledgedObjects {
    /// Adds the entity tag of an acknowledged write to the tags of the object.
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
    /// If the tag is missing, or belongs to another object.
    pub(super) fn compare(
        &self,
        key: &str,
        response: &Response,
    ) -> Result<(), AcknowledgementError> {
        let found = entity_tag(response)?;
        match self.0.lock().get(key) {
            Some(tags) if !tags.contains(&found) => Err(AcknowledgementError::EntityTag {
                expected: tags.last().cloned().unwrap_or_default(),
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// Returns the entity tag of a response that acknowledges a PUT.
///
/// # Errors
/// If the response does not acknowledge the write.
pub(super) fn acknowledgement(response: &Response) -> Result<String, AcknowledgementError> {
    no_error(response)?;
    entity_tag(response)
}

/// Checks that a response with a status of success is not an error document.
///
/// # Errors
/// [`AcknowledgementError::ErrorDocument`].
pub(super) fn no_error(response: &Response) -> Result<(), AcknowledgementError> {
    let status = response.status;
    match error_code(&response.body) {
        Some(code) => Err(AcknowledgementError::ErrorDocument { status, code }),
        None => Ok(()),
    }
}

/// Returns the tag without quotes, because some stores send the quotes for PUT and not for HEAD.
fn entity_tag(response: &Response) -> Result<String, AcknowledgementError> {
    let tag = response.headers.get("etag").unwrap_or_default();
    match tag.trim_start_matches("W/").trim_matches('"') {
        "" => Err(AcknowledgementError::NoEntityTag {
            status: response.status,
        }),
        tag => Ok(tag.to_owned()),
    }
}
