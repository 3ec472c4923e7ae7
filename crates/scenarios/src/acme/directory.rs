use serde::Deserialize;
use url::{Position, Url};

/// Operations of a server with their URLs (RFC 8555, section 7.1.1). The client checks each URL
/// before a request to it: a URL that the run does not use may be on another server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Directory {
    pub(super) new_nonce: String,
    pub(super) new_account: String,
    pub(super) new_order: String,
    pub(super) revoke_cert: String,
    pub(super) key_change: String,
    /// URL of renewal information (RFC 9773, section 3).
    pub(super) renewal_info: Option<String>,
}

/// The body is not a directory.
#[derive(Debug, thiserror::Error)]
#[error("invalid directory: {0}")]
pub(super) struct DirectoryError(#[from] serde_json::Error);

/// The reasons why a text in a response is not a URL of the server.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlError {
    #[error("`{url}` is not a URL: {source}")]
    Malformed {
        url: String,
        source: url::ParseError,
    },
    #[error("expected a URL at {origin}, found `{url}`")]
    OtherOrigin { url: String, origin: String },
}

impl Directory {
    /// Parses the directory of a server.
    ///
    /// # Errors
    /// If the body is not a directory.
    pub(super) fn read(body: &[u8]) -> Result<Self, DirectoryError> {
        Ok(serde_json::from_slice(body)?)
    }
}

/// Returns the part of a URL after the host, for the server at `origin`.
///
/// # Errors
/// If the text is not a URL of that server.
pub(super) fn path<'u>(url: &'u str, origin: &str) -> Result<&'u str, UrlError> {
    let parsed = Url::parse(url).map_err(|source| UrlError::Malformed {
        url: url.to_owned(),
        source,
    })?;
    if parsed[..Position::BeforePath] != *origin {
        return Err(UrlError::OtherOrigin {
            url: url.to_owned(),
            origin: origin.to_owned(),
        });
    }
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    match after_scheme.find('/') {
        Some(slash) => Ok(&after_scheme[slash..]),
        None => Ok("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "https://acme.example:14000";

    #[test]
    fn paths_are_those_of_the_server() {
        let at = |url| path(url, ORIGIN);
        assert_eq!(at("https://acme.example:14000/a/b?c"), Ok("/a/b?c"));
        assert_eq!(at("https://ACME.example:14000"), Ok("/"));
        for malformed in ["/a", "https://acme.example:14000.evil.example/a"] {
            let found = at(malformed);
            assert!(
                matches!(found, Err(UrlError::Malformed { .. })),
                "{malformed}"
            );
        }
        for other in ["http://acme.example:14000/a", "https://acme.example/a"] {
            let found = at(other);
            assert!(
                matches!(found, Err(UrlError::OtherOrigin { .. })),
                "{other}"
            );
        }
    }

    #[test]
    fn a_directory_has_what_the_specification_wants() {
        let url = |path: &str| format!("{ORIGIN}/{path}");
        let mut json = serde_json::json!({
            "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
            "revokeCert": url("revoke"), "keyChange": url("key"), "meta": {},
        });
        let read = |json: &serde_json::Value| Directory::read(json.to_string().as_bytes());
        assert_eq!(read(&json).unwrap().renewal_info, None);
        json["renewalInfo"] = url("ari").into();
        assert_eq!(read(&json).unwrap().renewal_info, Some(url("ari")));
        // The client checks the URLs that it uses.
        json["keyChange"] = "https://other.example/".into();
        assert!(read(&json).is_ok());
        json["newOrder"] = serde_json::Value::Null;
        assert!(read(&json).is_err());
        assert!(Directory::read(b"<html>").is_err());
    }
}
