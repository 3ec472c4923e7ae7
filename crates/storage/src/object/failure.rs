//! Classification of a store's errors, with their messages.

use std::error::Error as StdError;

use crate::AssetError;

/// End of the client's errors for a response without e-tag, length or time.
const LACKING: &str = "Header missing from response";

/// Classifies an error. The message reads "cannot `action` `place`".
pub(crate) fn sort(action: &'static str, place: String, error: &object_store::Error) -> AssetError {
    let Reason {
        status,
        code,
        detail,
    } = Reason::of(error);
    let is = |codes: &[&str]| codes.contains(&code.as_str());
    if is(&["NoSuchBucket", "ContainerNotFound", "InvalidBucketName"]) {
        return AssetError::NoBucket {
            action,
            place,
            detail,
        };
    }
    if is(&["RequestTimeTooSkewed", "RequestExpired"]) {
        return AssetError::ClockSkew {
            action,
            place,
            detail,
        };
    }
    if status == 0
        && let Some((_, reason)) = detail.split_once(super::http::UNTRUSTED)
    {
        return AssetError::Untrusted {
            action,
            place,
            detail: reason.trim_start_matches([':', ' ']).to_owned(),
        };
    }
    // versitygw responds with 404 to an unknown access key.
    let refused = is(&[
        "InvalidAccessKeyId",
        "XAdminUserNotFound",
        "SignatureDoesNotMatch",
        "AccessDenied",
        "InvalidToken",
        "ExpiredToken",
    ]);
    if refused || matches!(status, 401 | 403) {
        return AssetError::Refused {
            action,
            place,
            detail,
        };
    }
    let lacks = matches!(error, object_store::Error::NotImplemented { .. })
        || status == 501
        || is(&["NotImplemented"])
        || detail.ends_with(LACKING);
    if lacks {
        return AssetError::Unsuitable {
            action,
            place,
            detail,
        };
    }
    if (300..500).contains(&status) && !matches!(status, 408 | 429) {
        return AssetError::Store {
            action,
            place,
            detail,
        };
    }
    AssetError::Unavailable {
        action,
        place,
        detail,
    }
}

/// Returns the store's response, or the reason why there is none, as one line.
pub(crate) fn detail(error: &object_store::Error) -> String {
    Reason::of(error).detail
}

/// Returns `true` if the bucket exists and the object does not. Other things can be absent, too,
/// such as the access key.
pub(crate) fn is_absent(error: &object_store::Error) -> bool {
    let code = Reason::of(error).code;
    let object = ["", "NoSuchKey", "BlobNotFound", "ResourceNotFound"];
    matches!(error, object_store::Error::NotFound { .. }) && object.contains(&code.as_str())
}

/// Returns `true` for an error of an unconditional put that may come from concurrent work of the
/// store.
///
/// A conflict comes from concurrent writes of the key; one of the writes succeeds. Stores on a file
/// system also remove directories that become empty by deletions. A concurrent put to a removed
/// directory fails because the directory is absent or, with `MinIO`, because access is denied. If
/// the error is permanent, a retry returns it again.
pub(super) fn is_passing(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, NotFound};
    match sort("", String::new(), error) {
        AssetError::Refused { .. } => true,
        AssetError::NoBucket { .. } => false,
        _ => matches!(error, AlreadyExists { .. } | NotFound { .. }),
    }
}

/// Returns `true` if a put was rejected because of its condition.
pub(crate) fn is_lost(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, NotModified, Precondition};
    matches!(
        error,
        AlreadyExists { .. } | Precondition { .. } | NotModified { .. }
    )
}

/// Returns `true` if the store does not support the request at all.
pub(super) fn is_unknown(error: &object_store::Error) -> bool {
    let Reason { status, code, .. } = Reason::of(error);
    let client = matches!(error, object_store::Error::NotImplemented { .. });
    client || matches!(status, 400 | 405 | 501) || code == "NotImplemented"
}

struct Reason {
    /// HTTP status of the response; 0 without a response.
    status: u16,
    /// Error code of the store (`NoSuchBucket`); empty without a code.
    code: String,
    /// Description, as one line.
    detail: String,
}

impl Reason {
    /// Extracts the reason from the text of the error, because its type is private to
    /// `object_store`. The text ends with the status and body, or with the cause of the failed
    /// connection.
    fn of(error: &object_store::Error) -> Self {
        let mut innermost: &dyn StdError = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        let text = error.to_string();
        if text.contains("169.254.169.254") || text.contains("metadata.google.internal") {
            return Self {
                status: 401,
                code: String::new(),
                detail: "no credentials in the environment or from a service of this machine"
                    .into(),
            };
        }
        let status = between(&text, "status code: ", ":").unwrap_or_default();
        let element = |name: &str| between(&text, &format!("<{name}>"), &format!("</{name}>"));
        let code = element("Code").unwrap_or_default();
        let detail = match element("Message") {
            Some(message) if !code.is_empty() => format!("{code}: {message}"),
            _ if !code.is_empty() => code.to_owned(),
            _ if !status.is_empty() => status.to_owned(),
            _ => innermost.to_string(),
        };
        let number = status.split(' ').next().unwrap_or_default();
        Self {
            status: number.parse().unwrap_or(0),
            code: code.to_owned(),
            detail: line(&detail),
        }
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let rest = &text[text.find(start)? + start.len()..];
    Some(&rest[..rest.find(end)?])
}

/// Returns text from the store in a form that is safe for a log line.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(response: &str) -> AssetError {
        let error = object_store::Error::Generic {
            store: "S3",
            source: format!("Server returned non-2xx status code: {response}").into(),
        };
        sort("list", "s3://logs/".into(), &error)
    }

    #[test]
    fn answers_are_told_apart() {
        let xml = |code| format!("403 Forbidden: <Error><Code>{code}</Code></Error>");
        let lacking = object_store::Error::Generic {
            store: "S3",
            source: "Content-Length Header missing from response".into(),
        };
        for unsuitable in [
            sorted("501 Not Implemented: "),
            sorted("400 Bad Request: <Error><Code>NotImplemented</Code></Error>"),
            sort("read", "s3://logs/".into(), &lacking),
        ] {
            assert!(matches!(unsuitable, AssetError::Unsuitable { .. }));
        }
        let slow = "503 Service Unavailable: <Error><Code>SlowDown</Code></Error>";
        assert!(matches!(
            sorted(&xml("NoSuchBucket")),
            AssetError::NoBucket { .. }
        ));
        assert!(matches!(
            sorted(&xml("RequestTimeTooSkewed")),
            AssetError::ClockSkew { .. }
        ));
        assert!(matches!(
            sorted(&xml("AccessDenied")),
            AssetError::Refused { .. }
        ));
        assert!(matches!(
            sorted("403 Forbidden: "),
            AssetError::Refused { .. }
        ));
        assert!(matches!(
            sorted("400 Bad Request: x"),
            AssetError::Store { .. }
        ));
        assert!(matches!(
            sorted("503 Slow Down: "),
            AssetError::Unavailable { .. }
        ));
        assert!(matches!(sorted(slow), AssetError::Unavailable { .. }));
    }
}
