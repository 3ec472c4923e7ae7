//! Values of TesseraCT's flags, parsed as in TesseraCT.

use lucarne_settings::values::ValueError;

use super::values::{self, Prefix, PrefixError};

/// Returns the value of a TesseraCT flag. An empty value counts as missing.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Parses a boolean as Go does.
pub(super) fn switch(text: &str) -> Result<bool, ValueError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ValueError::Boolean),
    }
}

/// Reasons why an origin is refused. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginError {
    #[error("has a scheme: an origin is a submission prefix without the scheme")]
    Scheme,
    #[error("has a query, a fragment or a user name, which an origin cannot have")]
    Parts,
    #[error(transparent)]
    Prefix(PrefixError),
}

/// Parses an origin. TesseraCT's origins have no scheme; clients use https, even if a proxy
/// terminates TLS.
pub(super) fn origin_prefix(origin: &str) -> Result<Prefix, OriginError> {
    if origin.contains("://") {
        return Err(OriginError::Scheme);
    }
    values::prefix(&format!("https://{origin}")).map_err(|error| match error {
        PrefixError::Parts => OriginError::Parts,
        other => OriginError::Prefix(other),
    })
}

/// Returns the prefix of the same host at another path.
pub(super) fn at_path(prefix: &Prefix, path: &str) -> Result<Prefix, PrefixError> {
    let path = path.trim_matches('/');
    values::prefix(&format!("https://{}/{path}", prefix.authority()))
}

/// Shortens an origin to a short name: `ct.example.com/2026h1` to `2026h1`; `ct.example.com` stays
/// unchanged.
pub(super) fn short(origin: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = origin.rsplit('/').next().unwrap_or(origin);
    name.replace(|c| !allowed(c), "-")
}

/// Error: the text is not a supported extended key usage.
#[derive(Debug, thiserror::Error)]
#[error("is neither ServerAuth nor Any")]
pub(super) struct UnknownUsage;

/// Returns the value of `require` for `ServerAuth` or `Any`. TesseraCT allows a list; `Any`
/// overrides all other values in it.
pub(super) fn require(text: &str) -> Result<String, UnknownUsage> {
    let usages: Vec<&str> = text.split(',').map(str::trim).collect();
    match usages.as_slice() {
        usages if usages.contains(&"Any") => Ok("any".to_owned()),
        ["ServerAuth"] => Ok("server_auth".to_owned()),
        _ => Err(UnknownUsage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_origin_is_called_one() {
        for (text, why) in [
            ("https://ct.example/a", "has a scheme: an origin is"),
            ("ct.example/a?b", "a user name, which an origin cannot have"),
            ("/a", "has no host name"),
        ] {
            let said = origin_prefix(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
