//! Filter of the hosts on a page.

use url::form_urlencoded;

use super::judge::{Judgement, Standing};

/// Limit of hosts on one page.
pub(crate) const PAGE_SIZE: usize = 200;

/// Selection of hosts by their latest certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    All,
    /// Hosts without a valid SCT.
    NotLogged,
    /// Hosts whose SCTs do not satisfy a policy.
    PolicyFailed,
    /// Hosts with a false SCT.
    Invalid,
    /// Hosts with SCTs that cannot be verified, because the log or the issuer is unknown.
    Unverified,
    /// Hosts with a revoked certificate.
    Revoked,
}

impl Show {
    pub(crate) const ALL: [Show; 6] = [
        Show::All,
        Show::NotLogged,
        Show::PolicyFailed,
        Show::Invalid,
        Show::Unverified,
        Show::Revoked,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Show::All => "all",
            Show::NotLogged => "not-logged",
            Show::PolicyFailed => "policy-failed",
            Show::Invalid => "invalid",
            Show::Unverified => "unverified",
            Show::Revoked => "revoked",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Show::All => "All",
            Show::NotLogged => "No valid SCT",
            Show::PolicyFailed => "Policy failed",
            Show::Invalid => "False SCT",
            Show::Unverified => "Not verified",
            Show::Revoked => "Revoked",
        }
    }

    /// Returns whether the selection includes a certificate with this judgement.
    pub(crate) fn has(self, judgement: &Judgement) -> bool {
        match self {
            Show::All => true,
            Show::NotLogged => !judgement.is_logged(),
            Show::PolicyFailed => judgement.fails_policy(),
            Show::Invalid => judgement.standing == Standing::Invalid,
            Show::Unverified => judgement.standing == Standing::Unverified,
            Show::Revoked => judgement.standing == Standing::Revoked,
        }
    }
}

/// The query of a page: `show=…&q=…&from=…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) show: Show,
    /// Part of the host name, in lower case.
    pub(crate) query: String,
    /// Number of hosts to skip.
    pub(crate) from: usize,
}

impl Filter {
    /// Parses a query. Unknown parameters and values are ignored.
    pub(crate) fn parse(query: &str) -> Self {
        let show = parameter(query, "show").unwrap_or_default();
        let show = Show::ALL.into_iter().find(|one| one.name() == show);
        let text = parameter(query, "q").unwrap_or_default();
        let from = parameter(query, "from").and_then(|from| from.parse().ok());
        Filter {
            show: show.unwrap_or(Show::All),
            query: text
                .trim()
                .chars()
                .take(253)
                .collect::<String>()
                .to_lowercase(),
            from: from.unwrap_or(0),
        }
    }
}

pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let found = parameters.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Encodes a text as the value of a parameter.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_not_there() {
        let all = Filter {
            show: Show::All,
            query: String::new(),
            from: 0,
        };
        for query in ["", "show=", "show=some", "from=-1&q=%20&x=%ff", "&&==&"] {
            assert_eq!(Filter::parse(query), all, "{query}");
        }
        let filter = Filter::parse("q=+A%26b+&from=200&show=not-logged");
        assert_eq!((filter.show, filter.from), (Show::NotLogged, 200));
        assert_eq!(filter.query, "a&b");
        assert_eq!(encoded("a&b ü"), "a%26b+%C3%BC");
    }
}
