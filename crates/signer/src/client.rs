//! The client side of the socket, used by the log.

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

/// Timeout of a response, long because the signer's disk may hang.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of connections for the SCTs of rounds.
const ROUND_CONNECTIONS: usize = 2;

/// Maximum number of bytes of leaves in one request: the signatures of a large round arrive in
/// parts.
const PART: usize = 1 << 20;

/// The reasons why there is no signature.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The signer is unavailable.
    #[error("the signer at {path} is unavailable: {problem}")]
    Away {
        /// Path of the signer's socket.
        path: PathBuf,
        /// The error of the connection, or the timeout.
        problem: String,
    },
    /// The signer refuses to sign the object.
    #[error("the signer at {path} refuses to sign: {reason}")]
    Refused {
        /// Path of the signer's socket.
        path: PathBuf,
        /// The reason given by the signer.
        reason: String,
    },
    /// The signer cannot sign now.
    #[error("the signer at {path} cannot sign: {problem}")]
    Failed {
        /// Path of the signer's socket.
        path: PathBuf,
        /// The reason given by the signer.
        problem: String,
    },
    /// Too many requests for SCTs of single entries are waiting.
    #[error("too many requests for SCTs of old entries are waiting for the signer at {path}")]
    Busy {
        /// Path of the signer's socket.
        path: PathBuf,
    },
    /// The signer does not remember a tree head of that size.
    #[error("the signer does not remember this tree: {0}")]
    UnknownTree(String),
    /// The peer is not a signer of this log, or has another version.
    #[error("protocol error with the signer at {path}: {problem}")]
    Protocol {
        /// Path of the signer's socket.
        path: PathBuf,
        /// The violation of the protocol.
        problem: String,
    },
}

impl ClientError {
    /// Returns `true` if the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Away { .. } | Self::Failed { .. } | Self::Busy { .. }
        )
    }
}

/// A client of the signer of one log. Each response is verified with the known public key.
///
/// Tree heads, SCTs of rounds and SCTs of single entries use separate connections, a few of each.
/// Clients that submit known certificates again therefore never delay a round.
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
    /// Creates a client of the signer at `path` for the key with this SubjectPublicKeyInfo. Nothing
    /// is sent yet.
    ///
    /// # Errors
    /// If the key is not a log's key.
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

    /// Returns the ID of the log whose entries and checkpoints the signer signs.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last signed note; `None` if nothing was signed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn last(&self) -> Result<Option<Vec<u8>>, ClientError> {
        let note = self.ask(&self.heads, Wish::Last).await?;
        Ok((!note.is_empty()).then_some(note))
    }

    /// Requests a signed tree head and returns the note. `proof` is the consistency proof from the
    /// last head.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn head(&self, head: Head, proof: Vec<Hash>) -> Result<Vec<u8>, ClientError> {
        self.ask(&self.heads, Wish::Head { head, proof }).await
    }

    /// Requests the SCTs of all leaves that follow `before` in a signed tree. `leaf` returns the
    /// leaf whose hash has the given position in `hashes`. Signatures arrive in parts: `signed` is
    /// called with the position of the first leaf of each part, and the signatures of the part.
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

    /// Requests the SCT of one leaf. The proof shows that the leaf is in a signed tree.
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
        if signatures.len() == count {
            Ok(signatures)
        } else {
            Err(self.confused(WireError::Malformed("too many or too few signatures")))
        }
    }

    /// Sends a request on a connection of `line`, and returns the response without its status.
    async fn ask(&self, line: &Line, wish: Wish<'_>) -> Result<Vec<u8>, ClientError> {
        let frame = self.frame(wish);
        let turn = line.turn().await;
        match tokio::time::timeout(RESPONSE_TIMEOUT, turn.exchange(&[frame])).await {
            Ok(Ok(mut responses)) => self.done(&responses.swap_remove(0)),
            Ok(Err(error)) => Err(self.away(error.to_string())),
            Err(_) => Err(self.late()),
        }
    }

    fn frame(&self, wish: Wish<'_>) -> Vec<u8> {
        let log_id = self.log_id;
        Request { log_id, wish }.encode()
    }

    /// Returns a successful response without its status.
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
        self.away(format!("no response in {} s", RESPONSE_TIMEOUT.as_secs()))
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

/// Returns the first leaves that fit into one request, at least one.
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
