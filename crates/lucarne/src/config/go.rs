//! The values of TesseraCT's flags, read as it reads them.

use lucarne_ct::Require;

use super::values::{self, Prefix};

/// Returns the value of a flag of TesseraCT's: empty is as if it were not given.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// A switch, as Go reads it.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("is neither true nor false".into()),
    }
}

/// The prefix of an origin. TesseraCT's origins have no scheme: https is what
/// clients will use, whatever stands in front of this process.
pub(super) fn origin_prefix(origin: &str) -> Result<Prefix, String> {
    if origin.contains("://") {
        return Err("has a scheme: an origin is a submission prefix without it".into());
    }
    values::prefix(&format!("https://{origin}")).map_err(|why| why.replace("a prefix", "an origin"))
}

/// The same host, at another path.
pub(super) fn at_path(prefix: &Prefix, path: &str) -> Prefix {
    let path = path.trim_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    Prefix {
        url: format!("https://{}/{path}{slash}", prefix.authority()),
    }
}

/// `ct.example.com/2026h1` is `2026h1` for short, `ct.example.com` itself.
pub(super) fn short(origin: &str) -> String {
    origin
        .rsplit('/')
        .next()
        .unwrap_or(origin)
        .replace(':', "-")
}

/// ServerAuth or Any; TesseraCT allows a list, in which Any wins.
pub(super) fn require(text: &str) -> Result<Require, String> {
    let usages: Vec<&str> = text.split(',').map(str::trim).collect();
    match usages.as_slice() {
        usages if usages.contains(&"Any") => Ok(Require::Any),
        ["ServerAuth"] => Ok(Require::ServerAuth),
        _ => Err("is neither ServerAuth nor Any".into()),
    }
}
