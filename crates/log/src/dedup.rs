//! The dedup index on disk: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities. The index follows the log and is never
//! ahead of it: each batch carries, atomically, the number of entries indexed
//! so far, so that after a crash it is brought up to date from the log's own
//! tiles. Nothing is synced for its sake, and losing it costs a rebuild.

use std::path::{Path, PathBuf};

use fjall::config::{
    BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy, PinningPolicy,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use lucarne_ct::{Identity, LogId};

use crate::Fatal;

/// Memory for blocks of the index that are read.
const CACHE_BYTES: u64 = 24 << 20;
/// Memory for entries not yet sorted to disk: about 150,000 of them.
const MEMTABLE_BYTES: u64 = 12 << 20;
/// fjall's own journal: bounded to a few memtables.
const JOURNAL_BYTES: u64 = 64 << 20;

const OWNER: &[u8] = b"log id";
const INDEXED: &[u8] = b"indexed entries";

/// Where an entry is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: u64,
    pub(crate) timestamp_ms: u64,
}

impl Place {
    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.index.to_be_bytes());
        bytes[8..].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Place> {
        let (index, timestamp_ms) = bytes.split_at_checked(8)?;
        Some(Place {
            index: u64::from_be_bytes(index.try_into().ok()?),
            timestamp_ms: u64::from_be_bytes(timestamp_ms.try_into().ok()?),
        })
    }
}

/// The dedup index of one log.
pub(crate) struct Dedup {
    path: PathBuf,
    database: Database,
    places: Keyspace,
    meta: Keyspace,
}

impl Dedup {
    /// Opens the index in `path`, or makes one.
    ///
    /// # Errors
    /// If another process has it open, it belongs to another log, or it is
    /// damaged.
    pub(crate) fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: fjall::Error| fatal(path, &error);
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(1)
            .open()
            .map_err(failed)?;
        let places = database
            .keyspace("places", places_options)
            .map_err(failed)?;
        let meta = database
            .keyspace("meta", || {
                KeyspaceCreateOptions::default().max_memtable_size(1 << 20)
            })
            .map_err(failed)?;
        let dedup = Dedup {
            path: path.to_path_buf(),
            database,
            places,
            meta,
        };
        dedup.claim(owner)?;
        Ok(dedup)
    }

    /// Removes an index that is damaged or from another time, and makes an
    /// empty one in its place.
    pub(crate) fn rebuild(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fatal(path, &error)),
            _ => Dedup::open(path, owner),
        }
    }

    /// Two logs that share one index would answer for each other.
    fn claim(&self, owner: LogId) -> Result<(), Fatal> {
        match self.meta.get(OWNER).map_err(|e| self.fatal(&e))? {
            None => self.meta.insert(OWNER, owner.0).map_err(|e| self.fatal(&e)),
            Some(found) if *found == owner.0 => Ok(()),
            Some(_) => Err(Fatal::Inconsistent(format!(
                "the dedup index in {} belongs to another log: give each log a `cache` of its own",
                self.path.display()
            ))),
        }
    }

    /// Number of entries indexed: all those below it, and none above.
    pub(crate) fn indexed(&self) -> Result<u64, Fatal> {
        let value = self.meta.get(INDEXED).map_err(|e| self.fatal(&e))?;
        Ok(value
            .and_then(|bytes| Some(u64::from_be_bytes((*bytes).try_into().ok()?)))
            .unwrap_or(0))
    }

    /// Where the log has this identity.
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<Place>, Fatal> {
        let value = self.places.get(identity.0).map_err(|e| self.fatal(&e))?;
        match value {
            None => Ok(None),
            Some(bytes) => Place::decode(&bytes)
                .map(Some)
                .ok_or_else(|| self.fatal(&"a value is not 16 bytes long")),
        }
    }

    /// Adds the entries that follow the indexed ones, up to `indexed` in all.
    /// The first place of an identity stands: `entries` may not repeat one
    /// that is there.
    pub(crate) fn extend(
        &self,
        entries: impl Iterator<Item = (Identity, Place)>,
        indexed: u64,
    ) -> Result<(), Fatal> {
        let mut batch = self.database.batch();
        for (identity, place) in entries {
            batch.insert(&self.places, identity.0, place.encode());
        }
        batch.insert(&self.meta, INDEXED, indexed.to_be_bytes());
        batch.commit().map_err(|e| self.fatal(&e))
    }

    fn fatal(&self, problem: &dyn std::fmt::Display) -> Fatal {
        fatal(&self.path, problem)
    }
}

fn fatal(path: &Path, problem: &dyn std::fmt::Display) -> Fatal {
    Fatal::Dedup {
        path: path.display().to_string(),
        problem: problem.to_string(),
    }
}

/// Nearly every look-up is for an identity that is not there: what decides is
/// the filter. Filters and block indexes are partitioned at every level:
/// whole ones are read in megabytes as soon as they outgrow the cache.
fn places_options() -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(12.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .filter_policy(FilterPolicy::all(bloom))
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u64) -> Identity {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        Identity(bytes)
    }

    fn place(n: u64) -> Place {
        Place {
            index: n,
            timestamp_ms: 1_000_000 + n,
        }
    }

    #[test]
    fn finds_what_was_added_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let owner = LogId([1; 32]);
        {
            let dedup = Dedup::open(dir.path(), owner).unwrap();
            assert_eq!(dedup.indexed().unwrap(), 0);
            let entries = (0..1000).map(|n| (identity(n), place(n)));
            dedup.extend(entries, 1000).unwrap();
        }
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed().unwrap(), 1000);
        assert_eq!(dedup.find(&identity(999)).unwrap(), Some(place(999)));
        assert_eq!(dedup.find(&identity(1000)).unwrap(), None);
    }

    #[test]
    fn another_logs_index_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Dedup::open(dir.path(), LogId([1; 32])).unwrap());
        let error = Dedup::open(dir.path(), LogId([2; 32])).err().unwrap();
        assert!(error.to_string().contains("another log"), "{error}");
    }

    #[test]
    fn a_rebuilt_index_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let owner = LogId([1; 32]);
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        let entries = std::iter::once((identity(1), place(1)));
        dedup.extend(entries, 1).unwrap();
        drop(dedup);
        let dedup = Dedup::rebuild(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed().unwrap(), 0);
        assert_eq!(dedup.find(&identity(1)).unwrap(), None);
    }
}
