//! Conditional requests.

use http::header::{ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};

/// Validators of a response. A server compares the validators in a request with its present ones,
/// to detect a change (RFC 9110, section 8.8).
#[derive(Clone, Debug, Default)]
pub struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Validators {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Validators {
            etag: headers.get(ETAG).cloned(),
            last_modified: headers.get(LAST_MODIFIED).cloned(),
        }
    }

    pub(super) fn is_some(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    pub(super) fn put(&self, headers: &mut HeaderMap) {
        let conditions = [
            (IF_NONE_MATCH, &self.etag),
            (IF_MODIFIED_SINCE, &self.last_modified),
        ];
        for (name, value) in conditions {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }
}
