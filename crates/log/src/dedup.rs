//! The dedup index: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities. The newest places are in memory; once
//! there are 65,536 of them, they are sorted and written as one table, past
//! fjall's own journal and memtable, whose skip list would cost every look-up
//! more than all else here. The index follows the log and is never ahead of
//! it: how far it reaches is noted after the table is there, and what is
//! missing after a crash is read from the log's own tiles. Nothing waits for
//! the disk, and losing the index costs a rebuild.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::config::{
    BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy, PinningPolicy,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use lucarne_ct::{Identity, LogId};
use parking_lot::RwLock;

use crate::Fatal;

/// Memory for blocks of the index that are read.
const CACHE_BYTES: u64 = 16 << 20;
/// fjall's own journal, which holds little but how far the index reaches.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Places in memory that make a table: 3 MB on disk, and a tenth of a second
/// of reading tiles after a crash.
const TABLE_ENTRIES: usize = 1 << 16;

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
    _database: Database,
    places: Keyspace,
    meta: Keyspace,
    fresh: RwLock<Fresh>,
}

/// The places that are not in a table yet.
#[derive(Default)]
struct Fresh {
    newest: HashMap<Identity, Place>,
    /// Being written; empty otherwise.
    leaving: Arc<HashMap<Identity, Place>>,
    /// Entries indexed, in memory or in tables.
    indexed: u64,
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
            _database: database,
            places,
            meta,
            fresh: RwLock::default(),
        };
        dedup.claim(owner)?;
        dedup.fresh.write().indexed = dedup.in_tables()?;
        Ok(dedup)
    }

    /// Removes an index that is damaged or from another time, and makes an
    /// empty one in its place.
    pub(crate) fn rebuild(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(fatal(path, &fjall::Error::Io(error)))
            }
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
    pub(crate) fn indexed(&self) -> u64 {
        self.fresh.read().indexed
    }

    fn in_tables(&self) -> Result<u64, Fatal> {
        let value = self.meta.get(INDEXED).map_err(|e| self.fatal(&e))?;
        Ok(value
            .and_then(|bytes| Some(u64::from_be_bytes((*bytes).try_into().ok()?)))
            .unwrap_or(0))
    }

    /// Where the log has this identity.
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<Place>, Fatal> {
        {
            let fresh = self.fresh.read();
            let place = fresh.newest.get(identity);
            if let Some(place) = place.or_else(|| fresh.leaving.get(identity)) {
                return Ok(Some(*place));
            }
        }
        // What has left memory since is in a table by now.
        let value = self.places.get(identity.0).map_err(|e| self.fatal(&e))?;
        match value {
            None => Ok(None),
            Some(bytes) => Place::decode(&bytes)
                .map(Some)
                .ok_or_else(|| self.unsound("a value is not 16 bytes long")),
        }
    }

    /// Adds the entries that follow the indexed ones, up to `indexed` in all.
    /// To be called by one task at a time.
    pub(crate) fn extend(
        &self,
        entries: impl Iterator<Item = (Identity, Place)>,
        indexed: u64,
    ) -> Result<(), Fatal> {
        let full = {
            let mut fresh = self.fresh.write();
            fresh.newest.extend(entries);
            fresh.indexed = indexed;
            fresh.newest.len() >= TABLE_ENTRIES
        };
        if full { self.flush() } else { Ok(()) }
    }

    /// Writes what is in memory as one table.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        let (leaving, indexed) = {
            let mut fresh = self.fresh.write();
            if !fresh.leaving.is_empty() {
                // Noting more than is in tables would hide the gap for ever.
                return Err(self.unsound("the last table could not be written"));
            }
            fresh.leaving = Arc::new(std::mem::take(&mut fresh.newest));
            (fresh.leaving.clone(), fresh.indexed)
        };
        self.write_table(&leaving).map_err(|e| self.fatal(&e))?;
        // Only now, and in this order: a crash between the two leaves places
        // that will be added again, the same ones.
        let noted = self.meta.insert(INDEXED, indexed.to_be_bytes());
        noted.map_err(|e| self.fatal(&e))?;
        self.fresh.write().leaving = Arc::default();
        Ok(())
    }

    fn write_table(&self, places: &HashMap<Identity, Place>) -> fjall::Result<()> {
        let mut sorted: Vec<_> = places.iter().collect();
        sorted.sort_unstable_by_key(|(identity, _)| **identity);
        let mut table = self.places.start_ingestion()?;
        for (identity, place) in sorted {
            table.write(identity.0, place.encode())?;
        }
        table.finish()
    }

    fn fatal(&self, error: &fjall::Error) -> Fatal {
        fatal(&self.path, error)
    }

    fn unsound(&self, problem: &str) -> Fatal {
        Fatal::Dedup {
            path: self.path.display().to_string(),
            problem: problem.into(),
            damaged: true,
        }
    }
}

/// What fjall reports, and whether rebuilding helps. A lock, a full disk or
/// want of memory go away by themselves; wrong bytes do not.
fn fatal(path: &Path, error: &fjall::Error) -> Fatal {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let damaged = match error {
        fjall::Error::Locked | fjall::Error::Poisoned => false,
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        }
        _ => true,
    };
    let problem = match error {
        fjall::Error::Locked => "another process has it open".into(),
        error => error.to_string(),
    };
    Fatal::Dedup {
        path: path.display().to_string(),
        problem,
        damaged,
    }
}

/// Nearly every look-up is for an identity that is not there: what decides is
/// the filter. Filters and block indexes are partitioned at every level:
/// whole ones are read in megabytes as soon as they outgrow the cache.
fn places_options() -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(12.0));
    KeyspaceCreateOptions::default()
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

    fn add(dedup: &Dedup, range: std::ops::Range<u64>) {
        let entries = range.clone().map(|n| (identity(n), place(n)));
        dedup.extend(entries, range.end).unwrap();
    }

    #[test]
    fn finds_what_was_added_in_memory_and_in_tables() {
        let dir = tempfile::tempdir().unwrap();
        let owner = LogId([1; 32]);
        let table = TABLE_ENTRIES as u64;
        {
            let dedup = Dedup::open(dir.path(), owner).unwrap();
            assert_eq!(dedup.indexed(), 0);
            add(&dedup, 0..1000);
            add(&dedup, 1000..table + 5);
            add(&dedup, table + 5..table + 9);
            assert_eq!(dedup.indexed(), table + 9);
            for n in [0, 999, 1000, table, table + 8] {
                assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)));
            }
            assert_eq!(dedup.find(&identity(table + 9)).unwrap(), None);
        }
        // As after a crash: the table is there, what was in memory is not.
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed(), table + 5);
        add(&dedup, table + 5..table + 9);
        dedup.flush().unwrap();
        drop(dedup);
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed(), table + 9);
        for n in (0..table + 9).step_by(97) {
            assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)));
        }
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
        add(&dedup, 0..2);
        dedup.flush().unwrap();
        drop(dedup);
        let dedup = Dedup::rebuild(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed(), 0);
        assert_eq!(dedup.find(&identity(1)).unwrap(), None);
    }
}
