//! The witnesses and mirrors of a log, and the requests to them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_tlog::Policy;
use url::Url;

/// An endpoint of witnesses and mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `add-checkpoint` of both. The body is text.
    AddCheckpoint,
    /// `add-entries` of a mirror. The body is binary, in gzip.
    AddEntries,
}

/// Sends requests to witnesses and mirrors (C2SP tlog-witness and tlog-mirror, main of 2026-07-22).
#[async_trait]
pub trait WitnessClient: Debug + Send + Sync {
    /// Posts `body` to an endpoint below this submission prefix. Does not follow redirects.
    ///
    /// # Errors
    /// If there is no response of at most `max` bytes.
    async fn post(
        &self,
        prefix: &str,
        endpoint: Endpoint,
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

/// The witnesses and mirrors that cosign the checkpoints of a log.
#[derive(Clone, Debug)]
pub struct Witnesses {
    /// All cosigners: first the witnesses, then the mirrors.
    pub(crate) policy: Arc<Policy>,
    /// The configured policies of the witnesses and of the mirrors.
    parts: [Option<Arc<Policy>>; 2],
    /// Number of the witnesses.
    witnesses: usize,
    /// The servers, each once: several keys may belong to one server.
    pub(crate) servers: Vec<CosignerServer>,
    pub(crate) client: Arc<dyn WitnessClient>,
}

/// The server of a witness or of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CosignerServer {
    /// Submission prefix.
    pub(crate) prefix: String,
    /// Whether entries are uploaded to the server.
    pub(crate) is_mirror: bool,
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
    /// A mirror has the name or the key of a witness.
    #[error("{0} is also a witness: a mirror needs its own name and key")]
    Twice(String),
}

impl Witnesses {
    /// Returns the witnesses of a policy. The URL of a witness is its submission prefix; the log
    /// sends no request to a witness without a URL.
    ///
    /// # Errors
    /// See [`InvalidWitnesses`].
    pub fn new(policy: Policy, client: Arc<dyn WitnessClient>) -> Result<Self, InvalidWitnesses> {
        let (servers, policy) = (servers(&policy, false)?, Arc::new(policy));
        Ok(Witnesses {
            parts: [Some(policy.clone()), None],
            witnesses: policy.witnesses().len(),
            policy,
            servers,
            client,
        })
    }

    /// Returns the mirrors of a policy, as [`new`](Self::new) returns witnesses.
    ///
    /// # Errors
    /// See [`InvalidWitnesses`].
    pub fn mirrors(
        policy: Policy,
        client: Arc<dyn WitnessClient>,
    ) -> Result<Self, InvalidWitnesses> {
        let (servers, policy) = (servers(&policy, true)?, Arc::new(policy));
        Ok(Witnesses {
            parts: [None, Some(policy.clone())],
            witnesses: 0,
            policy,
            servers,
            client,
        })
    }

    /// Adds mirrors to witnesses. The quorum needs the quorums of both policies.
    ///
    /// # Errors
    /// If a mirror has the name or the key of a witness.
    pub fn and(self, mirrors: Self) -> Result<Self, InvalidWitnesses> {
        let ([witnesses, _], [_, of_mirrors]) = (self.parts, mirrors.parts);
        let both = Policy::clone(&self.policy).and(Policy::clone(&mirrors.policy));
        let policy = both.map_err(|name| InvalidWitnesses::Twice(shown(&name)))?;
        Ok(Witnesses {
            policy: Arc::new(policy),
            parts: [witnesses, of_mirrors],
            servers: [self.servers, mirrors.servers].concat(),
            ..self
        })
    }

    /// Returns whether the policies of the witnesses are equal, and those of the mirrors.
    pub fn have_policies_of(&self, other: &Self) -> [bool; 2] {
        [0, 1].map(|at| format!("{:?}", self.parts[at]) == format!("{:?}", other.parts[at]))
    }

    /// Returns the names of the witnesses in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.policy.witnesses().iter().map(|it| shown(&it.name))
    }

    /// Returns the positions in the policy of the cosigners with this server.
    pub(crate) fn of_server(&self, server: &CosignerServer) -> impl Iterator<Item = usize> {
        let url = |at: &usize| self.policy.witnesses()[*at].url.as_deref();
        let all = self.policy.witnesses().len();
        let same_role = if server.is_mirror {
            self.witnesses..all
        } else {
            0..self.witnesses
        };
        same_role.filter(move |at| {
            let own = url(at).and_then(submission_prefix);
            own.is_some_and(|own| own == server.prefix)
        })
    }
}

/// Returns the servers of a policy.
fn servers(policy: &Policy, is_mirror: bool) -> Result<Vec<CosignerServer>, InvalidWitnesses> {
    let mut servers = Vec::new();
    for witness in policy.witnesses() {
        let Some(url) = &witness.url else { continue };
        let wrong = || InvalidWitnesses::Url(shown(&witness.name));
        let prefix = submission_prefix(url).ok_or_else(wrong)?;
        let server = CosignerServer { prefix, is_mirror };
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() {
        return Err(InvalidWitnesses::NoUrl);
    }
    Ok(servers)
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
