//! The log's side of the socket.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucarne_ct::{KeyError, LogId, PublicKey};
use lucarne_tlog::{Frontier, Hash};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::guard::{Head, Leaf};
use crate::wire::{
    LONGEST_FRAME, Request, Status, WireError, Wish, decode_response, decode_signatures,
};

/// The time that an answer is waited for. The signer's disk may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that are kept for the next request.
const KEPT: usize = 4;

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
    /// Returns whether the signer only has to come back.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Failed { .. })
    }
}

/// A signer, for one log. What it gives is not believed before it was verified with the public
/// key, which is known here.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    spki: Vec<u8>,
    log_id: LogId,
    idle: Mutex<Vec<UnixStream>>,
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
            idle: Mutex::default(),
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
        let note = self.ask(Wish::Last).await?;
        Ok((!note.is_empty()).then_some(note))
    }

    /// Has a tree head signed; `proof` is the consistency proof from the last one. Returns the note.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn head(&self, head: Head, proof: Vec<Hash>) -> Result<Vec<u8>, ClientError> {
        self.ask(Wish::Head { head, proof }).await
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
            signed(from, self.signatures(wish, to - from).await?);
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
        let wish = Wish::Leaf {
            size,
            index,
            proof,
            leaf,
        };
        Ok(self.signatures(wish, 1).await?.swap_remove(0))
    }

    async fn signatures(&self, wish: Wish<'_>, count: usize) -> Result<Vec<Vec<u8>>, ClientError> {
        let answer = self.ask(wish).await?;
        let signatures = decode_signatures(&answer).map_err(|error| self.confused(error))?;
        match signatures.len() == count {
            true => Ok(signatures),
            false => Err(self.confused(WireError::Malformed("too many or too few signatures"))),
        }
    }

    /// Asks, and returns what follows the status of an answer.
    async fn ask(&self, wish: Wish<'_>) -> Result<Vec<u8>, ClientError> {
        let log_id = self.log_id;
        let frame = Request { log_id, wish }.encode();
        let answer = match tokio::time::timeout(PATIENCE, self.exchange(&frame)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.away(error.to_string())),
            Err(_) => return Err(self.away(format!("no answer in {} s", PATIENCE.as_secs()))),
        };
        let (status, rest) = decode_response(&answer).map_err(|error| self.confused(error))?;
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

    /// Sends a frame and reads the answer. All requests may be made twice: one that a connection
    /// was kept for, whose signer is another by now, is made again on a new one.
    async fn exchange(&self, frame: &[u8]) -> io::Result<Vec<u8>> {
        let kept = self.idle.lock().pop();
        if let Some(kept) = kept
            && let Ok(answer) = self.exchange_on(kept, frame).await
        {
            return Ok(answer);
        }
        self.idle.lock().clear();
        let stream = UnixStream::connect(&self.path).await?;
        self.exchange_on(stream, frame).await
    }

    async fn exchange_on(&self, mut stream: UnixStream, frame: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(frame).await?;
        let length = stream.read_u32().await? as usize;
        if length > LONGEST_FRAME {
            let problem = "it answers with more than a frame";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await?;
        let mut idle = self.idle.lock();
        if idle.len() < KEPT {
            idle.push(stream);
        }
        Ok(answer)
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
