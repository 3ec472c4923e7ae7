//! The handle of one log.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Chain, EntryKind, Fingerprint, Roots, Sct};
use lucarne_storage::{Assets, Encoding, Lock};
use lucarne_tlog::Tile;

use crate::{Fatal, Health, LogConfig, Metrics, Published, ReadError, State, Stats, SubmitError};

/// One log. The handle outlives failures: a fatal error stops the sequencer,
/// which is opened again with back-off, while reads go on.
pub struct Log {
    config: LogConfig,
}

/// A tile as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The stored bytes.
    pub bytes: Bytes,
    /// How they are encoded.
    pub encoding: Encoding,
}

impl Log {
    /// Makes a log that does not exist yet: signs the empty tree into the lock
    /// and publishes it.
    ///
    /// # Errors
    /// If the lock already holds this log, or lock or storage fail.
    pub async fn create(
        _config: &LogConfig,
        _assets: &dyn Assets,
        _lock: &dyn Lock,
    ) -> Result<(), Fatal> {
        unimplemented!()
    }

    /// Starts a log: returns at once, opening goes on in the background.
    /// Must be called within a tokio runtime.
    pub fn start(
        config: LogConfig,
        _roots: Roots,
        _assets: Arc<dyn Assets>,
        _lock: Arc<dyn Lock>,
        _metrics: &Metrics,
    ) -> Arc<Log> {
        Arc::new(Log { config })
    }

    /// What the operator told this log.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Whether the log takes submissions.
    pub fn state(&self) -> State {
        unimplemented!()
    }

    /// Takes a chain and answers with an SCT once the entry is in a published
    /// checkpoint. A chain submitted before gets the same timestamp and index.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn submit(&self, _kind: EntryKind, _chain: Chain) -> Result<Sct, SubmitError> {
        unimplemented!()
    }

    /// The accepted roots.
    pub fn roots(&self) -> Arc<Roots> {
        unimplemented!()
    }

    /// Replaces the accepted roots, from the next submission on.
    pub fn set_roots(&self, _roots: Roots) {
        unimplemented!()
    }

    /// The newest published checkpoint; none before the log was ever opened.
    pub fn published(&self) -> Option<Arc<Published>> {
        unimplemented!()
    }

    /// A tile as stored. Any partial width up to the newest is served, as a
    /// prefix of the newest. `None` if the published checkpoint does not cover
    /// it.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn tile(&self, _tile: Tile) -> Result<Option<Stored>, ReadError> {
        unimplemented!()
    }

    /// A full data tile in zstd, if it has been transcoded; if not, it is
    /// transcoded in the background and there for a later request.
    pub fn tile_zstd(&self, _tile: Tile) -> Option<Bytes> {
        unimplemented!()
    }

    /// The certificate with this fingerprint, if an entry of the log refers to
    /// it.
    ///
    /// # Errors
    /// If storage fails.
    pub async fn issuer(&self, _fingerprint: &Fingerprint) -> Result<Option<Bytes>, ReadError> {
        unimplemented!()
    }

    /// Recent figures.
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }

    /// Asks the log's surroundings; the answers are those of the last second.
    pub async fn health(&self) -> Health {
        unimplemented!()
    }

    /// Takes no more submissions, finishes the round, answers the waiters.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
