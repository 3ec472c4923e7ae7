//! Requests to the inventory, and their validation.

use serde_json::Value;

/// Errors of a request by field.
type Wrong = Vec<(&'static str, String)>;

/// A certificate to issue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct New {
    pub(super) name: String,
    pub(super) common_name: String,
    pub(super) sans: Vec<String>,
    pub(super) issuer_id: String,
    pub(super) owner_id: String,
    pub(super) team_id: String,
    pub(super) renewal_policy_id: String,
    pub(super) environment: String,
}

const ENVIRONMENTS: [&str; 3] = ["production", "staging", "development"];

impl New {
    pub(super) fn read(body: &[u8]) -> Result<Self, Wrong> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| vec![("body", format!("is not JSON: {error}"))])?;
        let mut wrong = Vec::new();
        let mut field = |name: &'static str, prefix: &str| {
            let value = body[name].as_str().unwrap_or_default();
            if value.is_empty() {
                wrong.push((name, "is missing".to_owned()));
            } else if !value.starts_with(prefix) {
                wrong.push((name, format!("does not begin with `{prefix}`")));
            }
            value.to_owned()
        };
        let mut new = Self {
            name: field("name", ""),
            common_name: field("common_name", ""),
            sans: Vec::new(),
            issuer_id: field("issuer_id", "iss-"),
            owner_id: field("owner_id", "o-"),
            team_id: field("team_id", "t-"),
            renewal_policy_id: field("renewal_policy_id", "rp-"),
            environment: field("environment", ""),
        };
        if !new.common_name.is_empty() && !is_dns_name(&new.common_name) {
            wrong.push(("common_name", "is not a DNS name".to_owned()));
        }
        if !new.environment.is_empty() && !ENVIRONMENTS.contains(&new.environment.as_str()) {
            wrong.push(("environment", format!("must be one of {ENVIRONMENTS:?}")));
        }
        let sans = body["sans"].as_array().map_or(&[][..], Vec::as_slice);
        new.sans = sans
            .iter()
            .filter_map(|it| Some(it.as_str()?.to_owned()))
            .collect();
        if new.sans.is_empty() || new.sans.len() != sans.len() {
            wrong.push(("sans", "is not a list of DNS names".to_owned()));
        } else if let Some(other) = new.sans.iter().find(|name| !is_dns_name(name)) {
            wrong.push(("sans", format!("`{other}` is not a DNS name")));
        }
        if wrong.is_empty() {
            Ok(new)
        } else {
            Err(wrong)
        }
    }
}

/// Returns whether the name consists of labels of letters, digits and hyphens (RFC 1123, section
/// 2.1).
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed)
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

/// The requested part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Number of the page, from 1.
    pub(super) number: u32,
    pub(super) size: u32,
}

impl Page {
    pub(super) fn read(query: &str) -> Result<Self, Wrong> {
        let mut page = Self {
            number: 1,
            size: 50,
        };
        let mut wrong = Vec::new();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let (field, slot, most) = match name {
                "page" => ("page", &mut page.number, 1_000_000),
                "per_page" => ("per_page", &mut page.size, 500),
                _ => continue,
            };
            match value.parse() {
                Ok(number) if (1..=most).contains(&number) => *slot = number,
                _ => wrong.push((field, format!("`{value}` is not from 1 to {most}"))),
            }
        }
        if wrong.is_empty() {
            Ok(page)
        } else {
            Err(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_is_named() {
        let body = |sans: &str| {
            format!(
                r#"{{"name":"a.example.test","common_name":"a.example.test","sans":{sans},
                "issuer_id":"iss-local","owner_id":"o-alice","team_id":"t-platform",
                "renewal_policy_id":"rp-standard","environment":"production"}}"#
            )
        };
        let new = New::read(body(r#"["a.example.test"]"#).as_bytes()).unwrap();
        assert_eq!(new.sans, ["a.example.test"]);
        let fields = |body: &str| -> Vec<_> {
            let wrong = New::read(body.as_bytes()).unwrap_err();
            wrong.into_iter().map(|(field, _)| field).collect()
        };
        for sans in ["[]", "7", "[7]", r#"["a b.test"]"#, r#"[""]"#] {
            assert_eq!(fields(&body(sans)), ["sans"], "{sans}");
        }
        assert_eq!(fields("<html>"), ["body"]);
        assert_eq!(fields("{}").len(), 8);
        let other = body(r#"["a.example.test"]"#)
            .replace("iss-", "")
            .replace("production", "moon");
        assert_eq!(fields(&other), ["issuer_id", "environment"]);
    }

    #[test]
    fn pages_have_limits() {
        let page = |query| Page::read(query).map(|page| (page.number, page.size));
        assert_eq!(page(""), Ok((1, 50)));
        assert_eq!(page("per_page=10&page=3&x=y"), Ok((3, 10)));
        for query in ["page=0", "per_page=501", "page=-1", "per_page=many"] {
            assert!(page(query).is_err(), "{query}");
        }
    }
}
