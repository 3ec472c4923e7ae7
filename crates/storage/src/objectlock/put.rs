//! Values to store, and stored values.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use md5::{Digest, Md5};
use object_store::UpdateVersion;
use object_store::path::Path;
use tokio::time::Instant;

/// A value that a call of the lock stores, possibly with several requests.
pub(super) struct Put<'p> {
    pub(super) key: Path,
    pub(super) body: &'p [u8],
    pub(super) writer: String,
    pub(super) deadline: Instant,
}

impl<'p> Put<'p> {
    pub(super) fn new(key: Path, body: &'p [u8], deadline: Instant) -> Self {
        Self {
            key,
            body,
            writer: mark(),
            deadline,
        }
    }

    pub(super) fn limit(&self, response: Duration) -> Instant {
        self.deadline.min(Instant::now() + response)
    }
}

/// A stored object.
pub(super) struct Stored {
    pub(super) body: Vec<u8>,
    pub(super) version: UpdateVersion,
    pub(super) writer: Option<String>,
}

impl Stored {
    pub(super) fn is_by(&self, put: &Put<'_>) -> bool {
        // The store may have saved the mark before the object, so compare both.
        self.writer.as_deref() == Some(&put.writer) && self.body == put.body
    }

    /// Returns `true` if the e-tag is the MD5 of the object.
    pub(super) fn has_md5(&self) -> bool {
        let tag = self.version.e_tag.as_deref().unwrap_or_default();
        tag.trim_matches('"') == hex::encode(Md5::digest(&self.body))
    }
}

/// Returns a unique value for a put. The value may be predictable.
pub(crate) fn mark() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}
