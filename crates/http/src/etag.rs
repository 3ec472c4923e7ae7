//! Strong entity tags, computed once for each content.

use http::HeaderValue;
use http::header::{HeaderMap, IF_NONE_MATCH, IF_RANGE};

use lucarne_log::StoredFile;

use crate::encoding::ContentCoding;

/// Returns the tag of a stored file in this coding. The tag is the sum of the stored bytes, which
/// was computed when the bytes were read. Different bytes have different tags, and serving a tile
/// needs no hashing.
pub(crate) fn of(stored: &StoredFile, coding: ContentCoding) -> HeaderValue {
    let suffix: &[u8] = match coding {
        ContentCoding::Identity => b"",
        ContentCoding::Gzip => b"-gz",
        ContentCoding::Zstd => b"-zst",
    };
    let mut tag = [b'"'; LONGEST];
    let (sum, rest) = tag[1..].split_at_mut(2 * SUM);
    // The slice has the length of the digits. Letters and digits are always a valid header value.
    let _ = hex::encode_to_slice(stored.sum.to_be_bytes(), sum);
    rest[..suffix.len()].copy_from_slice(suffix);
    let length = 1 + 2 * SUM + suffix.len() + 1;
    HeaderValue::from_bytes(&tag[..length]).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Length of a sum in bytes.
const SUM: usize = size_of::<u128>();

/// A sum in hexadecimal digits, the longest suffix, and the quotes.
const LONGEST: usize = 2 * SUM + 4 + 2;

/// Returns the tag of bytes that may change, computed from the bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> HeaderValue {
    quoted(&hex::encode(&lucarne_tlog::leaf_hash(bytes).0[..16]))
}

fn quoted(tag: &str) -> HeaderValue {
    // Letters, digits and hyphens are always a valid header value.
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Returns `true` if the reader already has the representation with this tag (304).
pub(crate) fn already_there(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|header| {
        header == tag
            || header.as_bytes().split(|&b| b == b',').any(|item| {
                let item = item.trim_ascii();
                item == b"*" || item.strip_prefix(b"W/").unwrap_or(item) == tag.as_bytes()
            })
    })
}

/// Returns `true` if a `Range` applies: there is no `If-Range`, or it has exactly this tag. A date
/// never applies, because no resource here has a modification time.
pub(crate) fn range_applies(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers.get(IF_RANGE).is_none_or(|header| header == tag)
}

#[cfg(test)]
mod tests {
    use lucarne_log::Encoding;

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
    fn bytes_and_encodings_have_tags_of_their_own() {
        let stored = |sum| StoredFile {
            bytes: bytes::Bytes::new(),
            encoding: Encoding::Gzip,
            file: None,
            plain: None,
            sum,
        };
        let sum = "00000000000000000000000000000abc";
        for (coding, suffix) in [
            (ContentCoding::Identity, ""),
            (ContentCoding::Gzip, "-gz"),
            (ContentCoding::Zstd, "-zst"),
        ] {
            assert_eq!(of(&stored(0xabc), coding), format!("\"{sum}{suffix}\""));
            assert_ne!(of(&stored(0xabd), coding), format!("\"{sum}{suffix}\""));
        }
    }
}
