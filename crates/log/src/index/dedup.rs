//! The dedup index: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities. The newest places are in memory. After 65,536 of them, they
//! are sorted and written as one table (`table.rs`), and tables are merged in the background
//! (`tables.rs`). Small values that change are in fjall: the log of the index, the number of
//! indexed entries, the list of tables, the gaps, and the places that were filled in later.
//!
//! The index follows the log and is never ahead of it: the number of indexed entries is recorded
//! after the table is durable, and entries that a crash has lost are read from the log's own tiles.
//! No round waits for the disk of the index, and a lost index costs a rebuild.
//!
//! Entries that the index lacks are its backlog (`backlog.rs`). They are read from the tiles in the
//! background, the newest first. Each part becomes a table, and leaves the backlog after lookups
//! find it.
//!
//! The index is bound to one history of the log by its [`Anchor`]: one value with the number of
//! indexed entries, and the size and root of a tree that begins with them. The anchor is recorded
//! with each round before a place of that round can be in a table. After any crash, the recorded
//! tree has every entry of the tables, and shows whether cache and log have the same history
//! (`catchup.rs`). A single wrong place is detected when it is used (`submission.rs`).
//!
//! After an I/O error the contents of the disk are unknown: the kernel may show bytes that it could
//! not write, and let the next sync succeed. The index is not written any more, and a file reports
//! the failure to the next process (`failure.rs`): the index is set aside and rebuilt. This file
//! has the newest tree of the index. An index that named a wrong place still has its own newest
//! tree. Both trees prove that lock and storage are older, even if the index is no longer used.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fjall::config::{
    BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy, PinningPolicy,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use lucarne_ct::{Identity, LogId};
use parking_lot::{Mutex, RwLock};

use self::failure::{Failure, caught, fatal};
use self::merger::Merger;
use self::tables::TABLES;
use crate::error::Fatal;
use crate::index::backlog::{Backlog, Pace};
use crate::index::unreadable_entries::{Gap, Gaps};

mod anchor;
mod failure;
mod filter;
mod merger;
mod portable;
mod sealed;
mod table;
mod tables;

pub(crate) use self::anchor::{Anchor, LeafPosition, TreeHead};
pub(crate) use self::failure::{Unusable, last_seen};
pub(crate) use self::portable::{BadStream, CHUNK_RECORDS, Sealed, chunk_bytes, first_record};
pub(crate) use self::table::Record;
pub(crate) use self::tables::Tables;

/// Memory for blocks of the index, in bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Size of fjall's own journal in bytes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Number of places in memory after which they are written as a table: 3 MB on disk, and a tenth of
/// a second for reading their tiles after a crash.
pub(crate) const TABLE_ENTRIES: usize = 1 << 16;
/// Number of entries that are read from the tiles for one table: 12 MB in memory.
pub(crate) const PART: u64 = 1 << 18;

/// Maximum number of damaged indices that are kept. If more indices fail, rebuilding does not
/// remove the cause.
const MOST_SET_ASIDE: usize = 9;

const OWNER: &[u8] = b"log id";
/// The number of indexed entries, and their tree.
const ANCHOR: &[u8] = b"anchor of tables";
/// The anchor of an index without tables. Versions without tables use only this key, so the key
/// must not exist together with tables.
const ANCHOR_WITHOUT_TABLES: &[u8] = b"anchor";
/// The number of indexed entries in indices of the previous format, which has no anchor.
const UNBOUND: &[u8] = b"indexed entries";
const DISTRUSTED: &[u8] = b"distrusted";

/// The dedup index of one log.
pub(crate) struct Dedup {
    path: PathBuf,
    database: Database,
    tables: Arc<Tables>,
    merger: Merger,
    /// Places that were filled in later, and all places of an index without tables.
    places: Keyspace,
    has_places: AtomicBool,
    meta: Keyspace,
    /// Whether the anchor is still recorded as in an index without tables.
    old_anchor: AtomicBool,
    unflushed: RwLock<Unflushed>,
    /// Held while an anchor is recorded, so that each anchor follows the last anchor.
    noting: Mutex<()>,
    /// The indexed entries that could not be read.
    pub(crate) gaps: Gaps,
    /// The pace at which the backlog is read.
    pub(crate) pace: Pace,
    /// The number of indexed entries, if the index has the previous format, which records no tree.
    pub(crate) unbound: Option<u64>,
    distrusted: AtomicBool,
    /// The failure after which the index is not written any more.
    ended: Mutex<Option<Failure>>,
}

/// The places that are not in a table yet.
struct Unflushed {
    newest: HashMap<Identity, LeafPosition>,
    /// The places that are being written to a table; empty if no write is in progress.
    leaving: Arc<HashMap<Identity, LeafPosition>>,
    /// Number of entries in memory, in tables, or in the backlog.
    indexed: u64,
    /// The anchor that was recorded last.
    anchor: Anchor,
    /// The newest known tree, recorded or not.
    seen: TreeHead,
}

/// Entries of the newest end of the backlog, which were read from the tiles.
#[derive(Default)]
pub(crate) struct Part {
    /// The entries whose hashes match the tree.
    pub(crate) records: Vec<Record>,
    /// The ranges of entries that could not be read from the tiles.
    pub(crate) gaps: Vec<Gap>,
    /// The number of the first entry.
    pub(crate) from: u64,
    /// The number after the last entry.
    pub(crate) to: u64,
    /// An upper bound of the timestamps of all entries before `from`, in Unix milliseconds.
    pub(crate) timestamp_ms: u64,
}

/// The reasons why an entry that is not found may be in the log.
pub(crate) enum Unknown {
    /// The backlog may have the entry.
    Unread,
    /// A tile that cannot be read may have the entry.
    Unreadable,
}

impl Dedup {
    /// Opens the index in `path`, or creates it.
    ///
    /// # Errors
    /// If another process has the index open, or if it belongs to another log or is damaged.
    pub(crate) fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        caught(|| Self::opened(path, owner), |error| fatal(path, &error))
    }

    fn opened(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: fjall::Error| fatal(path, &error);
        if failure::has_failed(path).map_err(|e| failed(fjall::Error::Io(e)))? {
            return Err(unsound(path, HAS_FAILED));
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

    /// Renames an index that cannot be used, and creates an empty one in its place.
    pub(crate) fn rebuild(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        if path
            .try_exists()
            .map_err(|e| fatal(path, &fjall::Error::Io(e)))?
        {
            let aside = vacant(path)?;
            std::fs::rename(path, &aside).map_err(|e| fatal(path, &fjall::Error::Io(e)))?;
            tracing::warn!(
                "{} cannot be used: kept as {}, and rebuilt",
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

    /// Returns the reason why the index must be rebuilt, if there is one.
    pub(crate) fn unusable(&self) -> Option<Unusable> {
        match self.unbound {
            Some(_) => Some(Unusable::Older),
            None => self.is_distrusted().then_some(Unusable::Distrusted),
        }
    }

    /// Binds the index to its log. If two logs shared an index, each log would find entries of the
    /// other.
    fn claim(&self, owner: LogId) -> Result<(), Fatal> {
        let failed = |error| fatal(&self.path, &error);
        match self.meta.get(OWNER).map_err(failed)? {
            None => self.meta.insert(OWNER, owner.0).map_err(failed),
            Some(found) if *found == owner.0 => Ok(()),
            Some(found) => {
                let path = self.path.display();
                let found = <[u8; 32]>::try_from(&*found)
                    .map_or_else(|_| "none".to_owned(), |id| LogId(id).to_string());
                Err(Fatal::Inconsistent(format!(
                    "the dedup index in {path} is of the log with ID {found}, and the key of this \
                     log (`secret`) has ID {owner}: name the right key, or give this log a `cache` \
                     of its own"
                )))
            }
        }
    }

    /// Returns the number of indexed entries. The index has all entries below this number except
    /// for backlog and gaps, and no other entries.
    pub(crate) fn indexed(&self) -> u64 {
        self.unflushed.read().indexed
    }

    /// Returns the number of indexed entries that are not in the backlog.
    pub(crate) fn known(&self) -> u64 {
        let unflushed = self.unflushed.read();
        unflushed.indexed - unflushed.anchor.backlog.entries()
    }

    pub(crate) fn anchor(&self) -> Anchor {
        self.unflushed.read().anchor.clone()
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.unflushed.read().anchor.backlog.clone()
    }

    /// Returns why an entry with this notBefore, in Unix milliseconds, may be in the log although
    /// it is not found; `None` if it cannot be in the log. Must be called before the lookup,
    /// because the backlog shrinks concurrently.
    pub(crate) fn unknown(&self, not_before_ms: Option<i64>) -> Option<Unknown> {
        if self.unflushed.read().anchor.backlog.may_have(not_before_ms) {
            return Some(Unknown::Unread);
        }
        let in_gap = self.gaps.may_have(not_before_ms);
        in_gap.then_some(Unknown::Unreadable)
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
        let unreadable = || self.unsound("what it says of its tree cannot be read");
        anchor.map(Some).ok_or_else(unreadable)
    }

    fn count_without_anchor(&self) -> Result<Option<u64>, Fatal> {
        let value = self.meta.get(UNBOUND).map_err(|e| fatal(&self.path, &e))?;
        let count = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        Ok(value.map(|bytes| count(&bytes)))
    }

    /// Finds the position of this identity in the log.
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<LeafPosition>, Fatal> {
        self.caught(|| self.looked_up(identity))
    }

    fn looked_up(&self, identity: &Identity) -> Result<Option<LeafPosition>, Fatal> {
        {
            let unflushed = self.unflushed.read();
            let place = unflushed.newest.get(identity);
            if let Some(place) = place.or_else(|| unflushed.leaving.get(identity)) {
                return Ok(Some(*place));
            }
        }
        // A place that has left memory since the first lookup is in a table now.
        let found = self.tables.find(identity);
        let found = found.map_err(|e| self.fatal(&fjall::Error::Io(e)))?;
        if found.is_some() || !self.has_places.load(Ordering::SeqCst) {
            return Ok(found);
        }
        let value = self.places.get(identity.0).map_err(|e| self.fatal(&e))?;
        match value {
            None => Ok(None),
            Some(bytes) => LeafPosition::decode(&bytes)
                .map(Some)
                .ok_or_else(|| self.unsound("a value is not 16 bytes long")),
        }
    }

    /// Adds the entries that the index lacks of the signed tree `head` to its backlog.
    pub(crate) fn go_over(&self, head: TreeHead) -> Result<(), Fatal> {
        let before = self.anchor();
        if (before.indexed, before.head) == (head.size, head) {
            return Ok(());
        }
        self.note(head, |anchor| {
            if anchor.indexed < head.size {
                anchor.backlog.push(Gap {
                    first: anchor.indexed,
                    end: head.size,
                    latest_ms: u64::MAX,
                });
            }
            anchor.indexed = head.size;
        })?;
        self.unflushed.write().indexed = head.size;
        Ok(())
    }

    /// Adds the entries of the signed tree `head` that follow the indexed entries, up to `indexed`.
    /// Must be called by one task at a time.
    pub(crate) fn extend(
        &self,
        entries: impl Iterator<Item = (Identity, LeafPosition)>,
        indexed: u64,
        head: TreeHead,
    ) -> Result<(), Fatal> {
        if self.unflushed.read().anchor.head != head {
            self.caught(|| self.note(head, |_| ()))?;
        }
        let held = {
            let mut unflushed = self.unflushed.write();
            unflushed.newest.extend(entries);
            unflushed.indexed = indexed;
            unflushed.newest.len()
        };
        match held {
            ..TABLE_ENTRIES => Ok(()),
            _ => self.flush(),
        }
    }

    /// Records the tree of the index, together with another change of the anchor.
    fn note(&self, head: TreeHead, change: impl FnOnce(&mut Anchor)) -> Result<(), Fatal> {
        self.unflushed.write().seen = head;
        self.writable()?;
        let _noting = self.noting.lock();
        let mut anchor = self.anchor();
        anchor.head = head;
        change(&mut anchor);
        let noted = self.commit(&anchor, None, &[]);
        noted.map_err(|e| self.fatal(&e))?;
        self.unflushed.write().anchor = anchor;
        Ok(())
    }

    /// Stores the anchor, the list of tables and gaps in one transaction.
    fn commit(&self, anchor: &Anchor, tables: Option<Vec<u8>>, gaps: &[Gap]) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        batch.insert(&self.meta, ANCHOR, anchor.encode());
        if let Some(tables) = tables {
            batch.insert(&self.meta, TABLES, tables);
        }
        for gap in gaps {
            batch.insert(&self.meta, gap.key(), gap.value());
        }
        if self.old_anchor.load(Ordering::SeqCst) {
            batch.remove(&self.meta, ANCHOR_WITHOUT_TABLES);
        }
        batch.commit()?;
        self.old_anchor.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Writes the places in memory as one table.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        self.caught(|| self.flush_all())
    }

    fn flush_all(&self) -> Result<(), Fatal> {
        self.writable()?;
        let (leaving, indexed) = {
            let mut unflushed = self.unflushed.write();
            if !unflushed.leaving.is_empty() {
                // An anchor with more entries than the tables have would hide the missing entries
                // forever.
                return Err(self.unsound("the last table could not be written"));
            }
            unflushed.leaving = Arc::new(std::mem::take(&mut unflushed.newest));
            (unflushed.leaving.clone(), unflushed.indexed)
        };
        let records = leaving.iter().map(|(identity, place)| (*identity, *place));
        let written = self.write_table(records.collect(), &[], |anchor| anchor.indexed = indexed);
        written.map_err(|e| self.fatal(&e))?;
        self.unflushed.write().leaving = Arc::default();
        Ok(())
    }

    /// Writes a part from the newest end of the backlog as one table. Must be called by one task
    /// at a time; [`extend`](Self::extend) may run concurrently.
    pub(crate) fn take_up(&self, part: Part) -> Result<(), Fatal> {
        self.writable()?;
        let (read, timestamp_ms) = (part.from..part.to, part.timestamp_ms);
        self.caught(|| {
            let written = self.write_table(part.records, &part.gaps, |anchor| {
                anchor.backlog.cut(read, timestamp_ms);
            });
            written.map_err(|e| self.fatal(&e))
        })?;
        self.pace.note(&self.backlog());
        Ok(())
    }

    /// Adds entries that were in gaps, and replaces these gaps, in one transaction.
    pub(crate) fn mend(
        &self,
        entries: &[(Identity, LeafPosition)],
        before: &[Gap],
        after: &[Gap],
    ) -> Result<(), Fatal> {
        self.writable()?;
        let mut batch = self.database.batch();
        self.has_places
            .fetch_or(!entries.is_empty(), Ordering::SeqCst);
        for (identity, place) in entries {
            batch.insert(&self.places, identity.0, place.encode());
        }
        for gap in before {
            batch.remove(&self.meta, gap.key());
        }
        for gap in after {
            batch.insert(&self.meta, gap.key(), gap.value());
        }
        self.caught(|| batch.commit().map_err(|e| self.fatal(&e)))?;
        self.gaps.replace(before, after);
        Ok(())
    }

    /// Marks the index, which named a wrong place: the next opening of the log does not use it any
    /// more. Returns whether this is the first time, and must be [recorded](Self::note_distrust).
    pub(crate) fn distrust(&self) -> bool {
        !self.distrusted.swap(true, Ordering::SeqCst)
    }

    /// Notes for later processes that a place was wrong.
    pub(crate) fn note_distrust(&self) -> Result<(), Fatal> {
        self.writable()?;
        let noted = self.meta.insert(DISTRUSTED, [1]);
        noted.map_err(|e| self.fatal(&e))
    }

    /// Returns whether the index named a wrong place.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::SeqCst)
    }

    /// Returns whether this process has found that the index must be rebuilt.
    pub(crate) fn is_unsound(&self) -> bool {
        let ended = self.ended.lock();
        ended.as_ref().is_some_and(|failure| failure.damaged) || self.is_distrusted()
    }

    /// Writes a table, and records it with the anchor and with gaps after it is durable. Lookups
    /// find its entries before the anchor in memory has them.
    fn write_table(
        &self,
        mut records: Vec<Record>,
        gaps: &[Gap],
        change: impl FnOnce(&mut Anchor),
    ) -> fjall::Result<()> {
        for (identity, place) in records.extract_if(.., |(_, place)| !table::fits(place)) {
            self.has_places.store(true, Ordering::SeqCst);
            self.places.insert(identity.0, place.encode())?;
        }
        records.sort_unstable_by_key(|(identity, _)| *identity);
        let table = if records.is_empty() {
            None
        } else {
            Some(self.tables.write(&records)?)
        };
        drop(records);
        let _noting = self.noting.lock();
        let mut anchor = self.anchor();
        change(&mut anchor);
        match table {
            None => self.commit(&anchor, None, gaps)?,
            Some(table) => {
                let note = |list| self.commit(&anchor, Some(list), gaps);
                self.tables.change(&[], table, note)?;
                self.merger.wake();
            }
        }
        self.gaps.replace(&[], gaps);
        self.unflushed.write().anchor = anchor;
        Ok(())
    }

    fn writable(&self) -> Result<(), Fatal> {
        if let Some(error) = self.merger.failure() {
            return Err(self.fatal(&error));
        }
        match &*self.ended.lock() {
            None => Ok(()),
            Some(failure) => Err(failure.of(&self.path)),
        }
    }

    /// Runs work on the index; a panic counts as damage.
    fn caught<T>(&self, work: impl FnOnce() -> Result<T, Fatal>) -> Result<T, Fatal> {
        caught(work, |error| self.fatal(&error))
    }

    /// Returns the error for the caller. The index is not written from then on.
    pub(crate) fn fatal(&self, error: &fjall::Error) -> Fatal {
        let failure = {
            let mut ended = self.ended.lock();
            if let (fjall::Error::Poisoned, Some(first)) = (error, &*ended) {
                // After a failed write, fjall reports only this error. The first error has the
                // reason, for example a full disk.
                return first.of(&self.path);
            }
            let failure = Failure::from(error);
            let marked = ended.as_ref().is_some_and(|first| first.damaged);
            if marked || (ended.is_some() && !failure.damaged) {
                return failure.of(&self.path);
            }
            *ended = Some(failure.clone());
            failure
        };
        // The disk may hang: no lock is held here.
        if failure.damaged {
            let anchor = {
                let unflushed = self.unflushed.read();
                Anchor {
                    head: unflushed.seen,
                    ..unflushed.anchor.clone()
                }
            };
            if let Err(error) = failure::say_failed(&self.path, &anchor) {
                // In this process, the failure is recorded in memory.
                let path = self.path.display();
                tracing::error!(
                    %path,
                    %error,
                    "the dedup index has failed, and the failure cannot be recorded"
                );
            }
        }
        failure.of(&self.path)
    }

    fn unsound(&self, problem: &str) -> Fatal {
        unsound(&self.path, problem)
    }
}

const HAS_FAILED: &str = "its disk has failed to write or read it";

fn unsound(path: &Path, problem: &str) -> Fatal {
    Fatal::Dedup {
        path: path.display().to_string(),
        problem: problem.into(),
        damaged: true,
        in_use: false,
    }
}

impl Unflushed {
    fn since(anchor: Anchor) -> Self {
        Unflushed {
            newest: HashMap::new(),
            leaving: Arc::default(),
            indexed: anchor.indexed,
            seen: anchor.head,
            anchor,
        }
    }
}

/// The name of index number `n` that was set aside.
fn aside(path: &Path, n: usize) -> PathBuf {
    path.with_added_extension(format!("damaged-{n}"))
}

/// Returns the name of the first index that is set aside.
pub(crate) fn set_aside(path: &Path) -> PathBuf {
    aside(path, 1)
}

/// Returns a free name for an index that is set aside.
fn vacant(path: &Path) -> Result<PathBuf, Fatal> {
    let names = (1..=MOST_SET_ASIDE).map(|n| aside(path, n));
    let mut vacant = names.filter(|name| matches!(name.try_exists(), Ok(false)));
    vacant.next().ok_or_else(|| {
        Fatal::Inconsistent(format!(
            "{} cannot be used, and {MOST_SET_ASIDE} like it lie beside it already: find out what \
             damages them (memory, disk), and remove those that were looked at",
            path.display()
        ))
    })
}

/// Returns the options of places outside of tables. Nearly every lookup is for an identity that is
/// not in the index, and reads only the filter. Filters and block indexes are partitioned at every
/// level: otherwise, each read of a filter or index that outgrows the cache would take megabytes.
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
mod tests;
