//! Creation of large logs and indices for measurements (feature `fill`). The entries are neither
//! submitted nor verified, but pass through the same pool, sequencer and index as all other
//! entries.
//!
//! Servers are built without this code: only `bench/large` enables the feature.

use std::path::Path;

use lucarne_ct::{Entry, Identity, LogId};
use lucarne_tlog::EMPTY_ROOT;

use crate::config::lane::Lane;
use crate::data::tree::TreeHead;
use crate::error::{Fatal, SubmitError};
use crate::index::dedup::{Dedup, LeafPosition};
use crate::log::Log;
use crate::submit::pool::{Joined, Known};

impl Log {
    /// Appends entries in one round, or in the few rounds into which the pool splits them, and
    /// returns after publication. Entries are not validated; each must be new to the log.
    ///
    /// # Errors
    /// If the log is not open, or its pool has no room for the entries.
    pub async fn append(&self, entries: Vec<Entry>) -> Result<(), SubmitError> {
        let session = self.shared().submissions.session.load_full();
        let session = session.ok_or_else(|| self.shared().submissions.unavailable())?;
        let mut last = None;
        for mut entry in entries {
            last = loop {
                let Known::NotHere(epoch) = session.pool.find(&entry.identity) else {
                    break last;
                };
                match session.pool.join(entry, Lane::Fresh, epoch) {
                    Joined::At(ticket) => break Some(ticket),
                    Joined::LookAgain(same) => entry = *same,
                    Joined::Full {
                        retry_after_seconds,
                    } => {
                        return Err(SubmitError::Full {
                            lane: Lane::Fresh,
                            retry_after_seconds,
                        });
                    }
                    Joined::Closed => return Err(self.shared().submissions.unavailable()),
                }
            };
        }
        match last {
            Some(ticket) => ticket.wait().await.map(drop),
            None => return Ok(()),
        }
        .map_err(|_| self.shared().submissions.unavailable())
    }
}

/// A dedup index without a log.
pub struct LooseIndex(Dedup);

impl LooseIndex {
    /// Opens the index in `path`, or creates it.
    ///
    /// # Errors
    /// If the index cannot be opened, or belongs to another log.
    pub fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        Dedup::open(path, owner).map(Self)
    }

    /// Returns the number of entries in the index.
    pub fn indexed(&self) -> u64 {
        self.0.indexed()
    }

    /// Adds a round of entries, which follow the existing entries and have this timestamp.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn extend(&self, identities: &[Identity], timestamp_ms: u64) -> Result<(), Fatal> {
        let first = self.indexed();
        let size = first + identities.len() as u64;
        let entries = (first..).zip(identities).map(|(index, identity)| {
            let place = LeafPosition {
                index,
                timestamp_ms,
            };
            (*identity, place)
        });
        // An invented root: without a log, the index never compares the root with a tree.
        let mut root = EMPTY_ROOT;
        root.0[..8].copy_from_slice(&size.to_be_bytes());
        self.0.extend(entries, size, TreeHead { size, root })
    }

    /// Returns the index of the entry with this identity.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn find(&self, identity: &Identity) -> Result<Option<u64>, Fatal> {
        Ok(self.0.find(identity)?.map(|place| place.index))
    }

    /// Writes all entries in memory to disk, as a log does when it closes.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn flush(&self) -> Result<(), Fatal> {
        self.0.flush()
    }
}
