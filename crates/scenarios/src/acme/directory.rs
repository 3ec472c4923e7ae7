use serde::Deserialize;
use url::{Position, Url};

/// Operations of a server with their URLs (RFC 8555, section 7.1.1). All URLs are checked.
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

impl Directory {
    /// Parses the directory of a server at this origin.
    ///
    /// # Errors
    /// Returns a description if the body is not a directory, or names another server.
    pub(super) fn read(body: &[u8], origin: &str) -> Result<Self, String> {
        let directory: Self =
            serde_json::from_slice(body).map_err(|error| format!("invalid directory: {error}"))?;
        let always = [
            &directory.new_nonce,
            &directory.new_account,
            &directory.new_order,
            &directory.revoke_cert,
            &directory.key_change,
        ];
        for url in always.into_iter().chain(&directory.renewal_info) {
            path(url, origin)?;
        }
        Ok(directory)
    }
}

/// Returns the part of a URL after the host, for the server at `origin`.
///
/// # Errors
/// Returns a description if the text is not a URL of that server.
pub(super) fn path<'u>(url: &'u str, origin: &str) -> Result<&'u str, String> {
    let parsed = Url::parse(url).map_err(|error| format!("`{url}` is not a URL: {error}"))?;
    if parsed[..Position::BeforePath] != *origin {
        return Err(format!("`{url}` is not at {origin}"));
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
        for other in [
            "/a",
            "http://acme.example:14000/a",
            "https://acme.example/a",
            "https://acme.example:14000.evil.example/a",
        ] {
            assert!(at(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_directory_has_what_the_specification_wants() {
        let url = |path: &str| format!("{ORIGIN}/{path}");
        let mut json = serde_json::json!({
            "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
            "revokeCert": url("revoke"), "keyChange": url("key"), "meta": {},
        });
        let read = |json: &serde_json::Value| Directory::read(json.to_string().as_bytes(), ORIGIN);
        assert_eq!(read(&json).unwrap().renewal_info, None);
        json["renewalInfo"] = url("ari").into();
        assert_eq!(read(&json).unwrap().renewal_info, Some(url("ari")));
        json["renewalInfo"] = "https://other.example/".into();
        assert!(read(&json).unwrap_err().contains("other.example"));
        json["renewalInfo"] = serde_json::Value::Null;
        json["newOrder"] = serde_json::Value::Null;
        assert!(read(&json).is_err());
        assert!(Directory::read(b"<html>", ORIGIN).is_err());
    }
}
