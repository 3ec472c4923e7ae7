//! The dedup index: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities. The newest places are in memory; once
//! there are 65,536 of them, they are sorted and written as one table
//! (`table.rs`), and tables are merged beside that (`tables.rs`). All that is
//! small and changes is in fjall: whose index it is, how far it reaches, which
//! tables it has, its gaps, and the places that were mended, one by one. The
//! index follows the log and is never ahead of it: how far it reaches is noted
//! after the table is there, and what is missing after a crash is read from the
//! log's own tiles. Nothing waits for the disk, and losing the index costs a
//! rebuild.
//!
//! What it lacks is its backlog (`backlog.rs`), which is read from the tiles beside that, the newest
//! first, and noted with the anchor: a part of it goes into a table of its own, and only once
//! that is found by whoever looks does the backlog lose it.
//!
//! It is bound to one history of the log by its [`Anchor`], one value that says
//! how far the tables reach and which tree, by size and root, the entries are
//! from. It is noted with each round before any place of that round can be in a
//! table. So whatever a crash leaves, the noted tree has every entry that a
//! table has, and it tells when cache and log are not of one history
//! (`catchup.rs`). A single wrong place is told when it is used (`submit.rs`).
//!
//! After an error of the disk nobody knows what it has: the kernel may show
//! bytes that it could not write, and let the next sync succeed. So nothing is
//! written to such an index any more, and a file says so to whoever opens it
//! next (`failure.rs`): it is set aside, and rebuilt. That file has the newest
//! tree of the index, as an index that named a wrong place still has its own:
//! what is used no more still proves that lock and storage are older.

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
use crate::Fatal;
use crate::backlog::{Backlog, Pace};
use crate::gaps::{Gap, Gaps};

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

/// Memory for blocks of the index that are read.
const CACHE_BYTES: u64 = 16 << 20;
/// fjall's own journal, which holds little but how far the index reaches.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Places in memory that make a table: 3 MB on disk, and a tenth of a second
/// of reading tiles after a crash.
pub(crate) const TABLE_ENTRIES: usize = 1 << 16;
/// Entries that are read from the tiles for one table: 12 MB in memory.
pub(crate) const PART: u64 = 1 << 18;

/// Indices that were set aside and are kept: more of them, and something is
/// wrong that rebuilding does not mend.
const MOST_SET_ASIDE: usize = 9;

const OWNER: &[u8] = b"log id";
/// How far the tables reach, and of which tree they are.
const ANCHOR: &[u8] = b"anchor of tables";
/// The same in an index whose places are all in fjall. Versions that know no
/// tables go by it alone: it must not be there beside them.
const ANCHOR_WITHOUT_TABLES: &[u8] = b"anchor";
/// In place of the anchor in indices that were not bound to a tree.
const UNBOUND: &[u8] = b"indexed entries";
const DISTRUSTED: &[u8] = b"distrusted";

/// The dedup index of one log.
pub(crate) struct Dedup {
    path: PathBuf,
    database: Database,
    tables: Arc<Tables>,
    merger: Merger,
    /// What was mended, and all places of an index that was made before there
    /// were tables.
    places: Keyspace,
    has_places: AtomicBool,
    meta: Keyspace,
    /// The anchor is still noted as it was before there were tables.
    old_anchor: AtomicBool,
    unflushed: RwLock<Unflushed>,
    /// Held while an anchor is noted: each follows the one before it.
    noting: Mutex<()>,
    /// Holds what it does not know of the entries that it went through.
    pub(crate) gaps: Gaps,
    /// The pace at which its backlog is read.
    pub(crate) pace: Pace,
    /// The number of entries that it has, if it is of the format before, which does not
    /// say from which tree they are.
    pub(crate) unbound: Option<u64>,
    distrusted: AtomicBool,
    /// The failure after which nothing is written any more.
    ended: Mutex<Option<Failure>>,
}

/// The places that are not in a table yet.
struct Unflushed {
    newest: HashMap<Identity, LeafPosition>,
    /// Being written; empty otherwise.
    leaving: Arc<HashMap<Identity, LeafPosition>>,
    /// Entries gone through: in memory, in tables, or in the backlog.
    indexed: u64,
    /// As noted last.
    anchor: Anchor,
    /// The newest tree that it was told of, noted or not.
    seen: TreeHead,
}

/// Entries of the newest end of the backlog, which were read from the tiles.
#[derive(Default)]
pub(crate) struct Part {
    /// Those that are right.
    pub(crate) records: Vec<Record>,
    /// Those that are not there.
    pub(crate) gaps: Vec<Gap>,
    /// The first of all of them.
    pub(crate) from: u64,
    /// The one after the last.
    pub(crate) to: u64,
    /// No entry before it has a later timestamp, Unix milliseconds.
    pub(crate) timestamp_ms: u64,
}

/// The reasons why an entry that is not found may be in the log all the same.
pub(crate) enum Unknown {
    /// The backlog may have it.
    Unread,
    /// A tile that cannot be read may have it.
    Unreadable,
}

impl Dedup {
    /// Opens the index in `path`, or makes one.
    ///
    /// # Errors
    /// If another process has it open, it belongs to another log, or it is
    /// damaged.
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

    /// Moves an index that cannot be used out of the way, under a name beside
    /// its own, and makes an empty one in its place.
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

    /// Returns whether there is an index of this log in `path`, and if so, how many
    /// entries it has seen, used or not. Makes nothing.
    ///
    /// # Errors
    /// If something is there that cannot be read.
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

    /// Returns the reason why the index must be rebuilt, whatever its entries are.
    pub(crate) fn unusable(&self) -> Option<Unusable> {
        match self.unbound {
            Some(_) => Some(Unusable::Older),
            None => self.is_distrusted().then_some(Unusable::Distrusted),
        }
    }

    /// Two logs that share one index would answer for each other.
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

    /// Number of entries that it has gone through: it has all those below it but for
    /// backlog and gaps, and none above.
    pub(crate) fn indexed(&self) -> u64 {
        self.unflushed.read().indexed
    }

    /// Returns how many of those are not in its backlog.
    pub(crate) fn known(&self) -> u64 {
        let unflushed = self.unflushed.read();
        unflushed.indexed - unflushed.anchor.backlog.entries()
    }

    /// Returns what binds it to its log.
    pub(crate) fn anchor(&self) -> Anchor {
        self.unflushed.read().anchor.clone()
    }

    /// Returns what it has not read yet.
    pub(crate) fn backlog(&self) -> Backlog {
        self.unflushed.read().anchor.backlog.clone()
    }

    /// Returns why an entry with this notBefore, in Unix milliseconds, may be in the log
    /// though it is not found; `None` if it is not. To be asked before it is looked for: what
    /// is read meanwhile was there to be read when it was not found.
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
        // What has left memory since is in a table by now.
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

    /// Goes over to the signed tree `head`: what it lacks of it is its backlog from then on.
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

    /// Adds the entries that follow the indexed ones, up to `indexed` in all,
    /// of the signed tree `head`. To be called by one task at a time.
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

    /// Notes that the index is of this tree, and another change of the anchor with it.
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

    /// Notes how far it reaches, by which tables, and what it lacks: all or nothing.
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

    /// Writes what is in memory as one table.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        self.caught(|| self.flush_all())
    }

    fn flush_all(&self) -> Result<(), Fatal> {
        self.writable()?;
        let (leaving, indexed) = {
            let mut unflushed = self.unflushed.write();
            if !unflushed.leaving.is_empty() {
                // Noting more than is in tables would hide the gap for ever.
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

    /// Takes up what was read of the newest end of the backlog, as one table. To be called
    /// by one task at a time, beside [`extend`](Self::extend).
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

    /// Adds entries that were unknown until now, and forgets that they were:
    /// both or neither.
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

    /// Takes note that a place is wrong: it is said, and the next opening of the
    /// log does not use this index any more. Whether that is news, and to be
    /// [noted](Self::note_distrust).
    pub(crate) fn distrust(&self) -> bool {
        !self.distrusted.swap(true, Ordering::SeqCst)
    }

    /// Notes for those who open it after this process that a place was wrong.
    pub(crate) fn note_distrust(&self) -> Result<(), Fatal> {
        self.writable()?;
        let noted = self.meta.insert(DISTRUSTED, [1]);
        noted.map_err(|e| self.fatal(&e))
    }

    /// Returns whether it named a wrong place.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::SeqCst)
    }

    /// Returns whether it is to be made anew, as far as this process knows.
    pub(crate) fn is_unsound(&self) -> bool {
        let ended = self.ended.lock();
        ended.as_ref().is_some_and(|failure| failure.damaged) || self.is_distrusted()
    }

    /// Writes a table that is durable before it is noted, with the anchor and with gaps. What
    /// the anchor then no longer lacks is found before anybody is told so.
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
        let table = match records.is_empty() {
            true => None,
            false => Some(self.tables.write(&records)?),
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

    /// Runs work on it; a panic is damage.
    fn caught<T>(&self, work: impl FnOnce() -> Result<T, Fatal>) -> Result<T, Fatal> {
        caught(work, |error| self.fatal(&error))
    }

    /// Returns what has failed, for whoever asked. Nothing is written from then on.
    pub(crate) fn fatal(&self, error: &fjall::Error) -> Fatal {
        let failure = {
            let mut ended = self.ended.lock();
            if let (fjall::Error::Poisoned, Some(first)) = (error, &*ended) {
                // All that fjall says after a write that failed. Why it failed, be
                // it that the disk was full, it said then.
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
        // The disk may hang: nobody else waits for this.
        if failure.damaged {
            let anchor = {
                let unflushed = self.unflushed.read();
                Anchor {
                    head: unflushed.seen,
                    ..unflushed.anchor.clone()
                }
            };
            if let Err(error) = failure::say_failed(&self.path, &anchor) {
                // This process knows it anyway.
                let path = self.path.display();
                tracing::error!(%path, %error, "the dedup index has failed, and that cannot be noted");
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

/// For an index that was made before there were tables. Nearly every look-up
/// is for an identity that is not there: what decides is the filter. Filters and block indexes are partitioned at every level:
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
mod tests;
