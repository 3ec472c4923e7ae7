//! The witnesses of a log, and the requests to them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_tlog::Policy;

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
    /// The URL of a witness is not an HTTP URL.
    #[error("the URL of the witness {0} does not begin with http:// or https://")]
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
            let url = std::str::from_utf8(url).ok();
            let url = url.filter(|url| url.starts_with("https://") || url.starts_with("http://"));
            let wrong = || InvalidWitnesses::Url(shown(&witness.name));
            let prefix = url.ok_or_else(wrong)?.trim_end_matches('/').to_owned();
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
        let url = |at: &usize| self.policy.witnesses()[*at].url.as_deref();
        let of = move |url: &[u8]| {
            url.strip_prefix(prefix.as_bytes())
                .is_some_and(|rest| rest.iter().all(|byte| *byte == b'/'))
        };
        (0..self.policy.witnesses().len()).filter(move |at| url(at).is_some_and(of))
    }
}

/// Returns the name of a witness, which may be any bytes, as text.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
