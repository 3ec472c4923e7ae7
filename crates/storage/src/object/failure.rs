//! The answers of a store that does not do as asked, in words for people.

use std::error::Error as StdError;

use crate::AssetError;

/// Sorts an error: `action` as in "cannot `action` `place`".
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
    // versitygw says of an unknown access key that it is not found (404).
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

/// The store's answer, or what kept it from saying anything: one line.
pub(crate) fn detail(error: &object_store::Error) -> String {
    Reason::of(error).detail
}

/// True if there is a bucket, and no such object in it. Other things may not be
/// found, too, such as who asks.
pub(crate) fn is_absent(error: &object_store::Error) -> bool {
    let code = Reason::of(error).code;
    let object = ["", "NoSuchKey", "BlobNotFound", "ResourceNotFound"];
    matches!(error, object_store::Error::NotFound { .. }) && object.contains(&code.as_str())
}

/// True of what a store may say of an unconditional put only because of
/// something else that it does at the moment.
///
/// A conflict is another write of the key, of which one wins. Stores over a
/// file system also remove directories that deletions empty, and a put that
/// needs such a directory just then is told that it is absent or, by `MinIO`,
/// that access is denied. A store that means it says so again.
pub(super) fn is_passing(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, NotFound};
    match sort("", String::new(), error) {
        AssetError::Refused { .. } => true,
        AssetError::NoBucket { .. } => false,
        _ => matches!(error, AlreadyExists { .. } | NotFound { .. }),
    }
}

/// True if a put was not made because of its condition.
pub(crate) fn is_lost(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, NotModified, Precondition};
    matches!(
        error,
        AlreadyExists { .. } | Precondition { .. } | NotModified { .. }
    )
}

/// True if the store does not know what it was asked for: not at this time, but
/// ever.
pub(super) fn is_unknown(error: &object_store::Error) -> bool {
    let Reason { status, code, .. } = Reason::of(error);
    let client = matches!(error, object_store::Error::NotImplemented { .. });
    client || matches!(status, 400 | 405 | 501) || code == "NotImplemented"
}

struct Reason {
    /// Of the answer; 0 if there was none.
    status: u16,
    /// The store's (`NoSuchBucket`), if it gave one.
    code: String,
    /// One line.
    detail: String,
}

impl Reason {
    /// The error's type is private to `object_store`; its text ends in what
    /// matters: status and body, or what went wrong on the way.
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
                detail: "the environment has no credentials, and no service of this machine \
                         gives any"
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

/// Returns what came from the store, fit for a log file.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(answer: &str) -> AssetError {
        let error = object_store::Error::Generic {
            store: "S3",
            source: format!("Server returned non-2xx status code: {answer}").into(),
        };
        sort("list", "s3://logs/".into(), &error)
    }

    #[test]
    fn answers_are_told_apart() {
        let xml = |code| format!("403 Forbidden: <Error><Code>{code}</Code></Error>");
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
