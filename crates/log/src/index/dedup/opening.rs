//! Opening, inspecting and rebuilding an index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fjall::config::{
    BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy, PinningPolicy,
};
use fjall::{Database, KeyspaceCreateOptions};
use lucarne_ct::LogId;
use parking_lot::{Mutex, RwLock};

use super::failure::{self, caught, fatal, last_seen, unsound};
use super::merger::Merger;
use super::tables::TABLES;
use super::{ANCHOR, ANCHOR_WITHOUT_TABLES, Anchor, DISTRUSTED, Dedup, Tables, Unflushed};
use crate::error::inconsistency::IndexInconsistency;
use crate::error::{DedupError, Fatal};
use crate::index::backlog::Pace;
use crate::index::unreadable_entries::Gaps;

/// Size of fjall's cache of blocks in bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Size of fjall's own journal in bytes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Maximum number of damaged indices that are kept. If more indices fail, a rebuild does not remove
/// the cause.
pub(super) const MOST_SET_ASIDE: usize = 9;

const OWNER: &[u8] = b"log id";
/// The number of indexed entries in indices of the previous format, which has no anchor.
pub(super) const UNBOUND: &[u8] = b"indexed entries";

impl Dedup {
    /// Opens the index in `path`, or creates it.
    ///
    /// # Errors
    /// If another process has the index open, or if the index belongs to another log or is damaged.
    pub(crate) fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        caught(|| Self::opened(path, owner), |error| fatal(path, &error))
    }

    fn opened(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: fjall::Error| fatal(path, &error);
        if failure::has_failed(path).map_err(|e| failed(fjall::Error::Io(e)))? {
            return Err(unsound(path, DedupError::Failed));
        }
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
        let list = meta.get(TABLES).map_err(failed)?;
        let tables = Tables::open(path.join("tables"), list.as_deref().unwrap_or_default());
        let tables = Arc::new(tables.map_err(|e| failed(fjall::Error::Io(e)))?);
        let merger = Merger::start(tables.clone(), database.clone(), meta.clone());
        let mut dedup = Dedup {
            path: path.to_path_buf(),
            merger: merger.map_err(|e| failed(fjall::Error::Io(e)))?,
            tables,
            has_places: AtomicBool::new(!places.is_empty().map_err(failed)?),
            old_anchor: AtomicBool::new(meta.contains_key(ANCHOR_WITHOUT_TABLES).map_err(failed)?),
            database,
            places,
            meta,
            unflushed: RwLock::new(Unflushed::since(Anchor::EMPTY)),
            noting: Mutex::default(),
            gaps: Gaps::default(),
            pace: Pace::default(),
            unbound: None,
            distrusted: AtomicBool::new(false),
            ended: Mutex::default(),
        };
        dedup.claim(owner)?;
        match dedup.noted()? {
            Some(anchor) => dedup.unflushed = RwLock::new(Unflushed::since(anchor)),
            None => dedup.unbound = dedup.count_without_anchor()?,
        }
        let distrusted = dedup.meta.get(DISTRUSTED).map_err(failed)?;
        dedup.distrusted = AtomicBool::new(distrusted.is_some());
        dedup.gaps.load(&dedup.meta).map_err(failed)?;
        Ok(dedup)
    }

    /// Renames an index that cannot be used, and creates an empty index in its place.
    pub(crate) fn rebuild(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        if path
            .try_exists()
            .map_err(|e| fatal(path, &fjall::Error::Io(e)))?
        {
            let aside = vacant(path)?;
            std::fs::rename(path, &aside).map_err(|e| fatal(path, &fjall::Error::Io(e)))?;
            tracing::warn!(
                "the dedup index {} cannot be used: the log keeps it as {}, and rebuilds the index",
                path.display(),
                aside.display()
            );
        }
        Dedup::open(path, owner)
    }

    /// Returns the number of entries that the index of this log in `path` has seen, even if it
    /// cannot be used; `None` if there is no index. Creates nothing.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub(crate) fn look(path: &Path, owner: LogId) -> Result<Option<u64>, Fatal> {
        match path.read_dir() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fatal(path, &fjall::Error::Io(error))),
            Ok(mut files) => {
                if files.next().is_none() {
                    return Ok(None);
                }
            }
        }
        match Dedup::open(path, owner) {
            Ok(dedup) => Ok(Some(dedup.unbound.unwrap_or(dedup.anchor().head.size))),
            Err(fatal) => match last_seen(path) {
                Some(head) => Ok(Some(head.size)),
                None => Err(fatal),
            },
        }
    }

    /// Binds the index to its log. If two logs shared an index, each log would find entries of the
    /// other log.
    fn claim(&self, owner: LogId) -> Result<(), Fatal> {
        let failed = |error| fatal(&self.path, &error);
        match self.meta.get(OWNER).map_err(failed)? {
            None => self.meta.insert(OWNER, owner.0).map_err(failed),
            Some(found) if *found == owner.0 => Ok(()),
            Some(found) => {
                let found = <[u8; 32]>::try_from(&*found).ok().map(LogId);
                Err(Fatal::from(IndexInconsistency::OtherLog {
                    path: self.path.clone(),
                    found,
                    owner,
                }))
            }
        }
    }

    fn noted(&self) -> Result<Option<Anchor>, Fatal> {
        let value = |key| self.meta.get(key).map_err(|e| fatal(&self.path, &e));
        let value = match value(ANCHOR)? {
            None => value(ANCHOR_WITHOUT_TABLES)?,
            noted => noted,
        };
        let Some(bytes) = value else {
            return Ok(None);
        };
        let anchor = Anchor::decode(&bytes);
        let unreadable = || self.unsound(DedupError::Anchor);
        anchor.map(Some).ok_or_else(unreadable)
    }

    fn count_without_anchor(&self) -> Result<Option<u64>, Fatal> {
        let value = self.meta.get(UNBOUND).map_err(|e| fatal(&self.path, &e))?;
        let count = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        Ok(value.map(|bytes| count(&bytes)))
    }
}

/// Returns the path of index number `n` that was set aside.
fn aside(path: &Path, n: usize) -> PathBuf {
    path.with_added_extension(format!("damaged-{n}"))
}

/// Returns the path of the first index that is set aside.
pub(crate) fn set_aside(path: &Path) -> PathBuf {
    aside(path, 1)
}

/// Returns a free path for an index that is set aside.
fn vacant(path: &Path) -> Result<PathBuf, Fatal> {
    let names = (1..=MOST_SET_ASIDE).map(|n| aside(path, n));
    let mut vacant = names.filter(|name| matches!(name.try_exists(), Ok(false)));
    vacant.next().ok_or_else(|| {
        Fatal::from(IndexInconsistency::TooManyDamaged {
            path: path.to_path_buf(),
            most: MOST_SET_ASIDE,
        })
    })
}

/// Returns the options of places outside of tables. Nearly every lookup is for an identity that is
/// not in the index, and reads only the filter. Filters and block indexes are partitioned at every
/// level. Without partitions, a lookup would read megabytes of a filter that has outgrown the
/// cache.
fn places_options() -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(12.0));
    KeyspaceCreateOptions::default()
        .filter_policy(FilterPolicy::all(bloom))
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(false))
}
