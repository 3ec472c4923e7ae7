//! The witnesses of a log, and the requests to them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_tlog::Policy;
use url::Url;

/// Sends requests to witnesses (C2SP tlog-witness, main of 2026-07-22).
#[async_trait]
pub trait WitnessClient: Debug + Send + Sync {
    /// Posts `body` to `add-checkpoint` below this submission prefix. Does not follow redirects.
    ///
    /// # Errors
    /// If there is no response of at most `max` bytes.
    async fn add_checkpoint(
        &self,
        prefix: &str,
        body: Bytes,
        max: usize,
    ) -> Result<WitnessResponse, WitnessError>;
}

/// The response of a witness.
#[derive(Clone, Debug)]
pub struct WitnessResponse {
    /// Status of HTTP.
    pub status: u16,
    /// The complete body.
    pub body: Bytes,
}

/// The reasons why there is no response of a witness.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The response is too long.
    #[error("the response is too long")]
    TooLong,
    /// The witness cannot be reached, or the response is not HTTP.
    #[error(transparent)]
    Unreachable(Box<dyn Error + Send + Sync>),
}

/// The witnesses that cosign the checkpoints of a log.
#[derive(Clone, Debug)]
pub struct Witnesses {
    pub(crate) policy: Arc<Policy>,
    /// The submission prefixes, each once: several keys may belong to one witness.
    pub(crate) prefixes: Vec<String>,
    pub(crate) client: Arc<dyn WitnessClient>,
}

/// The reasons why no witness of a policy can be requested to cosign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWitnesses {
    /// No witness has a URL.
    #[error("no witness of the policy has a URL, so the log cannot request cosignatures")]
    NoUrl,
    /// The URL of a witness is not a prefix of HTTP URLs.
    #[error(
        "the URL of the witness {0} must begin with http:// or https://, and have a host and no query"
    )]
    Url(String),
}

impl Witnesses {
    /// Returns the witnesses of a policy. The URL of a witness is its submission prefix; the log
    /// sends no request to a witness without a URL.
    ///
    /// # Errors
    /// See [`InvalidWitnesses`].
    pub fn new(policy: Policy, client: Arc<dyn WitnessClient>) -> Result<Self, InvalidWitnesses> {
        let mut prefixes = Vec::new();
        for witness in policy.witnesses() {
            let Some(url) = &witness.url else { continue };
            let wrong = || InvalidWitnesses::Url(shown(&witness.name));
            let prefix = submission_prefix(url).ok_or_else(wrong)?;
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        if prefixes.is_empty() {
            return Err(InvalidWitnesses::NoUrl);
        }
        Ok(Witnesses {
            policy: Arc::new(policy),
            prefixes,
            client,
        })
    }

    /// Returns whether the policies are equal.
    pub fn have_policy_of(&self, other: &Self) -> bool {
        format!("{:?}", self.policy) == format!("{:?}", other.policy)
    }

    /// Returns the names of the witnesses in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.policy.witnesses().iter().map(|it| shown(&it.name))
    }

    /// Returns the positions in the policy of the witnesses with this prefix.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = usize> {
        let witnesses = self.policy.witnesses().iter().enumerate();
        witnesses.filter_map(move |(at, witness)| {
            let own = submission_prefix(witness.url.as_deref()?)?;
            (own == prefix).then_some(at)
        })
    }
}

/// Returns a URL without the slashes at its end, and with the host in Punycode, as the client
/// requires; `None` if requests cannot be sent below the URL.
fn submission_prefix(url: &[u8]) -> Option<String> {
    let url = Url::parse(std::str::from_utf8(url).ok()?).ok()?;
    let is_prefix = url.query().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https");
    (is_http && is_prefix).then(|| url.as_str().trim_end_matches('/').to_owned())
}

/// Returns the name of a witness, which may be any bytes, as text.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::submission_prefix;

    #[test]
    fn urls_that_the_client_refuses_are_invalid() {
        for (url, prefix) in [
            ("https://w.example", "https://w.example"),
            ("http://w.example:8080/w//", "http://w.example:8080/w"),
            (
                "https://bücher.example/w/",
                "https://xn--bcher-kva.example/w",
            ),
            ("HTTPS://W.example/w", "https://w.example/w"),
        ] {
            let found = submission_prefix(url.as_bytes());
            assert_eq!(found.as_deref(), Some(prefix));
        }
        for url in [
            "https://",
            "ftp://w.example/",
            "w.example",
            "https://w.example:99999/",
            "https://w.example/?key=1",
            "https://w.example/#w",
        ] {
            assert_eq!(submission_prefix(url.as_bytes()), None, "{url}");
        }
        assert_eq!(submission_prefix(b"https://\xff"), None);
    }
}
