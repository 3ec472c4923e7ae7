//! The requests to one witness.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_tlog::Hash;
use lucarne_tlog::checkpoint::parse_size;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::config::witnesses::{WitnessError, Witnesses};
use crate::data::cosignatures::{Cosignature, Unusable, verified};
use crate::data::tree::Tree;
use crate::error::ReadError;
use crate::read::proofs;
use crate::shared::Shared;
use crate::status::witness_status::{OUTDATED, Outcome};

/// Time limit for the response of a witness, including a second request with another proof.
pub(super) const LATE: Duration = Duration::from_secs(2);
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
    /// The submission prefix of the witness.
    pub(super) prefix: String,
    /// The checkpoint of the request.
    pub(super) note: Bytes,
    pub(super) lines: Result<Vec<Cosignature>, Failure>,
}

/// The reasons why a witness has not cosigned a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no response within {} s", LATE.as_secs())]
    Late,
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
    #[error("cannot prove the growth of the log: {0}")]
    Proof(#[from] ReadError),
}

impl Failure {
    /// Returns the result for the metrics.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Late => Outcome::Late,
            Self::Oversized => Outcome::Oversized,
            Self::Unreachable(_) => Outcome::Unreachable,
            Self::Refused(_) => Outcome::Refused,
            Self::Conflict | Self::Ahead(_) => Outcome::Conflict,
            Self::Duplicate => Outcome::Duplicate,
            Self::Invalid | Self::Missing | Self::Future => Outcome::Invalid,
            Self::Outdated => Outcome::Outdated,
            Self::Proof(_) => Outcome::Unproven,
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
    prefix: String,
    mut newest: watch::Receiver<Option<Arc<Proposal>>>,
    responses: mpsc::Sender<Response>,
) {
    let mut witness = Witness {
        log,
        witnesses,
        prefix,
        named: 0,
    };
    while newest.changed().await.is_ok() {
        let Some(proposal) = newest.borrow_and_update().clone() else {
            continue;
        };
        let lines = timeout(LATE, witness.cosigned(&proposal)).await;
        let response = Response {
            prefix: witness.prefix.clone(),
            note: proposal.note.clone(),
            lines: lines.unwrap_or(Err(Failure::Late)),
        };
        if responses.send(response).await.is_err() {
            return;
        }
    }
}

struct Witness {
    log: Arc<Shared>,
    witnesses: Witnesses,
    prefix: String,
    /// The last size that the witness named, or 0.
    named: u64,
}

impl Witness {
    /// Requests a cosignature. If the witness names another size, requests it a second time with
    /// the proof from this size.
    async fn cosigned(&mut self, proposal: &Proposal) -> Result<Vec<Cosignature>, Failure> {
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
            (200, lines) => {
                self.named = size;
                let lines = verified(&self.witnesses.policy, &proposal.text, &lines)?;
                let latest = self.log.status.now_ms() / 1000 + AHEAD;
                if lines.iter().any(|line| line.time > latest) {
                    return Err(Failure::Future);
                }
                Ok(lines)
            }
            (409, _) => Err(Failure::Conflict),
            (status, _) => Err(Failure::Refused(status)),
        }
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
        let client = &self.witnesses.client;
        let response = client
            .add_checkpoint(&self.prefix, body, MAX_RESPONSE)
            .await?;
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
