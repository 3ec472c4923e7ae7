//! Checkpoints of this log that are known outside: to a CDN, a mirror, a monitor.
//!
//! Lock, journal, storage and index can be rolled back together, where one snapshot
//! holds them all. What others have seen is not rolled back with them.

use std::sync::Arc;

use lucarne_storage::Assets;
use lucarne_tlog::{EMPTY_ROOT, Hash, RightEdge};

use crate::damaged::Damaged;
use crate::outside::{Answer, AnswerError};
use crate::read_cache::read_cache;
use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::verified_tiles::VerifiedTiles;
use crate::{KnownError, LogConfig, ReadError};

/// A checkpoint that this log has signed, and that somebody outside has.
pub struct KnownCheckpoint {
    place: String,
    signed: VerifiedCheckpoint,
}

impl KnownCheckpoint {
    /// Verifies what a place has answered as a checkpoint of this log.
    ///
    /// # Errors
    /// It proves nothing.
    pub fn verify(answer: Answer, config: &LogConfig) -> Result<Self, AnswerError> {
        let note = answer.note?;
        let signed = VerifiedCheckpoint::verify(note, config)?;
        Ok(KnownCheckpoint {
            place: answer.place,
            signed,
        })
    }

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

    pub(crate) fn signed(&self) -> &VerifiedCheckpoint {
        &self.signed
    }

    /// The signed note.
    pub fn note(&self) -> &[u8] {
        &self.signed.note
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
        let verified = KnownCheckpoint::verify(answer, config);
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
