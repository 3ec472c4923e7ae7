//! The log's side of the socket.

mod line;
mod singles;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{KeyError, LogId, PublicKey};
use lucarne_tlog::{Frontier, Hash};

use self::line::Line;
use self::singles::{NoResponse, Singles};
use crate::guard::{Head, Leaf};
use crate::wire::{Request, Status, WireError, Wish, decode_response, decode_signatures};

/// The longest wait for a response. The signer's disk may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections for the SCTs of rounds.
const ROUND_CONNECTIONS: usize = 2;

/// The bytes of leaves that go into one request: the signatures of a large round come by and by.
const PART: usize = 1 << 20;

/// The reasons why there is no signature.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The signer is not there, or does not answer.
    #[error("the signer at {path} is away: {problem}")]
    Away {
        /// The socket.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The signer will not sign that.
    #[error("the signer at {path} refuses: {reason}")]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Its words.
        reason: String,
    },
    /// The signer cannot sign now.
    #[error("the signer at {path} cannot sign: {problem}")]
    Failed {
        /// The socket.
        path: PathBuf,
        /// Its words.
        problem: String,
    },
    /// Too many SCTs of single entries are waited for already.
    #[error("too many SCTs of old entries are waited for at the signer at {path}")]
    Busy {
        /// The socket.
        path: PathBuf,
    },
    /// The signer does not remember a head of that size.
    #[error("the signer remembers no such tree: {0}")]
    UnknownTree(String),
    /// What is there is no signer of this log, or of another version.
    #[error("the signer at {path} does not understand: {problem}")]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

impl ClientError {
    /// Returns whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Away { .. } | Self::Failed { .. } | Self::Busy { .. }
        )
    }
}

/// A signer, for one log. What it gives is not believed before it was verified with the public
/// key, which is known here.
///
/// Tree heads, the SCTs of rounds and the SCTs of single entries have connections of their own, each a few:
/// however many clients submit known certificates again, no round waits for their SCTs.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    spki: Vec<u8>,
    log_id: LogId,
    heads: Line,
    rounds: Line,
    singles: Arc<Singles>,
}

impl Client {
    /// A client of the signer at `path` that has the key with this SubjectPublicKeyInfo. Nothing is
    /// asked yet.
    ///
    /// # Errors
    /// If that is not the key of a log.
    pub fn new(path: &Path, spki: Vec<u8>) -> Result<Self, KeyError> {
        Ok(Self {
            path: path.to_owned(),
            log_id: PublicKey::from_spki(&spki)?.log_id(),
            spki,
            heads: Line::new(path, 1),
            rounds: Line::new(path, ROUND_CONNECTIONS),
            singles: Arc::new(Singles::new(path)),
        })
    }

    /// The log's ID.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// The public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last note that was signed, `None` if none was.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn last(&self) -> Result<Option<Vec<u8>>, ClientError> {
        let note = self.ask(&self.heads, Wish::Last).await?;
        Ok((!note.is_empty()).then_some(note))
    }

    /// Has a tree head signed; `proof` is the consistency proof from the last one. Returns the note.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn head(&self, head: Head, proof: Vec<Hash>) -> Result<Vec<u8>, ClientError> {
        self.ask(&self.heads, Wish::Head { head, proof }).await
    }

    /// Has the SCTs of all leaves signed that follow `before` in a signed tree; `leaf` gives the one
    /// whose hash has this place in `hashes`. Those of some come before those of others: `signed` is
    /// called with the place of the first of them, and their signatures.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn range(
        &self,
        before: &Frontier,
        hashes: &[Hash],
        leaf: impl Fn(usize) -> Vec<u8>,
        mut signed: impl FnMut(usize, Vec<Vec<u8>>),
    ) -> Result<(), ClientError> {
        let mut from = 0;
        while from < hashes.len() {
            let whole = part(from..hashes.len(), &leaf);
            let to = from + whole.len();
            let known =
                |hashes: &[Hash]| hashes.iter().copied().map(Leaf::Hash).collect::<Vec<_>>();
            let shown = whole.iter().map(|leaf| Leaf::Whole(leaf)).collect();
            let wish = Wish::Range {
                before: before.clone(),
                leaves: [known(&hashes[..from]), shown, known(&hashes[to..])].concat(),
            };
            let response = self.ask(&self.rounds, wish).await?;
            signed(from, self.signatures(&response, to - from)?);
            from = to;
        }
        Ok(())
    }

    /// Has the SCT of one leaf signed, which this proof shows to be in a signed tree.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn leaf(
        &self,
        size: u64,
        index: u64,
        leaf: &[u8],
        proof: Vec<Hash>,
    ) -> Result<Vec<u8>, ClientError> {
        let frame = self.frame(Wish::Leaf {
            size,
            index,
            proof,
            leaf,
        });
        let response = match self.singles.ask(frame).await {
            Ok(response) => self.done(&response)?,
            Err(NoResponse::Busy) => {
                return Err(ClientError::Busy {
                    path: self.path.clone(),
                });
            }
            Err(NoResponse::Late) => return Err(self.late()),
            Err(NoResponse::Failed(problem)) => return Err(self.away(problem)),
        };
        Ok(self.signatures(&response, 1)?.swap_remove(0))
    }

    fn signatures(&self, response: &[u8], count: usize) -> Result<Vec<Vec<u8>>, ClientError> {
        let signatures = decode_signatures(response).map_err(|error| self.confused(error))?;
        match signatures.len() == count {
            true => Ok(signatures),
            false => Err(self.confused(WireError::Malformed("too many or too few signatures"))),
        }
    }

    /// Sends a request on one of these connections, and returns what follows the status of the response.
    async fn ask(&self, line: &Line, wish: Wish<'_>) -> Result<Vec<u8>, ClientError> {
        let frame = self.frame(wish);
        let turn = line.turn().await;
        match tokio::time::timeout(PATIENCE, turn.exchange(&[frame])).await {
            Ok(Ok(mut responses)) => self.done(&responses.swap_remove(0)),
            Ok(Err(error)) => Err(self.away(error.to_string())),
            Err(_) => Err(self.late()),
        }
    }

    fn frame(&self, wish: Wish<'_>) -> Vec<u8> {
        let log_id = self.log_id;
        Request { log_id, wish }.encode()
    }

    /// Returns what follows the status of a response to a request that was granted.
    fn done(&self, response: &[u8]) -> Result<Vec<u8>, ClientError> {
        let (status, rest) = decode_response(response).map_err(|error| self.confused(error))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        let path = || self.path.clone();
        match status {
            Status::Done => Ok(rest.to_vec()),
            Status::Refused => Err(ClientError::Refused {
                path: path(),
                reason: text(),
            }),
            Status::Failed => Err(ClientError::Failed {
                path: path(),
                problem: text(),
            }),
            Status::UnknownTree => Err(ClientError::UnknownTree(text())),
            Status::BadRequest => Err(ClientError::Protocol {
                path: path(),
                problem: text(),
            }),
        }
    }

    fn late(&self) -> ClientError {
        self.away(format!("no answer in {} s", PATIENCE.as_secs()))
    }

    fn away(&self, problem: String) -> ClientError {
        ClientError::Away {
            path: self.path.clone(),
            problem,
        }
    }

    fn confused(&self, error: WireError) -> ClientError {
        ClientError::Protocol {
            path: self.path.clone(),
            problem: error.to_string(),
        }
    }
}

/// The first of these leaves, as many as go into one request: at least one.
fn part(mut places: Range<usize>, leaf: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut part = Vec::new();
    let mut bytes = 0;
    while bytes < PART
        && let Some(place) = places.next()
    {
        let leaf = leaf(place);
        bytes += leaf.len();
        part.push(leaf);
    }
    part
}

#[cfg(test)]
mod tests;
