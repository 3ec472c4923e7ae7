//! The values of TesseraCT's flags, read as it reads them.

use lucarne_ct::Require;
use lucarne_settings::values::ValueError;

use super::values::{self, Prefix, PrefixError};

/// Returns the value of a flag of TesseraCT's: empty is as if it were not given.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// A switch, as Go reads it.
pub(super) fn switch(text: &str) -> Result<bool, ValueError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ValueError::Boolean),
    }
}

/// The fault of a text that is no origin, in words that follow it.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginError {
    #[error("has a scheme: an origin is a submission prefix without it")]
    Scheme,
    #[error("has a query, a fragment or a user name, which an origin cannot have")]
    Parts,
    #[error(transparent)]
    Prefix(PrefixError),
}

/// The prefix of an origin. TesseraCT's origins have no scheme: https is what
/// clients will use, whatever stands in front of this process.
pub(super) fn origin_prefix(origin: &str) -> Result<Prefix, OriginError> {
    if origin.contains("://") {
        return Err(OriginError::Scheme);
    }
    values::prefix(&format!("https://{origin}")).map_err(|error| match error {
        PrefixError::Parts => OriginError::Parts,
        other => OriginError::Prefix(other),
    })
}

/// The same host, at another path.
pub(super) fn at_path(prefix: &Prefix, path: &str) -> Result<Prefix, PrefixError> {
    let path = path.trim_matches('/');
    values::prefix(&format!("https://{}/{path}", prefix.authority()))
}

/// `ct.example.com/2026h1` is `2026h1` for short, `ct.example.com` itself.
pub(super) fn short(origin: &str) -> String {
    origin
        .rsplit('/')
        .next()
        .unwrap_or(origin)
        .replace(':', "-")
}

/// A text that names no extended key usage, or one that cannot be demanded.
#[derive(Debug, thiserror::Error)]
#[error("is neither ServerAuth nor Any")]
pub(super) struct UnknownUsage;

/// ServerAuth or Any; TesseraCT allows a list, in which Any wins.
pub(super) fn require(text: &str) -> Result<Require, UnknownUsage> {
    let usages: Vec<&str> = text.split(',').map(str::trim).collect();
    match usages.as_slice() {
        usages if usages.contains(&"Any") => Ok(Require::Any),
        ["ServerAuth"] => Ok(Require::ServerAuth),
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
