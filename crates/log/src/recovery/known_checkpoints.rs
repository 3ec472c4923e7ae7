//! Checkpoints of this log that external sources have: a CDN, a mirror, a monitor.
//!
//! Lock, journal, storage and index can be rolled back together if one snapshot contains all of
//! them. External sources are not rolled back with them.

use std::sync::Arc;

use lucarne_storage::Assets;
use lucarne_tlog::{EMPTY_ROOT, Hash, RightEdge};

use crate::config::LogConfig;
use crate::config::external_sources::{SourceResponse, SourceResponseError};
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::{HistoryHere, KnownError, ReadError};
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::read_cache;
use crate::read::verified_tiles::VerifiedTiles;

/// A checkpoint from an external source, which this log has signed.
pub struct KnownCheckpoint {
    place: String,
    signed: VerifiedCheckpoint,
}

impl KnownCheckpoint {
    /// Verifies the response of a source as a checkpoint of this log.
    ///
    /// # Errors
    /// If the response is not a checkpoint that this log has signed.
    pub fn verify(
        response: SourceResponse,
        config: &LogConfig,
    ) -> Result<Self, SourceResponseError> {
        let note = response.note?;
        let signed = VerifiedCheckpoint::verify(note, config)?;
        Ok(KnownCheckpoint {
            place: response.place,
            signed,
        })
    }

    /// Returns the URL or the path of the source.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the number of entries.
    pub fn size(&self) -> u64 {
        self.signed.checkpoint.size
    }

    /// Returns the root hash of the tree.
    pub fn root(&self) -> Hash {
        self.signed.checkpoint.root
    }

    /// Returns the timestamp in Unix milliseconds.
    pub fn timestamp_ms(&self) -> u64 {
        self.signed.timestamp_ms
    }

    pub(crate) fn signed(&self) -> &VerifiedCheckpoint {
        &self.signed
    }

    /// Returns the signed note.
    pub fn note(&self) -> &[u8] {
        &self.signed.note
    }
}

/// The history of a log: tiles that match its signed tree, and later rounds that the tiles may
/// lack.
pub(crate) struct History<'h> {
    tiles: VerifiedTiles,
    edge: &'h Arc<RightEdge>,
    /// Size and root after each round, ascending.
    rounds: Vec<(u64, Hash)>,
}

impl<'h> History<'h> {
    /// Returns the history of the tree with this edge in `assets`, and of later rounds.
    pub(crate) fn new(
        assets: Arc<dyn Assets>,
        edge: &'h Arc<RightEdge>,
        rounds: Vec<(u64, Hash)>,
    ) -> Self {
        /// Bytes of cached tiles.
        const KEPT: u64 = 1 << 20;
        let tiles = VerifiedTiles::of_store(assets, read_cache(KEPT), DamagedFiles::default());
        History {
            tiles,
            edge,
            rounds,
        }
    }

    /// Returns the history of a tree whose tiles are already open and complete.
    pub(crate) fn of(tiles: &VerifiedTiles, edge: &'h Arc<RightEdge>) -> Self {
        History {
            tiles: tiles.clone(),
            edge,
            rounds: Vec::new(),
        }
    }

    /// Returns the size and the root at the end of the history.
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
        if size < base.0 {
            self.tiles.root_at(self.edge, size).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Compares the history, whose end was signed at `signed_ms`, with external checkpoints.
    ///
    /// # Errors
    /// If a source has a larger or a different tree of this log.
    pub(crate) async fn hold_against_all(
        &self,
        known: &[KnownCheckpoint],
        signed_ms: u64,
        log: &str,
    ) -> Result<(), KnownError> {
        for known in known {
            match self.hold_against(known).await {
                Ok(()) if known.size() == self.head().0 && known.timestamp_ms() > signed_ms => {
                    tracing::warn!(
                        log,
                        place = known.place(),
                        "this source has a newer checkpoint of the same tree: the lock is not the \
                         newest lock, but no entry is missing"
                    );
                }
                Ok(()) => {}
                Err(error) if error.refuses() => return Err(error),
                Err(error) => tracing::warn!(log, %error),
            }
        }
        Ok(())
    }

    /// Compares the history with an external checkpoint.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub(crate) async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let (here, _) = self.head();
        none_beyond(here, std::slice::from_ref(known))?;
        let (place, size) = (known.place.clone(), known.size());
        let timestamp_ms = known.timestamp_ms();
        let instead = match self.root_at(size).await {
            Ok(Some(root)) if root == known.root() => return Ok(()),
            Ok(Some(root)) => HistoryHere::Root { size, root },
            Ok(None) => HistoryHere::NoRound { size },
            Err(error) => {
                return Err(KnownError::Untold {
                    place,
                    known: size,
                    problem: error,
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

/// Checks that no source has more entries of the log than there are `here`.
///
/// # Errors
/// [`KnownError::Newer`].
pub(crate) fn none_beyond(here: u64, known: &[KnownCheckpoint]) -> Result<(), KnownError> {
    match known.iter().find(|known| known.size() > here) {
        None => Ok(()),
        Some(newer) => Err(KnownError::Newer {
            place: newer.place.clone(),
            known: newer.size(),
            timestamp_ms: newer.timestamp_ms(),
            here,
        }),
    }
}

/// Queries the sources in the operator's configuration. Invalid responses are logged as warnings,
/// because an external outage must not prevent a log's start.
pub(crate) async fn ask(config: &LogConfig) -> Vec<KnownCheckpoint> {
    let Some(places) = &config.known else {
        return Vec::new();
    };
    let verify = |response: SourceResponse| {
        let place = response.place.clone();
        let verified = KnownCheckpoint::verify(response, config);
        let warn = |problem: &SourceResponseError| {
            tracing::warn!(
                log = config.shortname,
                place,
                %problem,
                "known_checkpoints: this source returned no valid checkpoint of the log, and is \
                 not compared with the log"
            );
        };
        verified.inspect_err(warn).ok()
    };
    places.ask().await.into_iter().filter_map(verify).collect()
}
