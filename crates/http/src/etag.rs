//! Entity tags: strong, and computed before anybody asks.

use http::HeaderValue;
use http::header::{HeaderMap, IF_NONE_MATCH, IF_RANGE};

use crate::encoding::Coding;

/// The entity tags of everything in one log that never changes.
///
/// An entity tag only has to tell apart the bytes that one URL has ever stood
/// for. A tile or an issuer never changes once it is there, so the tag need
/// not depend on the bytes, nor even on the path: the log's ID (a log made
/// anew under an old name is another log) and the encoding say it all. Nothing
/// is hashed or formatted when a tile is served.
pub(crate) struct Immutable {
    identity: HeaderValue,
    gzip: HeaderValue,
    zstd: HeaderValue,
}

impl Immutable {
    pub(crate) fn new(log_id: &[u8]) -> Self {
        let id = hex::encode(log_id.get(..6).unwrap_or(log_id));
        Immutable {
            identity: quoted(&id),
            gzip: quoted(&format!("{id}-gz")),
            zstd: quoted(&format!("{id}-zst")),
        }
    }

    pub(crate) fn of(&self, coding: Coding) -> &HeaderValue {
        match coding {
            Coding::Identity => &self.identity,
            Coding::Gzip => &self.gzip,
            Coding::Zstd => &self.zstd,
        }
    }
}

/// The tag of something that does change: taken from its bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> HeaderValue {
    quoted(&hex::encode(&lucarne_tlog::leaf_hash(bytes).0[..16]))
}

fn quoted(tag: &str) -> HeaderValue {
    // Letters, digits and hyphens are always a valid header value.
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether the reader already has what this tag stands for (304).
pub(crate) fn already_there(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|header| {
        header == tag
            || header.as_bytes().split(|&b| b == b',').any(|item| {
                let item = item.trim_ascii();
                item == b"*" || item.strip_prefix(b"W/").unwrap_or(item) == tag.as_bytes()
            })
    })
}

/// Whether a `Range` applies: there is no `If-Range`, or it names this very
/// tag. A date never does: nothing here has a modification time.
pub(crate) fn range_applies(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers.get(IF_RANGE).is_none_or(|header| header == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))])
    }

    #[test]
    fn comparison_is_weak_for_if_none_match() {
        let tag = HeaderValue::from_static("\"abc\"");
        for value in [
            "\"abc\"",
            "W/\"abc\"",
            "\"x\", \"abc\"",
            "*",
            "W/\"y\" ,W/\"abc\"",
        ] {
            assert!(already_there(&asked(value), &tag), "{value}");
        }
        for value in ["abc", "\"abcd\"", "", "\"ABC\""] {
            assert!(!already_there(&asked(value), &tag), "{value}");
        }
        assert!(!already_there(&HeaderMap::new(), &tag));
    }

    #[test]
    fn comparison_is_strong_for_if_range() {
        let tag = HeaderValue::from_static("\"abc\"");
        let with = |v| HeaderMap::from_iter([(IF_RANGE, HeaderValue::from_static(v))]);
        assert!(range_applies(&HeaderMap::new(), &tag));
        assert!(range_applies(&with("\"abc\""), &tag));
        assert!(!range_applies(&with("W/\"abc\""), &tag));
        assert!(!range_applies(&with("Wed, 21 Oct 2015 07:28:00 GMT"), &tag));
    }

    #[test]
    fn encodings_have_tags_of_their_own() {
        let tags = Immutable::new(&[0xab; 32]);
        assert_eq!(tags.of(Coding::Identity), "\"abababababab\"");
        assert_eq!(tags.of(Coding::Gzip), "\"abababababab-gz\"");
        assert_eq!(tags.of(Coding::Zstd), "\"abababababab-zst\"");
    }
}
