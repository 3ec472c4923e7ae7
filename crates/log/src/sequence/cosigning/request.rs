//! The requests to one witness or mirror.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_tlog::Hash;
use lucarne_tlog::checkpoint::parse_size;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::config::witnesses::{CosignerServer, Endpoint, WitnessError, Witnesses};
use crate::data::cosignatures::{Cosignature, Unusable, verified};
use crate::data::tree::Tree;
use crate::error::ReadError;
use crate::read::proofs;
use crate::shared::Shared;
use crate::status::witness_status::{OUTDATED, Outcome};

/// Time limit for the response of a witness, including a second request with another proof.
pub(super) const LATE: Duration = Duration::from_secs(2);
/// The first pause after a failure of a mirror. It doubles up to [`LAST_RETRY`].
const RETRY: Duration = Duration::from_secs(1);
/// Longest pause after a failure of a mirror.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 16 << 10;
/// The clock of a witness may be ahead by this number of seconds.
const AHEAD: u64 = 3600;

/// A published checkpoint.
pub(super) struct Proposal {
    pub(super) note: Bytes,
    /// The signed text of the note.
    pub(super) text: String,
    pub(super) tree: Arc<Tree>,
}

/// The result of a request.
pub(super) struct Response {
    pub(super) server: CosignerServer,
    /// The checkpoint of the request.
    pub(super) note: Bytes,
    pub(super) lines: Result<Vec<Cosignature>, Failure>,
}

/// The reasons why a witness has not cosigned a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no response within {} s", .0.as_secs())]
    Late(Duration),
    #[error("the response has more than {} KiB", MAX_RESPONSE >> 10)]
    Oversized,
    #[error("{0}")]
    Unreachable(String),
    #[error("the response has the status {0}")]
    Refused(u16),
    #[error("the response with the status 409 has no usable size")]
    Conflict,
    #[error("the witness has cosigned a tree of {0} entries, more than this log has published")]
    Ahead(u64),
    #[error("the response has two cosignatures of one key")]
    Duplicate,
    #[error("the response has no valid cosignature of a key of the policy")]
    Invalid,
    #[error("the response has no cosignature of this key")]
    Missing,
    #[error("the response has a cosignature with a time in the future")]
    Future,
    #[error("{OUTDATED}")]
    Outdated,
    #[error("cannot read the tiles of the log: {0}")]
    Proof(#[from] ReadError),
    #[error("the entry {0} cannot be uploaded: it has more than 65,535 bytes")]
    Entry(u64),
    #[error("the response does not name the next entry")]
    State,
    #[error("the mirror does not continue after the entry {0}")]
    Stuck(u64),
}

impl Failure {
    /// Returns the result for the metrics.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Late(_) => Outcome::Late,
            Self::Oversized => Outcome::Oversized,
            Self::Unreachable(_) => Outcome::Unreachable,
            Self::Refused(_) => Outcome::Refused,
            Self::Conflict | Self::Ahead(_) | Self::State | Self::Stuck(_) => Outcome::Conflict,
            Self::Duplicate => Outcome::Duplicate,
            Self::Invalid | Self::Missing | Self::Future => Outcome::Invalid,
            Self::Outdated => Outcome::Outdated,
            Self::Proof(_) | Self::Entry(_) => Outcome::Unproven,
        }
    }
}

impl From<WitnessError> for Failure {
    fn from(error: WitnessError) -> Self {
        match error {
            WitnessError::TooLong => Self::Oversized,
            WitnessError::Unreachable(error) => Self::Unreachable(error.to_string()),
        }
    }
}

impl From<Unusable> for Failure {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Invalid => Self::Invalid,
            Unusable::Duplicate => Self::Duplicate,
        }
    }
}

/// Requests a cosignature of each checkpoint that is the newest when the last request has ended.
pub(super) async fn attend(
    (log, witnesses): (Arc<Shared>, Witnesses),
    server: CosignerServer,
    mut newest: watch::Receiver<Option<Arc<Proposal>>>,
    responses: mpsc::Sender<Response>,
) {
    let mut requests = Requests {
        log,
        witnesses,
        server,
        named: 0,
        next: None,
    };
    let mut pause = Duration::ZERO;
    while newest.changed().await.is_ok() {
        let Some(proposal) = newest.borrow_and_update().clone() else {
            continue;
        };
        let lines = if requests.server.is_mirror {
            requests.mirrored(&proposal).await
        } else {
            let cosigned = timeout(LATE, requests.cosigned(&proposal)).await;
            cosigned.unwrap_or(Err(Failure::Late(LATE)))
        };
        pause = match lines {
            Err(_) if requests.server.is_mirror => (2 * pause).clamp(RETRY, LAST_RETRY),
            _ => Duration::ZERO,
        };
        let response = Response {
            server: requests.server.clone(),
            note: proposal.note.clone(),
            lines,
        };
        if responses.send(response).await.is_err() {
            return;
        }
        sleep(pause).await;
    }
}

/// The requests to one server.
pub(super) struct Requests {
    pub(super) log: Arc<Shared>,
    pub(super) witnesses: Witnesses,
    pub(super) server: CosignerServer,
    /// The last size that the server named, or 0.
    named: u64,
    /// The next entry of a mirror; `None` after a failure, and before the first response.
    pub(super) next: Option<u64>,
}

impl Requests {
    /// Requests a cosignature.
    async fn cosigned(&mut self, proposal: &Proposal) -> Result<Vec<Cosignature>, Failure> {
        let lines = self.add_checkpoint(proposal).await?;
        self.verified(proposal, &lines)
    }

    /// Sends a checkpoint, and returns the body of the response. If the server names another size,
    /// sends it a second time with the proof from this size.
    pub(super) async fn add_checkpoint(&mut self, proposal: &Proposal) -> Result<String, Failure> {
        let size = proposal.tree.size();
        let known = if self.named <= size { self.named } else { 0 };
        let mut response = self.request(known, proposal).await?;
        if let (409, named) = &response {
            let named = named.strip_suffix('\n').and_then(parse_size);
            self.named = named
                .filter(|named| *named != known)
                .ok_or(Failure::Conflict)?;
            if self.named > size {
                return Err(Failure::Ahead(self.named));
            }
            response = self.request(self.named, proposal).await?;
        }
        match response {
            (200, body) => {
                self.named = size;
                Ok(body)
            }
            (409, _) => Err(Failure::Conflict),
            (status, _) => Err(Failure::Refused(status)),
        }
    }

    /// Verifies the lines of a response.
    pub(super) fn verified(
        &self,
        proposal: &Proposal,
        lines: &str,
    ) -> Result<Vec<Cosignature>, Failure> {
        let lines = verified(&self.witnesses.policy, &proposal.text, lines)?;
        let latest = self.log.status.now_ms() / 1000 + AHEAD;
        if lines.iter().any(|line| line.time > latest) {
            return Err(Failure::Future);
        }
        Ok(lines)
    }

    async fn request(&self, old: u64, proposal: &Proposal) -> Result<(u16, String), Failure> {
        let (edge, size) = (&proposal.tree.edge, proposal.tree.size());
        // The proofs from an empty and from an equal tree are empty.
        let proof = if (1..size).contains(&old) {
            proofs::consistency(self.log.reader.tiles(), edge, old, size).await?
        } else {
            Vec::new()
        };
        let body = add_checkpoint(old, &proof, &proposal.note);
        self.post(Endpoint::AddCheckpoint, body).await
    }

    pub(super) async fn post(
        &self,
        endpoint: Endpoint,
        body: Bytes,
    ) -> Result<(u16, String), Failure> {
        let (client, prefix) = (&self.witnesses.client, &self.server.prefix);
        let response = client.post(prefix, endpoint, body, MAX_RESPONSE).await?;
        if response.body.len() > MAX_RESPONSE {
            return Err(Failure::Oversized);
        }
        let text = String::from_utf8(response.body.into()).map_err(|_| Failure::Invalid)?;
        Ok((response.status, text))
    }
}

/// Returns the body of a request to cosign a checkpoint.
fn add_checkpoint(old: u64, proof: &[Hash], note: &[u8]) -> Bytes {
    let mut body = format!("old {old}\n");
    for hash in proof {
        body.push_str(&format!("{hash}\n"));
    }
    [body.as_bytes(), b"\n", note].concat().into()
}
