//! The page of what was seen, and its JSON.

use bytes::Bytes;
use http::Response;

use super::Observer;

/// The answer to a GET of `path` below the place where the observer is mounted (no leading
/// slash; empty: the page), with the query as it stands. `None`: there is no such page.
pub fn routes(_observer: &Observer, _path: &str, _query: &str) -> Option<Response<Bytes>> {
    None
}
