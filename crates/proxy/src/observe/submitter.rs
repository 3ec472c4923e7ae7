//! Submission of chains that no log has yet.
//!
//! Each log has a bounded queue, and its chains are sent one at a time. If a log is slow or
//! unavailable, chains that do not fit into the queue are dropped and counted. The proxy offers a
//! dropped chain again when a server presents it the next time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::StatusCode;
use lucarne_ct::{Certificate, Fingerprint, Issuer, ListedLog, PublicKey, Sct, delivered_entry};
use lucarne_mint::now_ms;
use lucarne_net::{Client, CompleteResponse};
use tokio::sync::mpsc;
use url::Url;

use super::shared::Shared;
use super::submission::{Submission, Verified};

/// Limit of chains in a queue.
pub(crate) const MAX_WAITING: usize = 512;
/// Limit of attempts for one chain.
const ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Longest wait that a log can request with `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Limit of the characters of a log's refusal that are kept.
const MAX_REASON: usize = 300;

/// A chain that waits for its submission.
#[derive(Debug)]
pub(crate) struct PendingSubmission {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) leaf: Arc<[u8]>,
    pub(crate) issuers: Arc<[Arc<Issuer>]>,
}

/// Result of an attempt.
enum Attempt {
    Done(Submission),
    /// Retry later: the reason, and the wait that the log requested.
    Again(String, Option<Duration>),
}

/// Submits chains to one log.
pub(crate) struct Submitter {
    client: Client,
    add_chain: String,
    key: Option<Arc<PublicKey>>,
    shared: Weak<Shared>,
}

impl Submitter {
    pub(crate) fn new(
        client: Client,
        log: &Url,
        key: Option<Arc<PublicKey>>,
        shared: &Arc<Shared>,
    ) -> Self {
        Submitter {
            client,
            add_chain: add_chain(log),
            key,
            shared: Arc::downgrade(shared),
        }
    }

    /// Submits chains until all senders are dropped.
    pub(crate) async fn run(self, mut submissions: mpsc::Receiver<PendingSubmission>) {
        let mut pause = FIRST_PAUSE;
        // A chain that failed is retried first: a response to it shows that the log is available
        // again.
        let mut late: Option<(PendingSubmission, u32)> = None;
        loop {
            let (pending, attempts) = match late.take() {
                Some(late) => late,
                None => match submissions.recv().await {
                    Some(pending) => (pending, 0),
                    None => return,
                },
            };
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            let (outcome, wait) = match self.attempt(&pending, &shared).await {
                Attempt::Done(outcome) => {
                    pause = FIRST_PAUSE;
                    (outcome, None)
                }
                Attempt::Again(why, after) => {
                    let wait = after.unwrap_or_default().clamp(pause, LONGEST_RETRY_AFTER);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    let outcome = if attempts + 1 < ATTEMPTS {
                        Submission::Waiting(Some(why))
                    } else {
                        let why = format!("given up after {ATTEMPTS} attempts: {why}");
                        Submission::Failed(why)
                    };
                    (outcome, Some(wait))
                }
            };
            let again = matches!(outcome, Submission::Waiting(_));
            if !again {
                shared.metrics.submissions_waiting.dec();
            }
            shared.submitted(&pending.fingerprint, outcome);
            // The shared state is released during the wait, so that dropping the observer frees the
            // state.
            drop(shared);
            if again {
                late = Some((pending, attempts + 1));
            }
            if let Some(wait) = wait {
                // The log is unavailable, or requested the wait (Retry-After).
                tokio::time::sleep(wait).await;
            }
        }
    }

    async fn attempt(&self, pending: &PendingSubmission, shared: &Shared) -> Attempt {
        let json = add_chain_json(pending);
        let response = match self.client.post_json(&self.add_chain, json).await {
            Ok(response) => response,
            Err(why) => return Attempt::Again(why.to_string(), None),
        };
        match response.status {
            StatusCode::OK => Attempt::Done(self.accepted(&response, pending, shared)),
            status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Attempt::Again(reason(&response), response.retry_after)
            }
            _ => Attempt::Done(Submission::Refused(reason(&response))),
        }
    }

    fn accepted(
        &self,
        response: &CompleteResponse,
        pending: &PendingSubmission,
        shared: &Shared,
    ) -> Submission {
        let sct = match Sct::parse(&response.body) {
            Ok(sct) => sct,
            Err(error) => {
                return Submission::Failed(format!("the log sent status 200, but {error}"));
            }
        };
        let listed = shared.list.load();
        let listed = listed.list.as_ref().and_then(|list| list.get(&sct.log_id));
        let verified = self.verify(&sct, pending, listed);
        Submission::Accepted { sct, verified }
    }

    fn verify(
        &self,
        sct: &Sct,
        pending: &PendingSubmission,
        listed: Option<&Arc<ListedLog>>,
    ) -> Verified {
        let given = self.key.as_deref();
        let (key, name) = match (given, listed) {
            (Some(key), _) => (key, "the configured key".to_owned()),
            (None, Some(log)) => (&log.key, log.description.clone()),
            (None, None) => return Verified::UnknownKey,
        };
        let Ok(leaf) = Certificate::parse(&pending.leaf) else {
            return Verified::No("the certificate cannot be parsed".to_owned());
        };
        match sct.verify(key, &delivered_entry(&leaf)) {
            Ok(()) if sct.timestamp > now_ms().saturating_add(MAX_AHEAD_MS) => {
                Verified::No("the timestamp of the SCT is in the future".to_owned())
            }
            Ok(()) => Verified::By(name),
            Err(error) => Verified::No(error.to_string()),
        }
    }
}

/// Allowed lead of a log's clock. The log signs an SCT just before the check, so a small lead is
/// enough to put the timestamp into the future.
const MAX_AHEAD_MS: u64 = 60_000;

/// Returns the URL of `add-chain` below a submission prefix, with or without a final slash.
fn add_chain(log: &Url) -> String {
    format!("{}/ct/v1/add-chain", log.as_str().trim_end_matches('/'))
}

/// Encodes the body of `add-chain` (RFC 6962, section 4.1).
fn add_chain_json(pending: &PendingSubmission) -> Vec<u8> {
    let issuers = pending.issuers.iter().map(|issuer| &issuer.der[..]);
    let chain = std::iter::once(&pending.leaf[..]).chain(issuers);
    let length = chain.clone().map(|der| der.len() * 4 / 3 + 8).sum();
    let mut json = Vec::with_capacity(length);
    json.extend_from_slice(b"{\"chain\":[");
    for (place, der) in chain.enumerate() {
        json.extend_from_slice(if place == 0 { b"\"" } else { b",\"" });
        base64_simd::STANDARD.encode_append(der, &mut json);
        json.push(b'"');
    }
    json.extend_from_slice(b"]}");
    json
}

/// Formats the status and the beginning of the log's response.
fn reason(response: &CompleteResponse) -> String {
    let said = String::from_utf8_lossy(&response.body);
    let said: String = said
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_REASON)
        .collect();
    if said.is_empty() {
        response.status.to_string()
    } else {
        format!("{}: {said}", response.status)
    }
}
