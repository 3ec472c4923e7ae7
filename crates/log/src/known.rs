//! Checkpoints of this log that are known outside: to a CDN, a mirror, a monitor.
//!
//! Lock, journal, storage and index can be rolled back together, where one snapshot
//! holds them all. What others have seen is not rolled back with them.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::CheckpointError;
use lucarne_storage::Assets;
use lucarne_tlog::{EMPTY_ROOT, Hash, RightEdge};

use crate::damaged::Damaged;
use crate::read_cache::read_cache;
use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::verified_tiles::VerifiedTiles;
use crate::{LogConfig, ReadError};

/// Asks for the newest checkpoint of a log in places outside.
#[async_trait]
pub trait KnownCheckpoints: Debug + Send + Sync {
    /// Asks all places at once, in bounded time.
    async fn ask(&self) -> Vec<Answer>;
}

/// The answer of one place.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its URL or path.
    pub place: String,
    /// The bytes that should be a checkpoint; or why there are none.
    pub note: Result<Bytes, String>,
}

impl Answer {
    /// Returns the checkpoint, if it is one of this log.
    ///
    /// # Errors
    /// It proves nothing.
    pub fn verify(self, config: &LogConfig) -> Result<KnownCheckpoint, AnswerError> {
        let place = self.place;
        let note = self.note.map_err(AnswerError::None)?;
        let signed = VerifiedCheckpoint::verify(note, config)?;
        Ok(KnownCheckpoint { place, signed })
    }
}

/// The reasons why an answer proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There was none, in the words of whoever asked.
    #[error("{0}")]
    None(String),
    /// It is no checkpoint, or another log's.
    #[error("what is there is no checkpoint of this log: {0}")]
    Checkpoint(#[from] CheckpointError),
}

/// A checkpoint that this log has signed, and that somebody outside has.
pub struct KnownCheckpoint {
    place: String,
    signed: VerifiedCheckpoint,
}

impl KnownCheckpoint {
    /// Where it is known.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Number of entries.
    pub fn size(&self) -> u64 {
        self.signed.checkpoint.size
    }

    /// Root hash of the tree of that size.
    pub fn root(&self) -> Hash {
        self.signed.checkpoint.root
    }

    /// Unix milliseconds.
    pub fn timestamp_ms(&self) -> u64 {
        self.signed.timestamp_ms
    }

    /// The signed note.
    pub fn note(&self) -> &[u8] {
        &self.signed.note
    }
}

/// The reasons why what is here is not what a known checkpoint has seen. Each text
/// ends with a code, which stays as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KnownError {
    /// More was signed than is here.
    #[error(
        "{place} has a checkpoint of {known} entries, signed at {timestamp_ms} with this log's key, and lock, journal and storage here have {here}: they were rolled back, all of them, or this is a copy. Put the newest ones back; never start the log with older ones: it would sign a fork (known_checkpoint_newer)"
    )]
    Newer {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// The time at which it was signed, Unix milliseconds.
        timestamp_ms: u64,
        /// The entries that are signed here.
        here: u64,
    },
    /// Another history was signed than is here.
    #[error(
        "{place} has a checkpoint of {known} entries with the root {root}, signed at {timestamp_ms} with this log's key, and {here}: this key has signed two histories, or lock and storage here belong to a copy of this log. Find out which is the right one; nothing is signed until then (known_checkpoint_fork)"
    )]
    Fork {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// Its root.
        root: Hash,
        /// The time at which it was signed, Unix milliseconds.
        timestamp_ms: u64,
        /// The history that is here instead, in words.
        here: String,
    },
    /// The tiles here cannot be read well enough to tell.
    #[error(
        "whether the {known} entries that {place} has a checkpoint of are how this log begins cannot be told: {problem} (known_checkpoint_untold)"
    )]
    Untold {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// The problem with the tiles.
        problem: String,
    },
}

impl KnownError {
    /// Returns whether a log does not start with it. A damaged tile is what readers of
    /// it are told, and no reason not to start.
    pub fn refuses(&self) -> bool {
        !matches!(self, KnownError::Untold { .. })
    }
}

/// The history of a log: tiles that its signed tree vouches for, and the rounds
/// that they may not have yet.
pub(crate) struct History<'h> {
    tiles: VerifiedTiles,
    edge: &'h Arc<RightEdge>,
    /// Size and root after each round, ascending.
    rounds: Vec<(u64, Hash)>,
}

impl<'h> History<'h> {
    /// The tree with this edge in `assets`, and what came after it.
    pub(crate) fn new(
        assets: Arc<dyn Assets>,
        edge: &'h Arc<RightEdge>,
        rounds: Vec<(u64, Hash)>,
    ) -> Self {
        /// Bytes of tiles that are kept while it is asked.
        const KEPT: u64 = 1 << 20;
        let tiles = VerifiedTiles::new(assets, read_cache(KEPT), Damaged::default());
        History {
            tiles,
            edge,
            rounds,
        }
    }

    /// The same where the log's tiles are open anyway, and have all of it.
    pub(crate) fn of(tiles: &VerifiedTiles, edge: &'h Arc<RightEdge>) -> Self {
        History {
            tiles: tiles.clone(),
            edge,
            rounds: Vec::new(),
        }
    }

    /// Its size and root.
    fn head(&self) -> (u64, Hash) {
        let tiles = (self.edge.size(), self.edge.root());
        self.rounds.last().copied().unwrap_or(tiles)
    }

    /// Returns the root that the tree had at this size; `None` if no round ended there.
    async fn root_at(&self, size: u64) -> Result<Option<Hash>, ReadError> {
        let base = (self.edge.size(), self.edge.root());
        let mut ends = self.rounds.iter().copied().chain([base, (0, EMPTY_ROOT)]);
        if let Some((_, root)) = ends.find(|(end, _)| *end == size) {
            return Ok(Some(root));
        }
        match size < base.0 {
            true => self.tiles.root_at(self.edge, size).await.map(Some),
            false => Ok(None),
        }
    }

    /// Compares it with what is known outside.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub(crate) async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let (here, _) = self.head();
        let (place, size) = (known.place.clone(), known.size());
        let timestamp_ms = known.timestamp_ms();
        if size > here {
            return Err(KnownError::Newer {
                place,
                known: size,
                timestamp_ms,
                here,
            });
        }
        let instead = match self.root_at(size).await {
            Ok(Some(root)) if root == known.root() => return Ok(()),
            Ok(Some(root)) => format!("the first {size} entries here have the root {root}"),
            Ok(None) => format!("no round here ended with {size} entries"),
            Err(error) => {
                return Err(KnownError::Untold {
                    place,
                    known: size,
                    problem: error.to_string(),
                });
            }
        };
        Err(KnownError::Fork {
            place,
            known: size,
            root: known.root(),
            timestamp_ms,
            here: instead,
        })
    }
}

/// Asks the places that the operator named. Those that prove nothing are warned of:
/// an outage elsewhere must not keep a log from starting.
pub(crate) async fn ask(config: &LogConfig) -> Vec<KnownCheckpoint> {
    let Some(places) = &config.known else {
        return Vec::new();
    };
    let verify = |answer: Answer| {
        let place = answer.place.clone();
        let verified = answer.verify(config);
        let warn = |problem: &AnswerError| {
            tracing::warn!(
                log = config.shortname,
                place,
                %problem,
                "known_checkpoints: nothing to compare with there; the log starts without it"
            );
        };
        verified.inspect_err(warn).ok()
    };
    places.ask().await.into_iter().filter_map(verify).collect()
}
