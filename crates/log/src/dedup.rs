//! The dedup index: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities. The newest places are in memory; once
//! there are 65,536 of them, they are sorted and written as one table, past
//! fjall's own journal and memtable, whose skip list would cost every look-up
//! more than all else here. The index follows the log and is never ahead of
//! it: how far it reaches is noted after the table is there, and what is
//! missing after a crash is read from the log's own tiles. Nothing waits for
//! the disk, and losing the index costs a rebuild.
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
use lucarne_tlog::{EMPTY_ROOT, Hash};
use parking_lot::{Mutex, RwLock};

use self::failure::{Failure, fatal};
use crate::Fatal;
use crate::gaps::{Gap, Gaps};

mod failure;

pub(crate) use self::failure::last_seen;

/// Memory for blocks of the index that are read.
const CACHE_BYTES: u64 = 16 << 20;
/// fjall's own journal, which holds little but how far the index reaches.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Places in memory that make a table: 3 MB on disk, and a tenth of a second
/// of reading tiles after a crash.
const TABLE_ENTRIES: usize = 1 << 16;

/// Indices that were set aside and are kept: more of them, and something is
/// wrong that rebuilding does not mend.
const MOST_SET_ASIDE: usize = 9;

const OWNER: &[u8] = b"log id";
const ANCHOR: &[u8] = b"anchor";
/// In place of the anchor in indices that were not bound to a tree.
const UNBOUND: &[u8] = b"indexed entries";
const DISTRUSTED: &[u8] = b"distrusted";

/// The position of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    pub(crate) index: u64,
    pub(crate) timestamp_ms: u64,
}

impl LeafPosition {
    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.index.to_be_bytes());
        bytes[8..].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<LeafPosition> {
        let (index, timestamp_ms) = bytes.split_at_checked(8)?;
        Some(LeafPosition {
            index: u64::from_be_bytes(index.try_into().ok()?),
            timestamp_ms: u64::from_be_bytes(timestamp_ms.try_into().ok()?),
        })
    }
}

/// A tree that the log signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeHead {
    pub(crate) size: u64,
    pub(crate) root: Hash,
}

const EMPTY: TreeHead = TreeHead {
    size: 0,
    root: EMPTY_ROOT,
};

/// The binding of an index to its log: written and read as one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// Entries in the tables: all those below it.
    pub(crate) indexed: u64,
    /// The newest tree that was indexed, in tables or in memory. Its first
    /// `indexed` entries are those of the tables.
    pub(crate) head: TreeHead,
}

impl Anchor {
    fn encode(self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&self.indexed.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.head.size.to_be_bytes());
        bytes[16..].copy_from_slice(&self.head.root.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Anchor> {
        let (indexed, rest) = bytes.split_first_chunk()?;
        let (size, root) = rest.split_first_chunk()?;
        let anchor = Anchor {
            indexed: u64::from_be_bytes(*indexed),
            head: TreeHead {
                size: u64::from_be_bytes(*size),
                root: Hash::from_slice(root)?,
            },
        };
        (anchor.indexed <= anchor.head.size).then_some(anchor)
    }
}

/// The dedup index of one log.
pub(crate) struct Dedup {
    path: PathBuf,
    database: Database,
    places: Keyspace,
    meta: Keyspace,
    unflushed: RwLock<Unflushed>,
    /// Holds what it does not know of the entries that it went through.
    pub(crate) gaps: Gaps,
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
    /// Entries indexed, in memory or in tables.
    indexed: u64,
    /// As noted last.
    anchor: Anchor,
    /// The newest tree that it was told of, noted or not.
    seen: TreeHead,
}

impl Dedup {
    /// Opens the index in `path`, or makes one.
    ///
    /// # Errors
    /// If another process has it open, it belongs to another log, or it is
    /// damaged.
    pub(crate) fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
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
        let mut dedup = Dedup {
            path: path.to_path_buf(),
            database,
            places,
            meta,
            unflushed: RwLock::new(Unflushed::since(Anchor {
                indexed: 0,
                head: EMPTY,
            })),
            gaps: Gaps::default(),
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

    /// Returns the reason why it is not to be used, whatever it has.
    pub(crate) fn unusable(&self) -> Option<&'static str> {
        match self.unbound {
            Some(_) => Some("it is of an older format, which does not say from which tree it is"),
            None => self
                .is_distrusted()
                .then_some("it named a place where the log has another entry"),
        }
    }

    /// Two logs that share one index would answer for each other.
    fn claim(&self, owner: LogId) -> Result<(), Fatal> {
        let failed = |error| fatal(&self.path, &error);
        match self.meta.get(OWNER).map_err(failed)? {
            None => self.meta.insert(OWNER, owner.0).map_err(failed),
            Some(found) if *found == owner.0 => Ok(()),
            Some(_) => Err(Fatal::Inconsistent(format!(
                "the dedup index in {} belongs to another log: give each log a `cache` of its own",
                self.path.display()
            ))),
        }
    }

    /// Number of entries indexed: all those below it, and none above.
    pub(crate) fn indexed(&self) -> u64 {
        self.unflushed.read().indexed
    }

    /// Returns what binds it to its log.
    pub(crate) fn anchor(&self) -> Anchor {
        self.unflushed.read().anchor
    }

    fn noted(&self) -> Result<Option<Anchor>, Fatal> {
        let value = self.meta.get(ANCHOR);
        let Some(bytes) = value.map_err(|e| fatal(&self.path, &e))? else {
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
        {
            let unflushed = self.unflushed.read();
            let place = unflushed.newest.get(identity);
            if let Some(place) = place.or_else(|| unflushed.leaving.get(identity)) {
                return Ok(Some(*place));
            }
        }
        // What has left memory since is in a table by now.
        let value = self.places.get(identity.0).map_err(|e| self.fatal(&e))?;
        match value {
            None => Ok(None),
            Some(bytes) => LeafPosition::decode(&bytes)
                .map(Some)
                .ok_or_else(|| self.unsound("a value is not 16 bytes long")),
        }
    }

    /// Adds the entries that follow the indexed ones, up to `indexed` in all,
    /// of the signed tree `head`. To be called by one task at a time.
    pub(crate) fn extend(
        &self,
        entries: impl Iterator<Item = (Identity, LeafPosition)>,
        indexed: u64,
        head: TreeHead,
    ) -> Result<(), Fatal> {
        let noted = self.anchor();
        if noted.head != head {
            self.unflushed.write().seen = head;
            self.note(Anchor { head, ..noted })?;
        }
        let full = {
            let mut unflushed = self.unflushed.write();
            unflushed.newest.extend(entries);
            unflushed.indexed = indexed;
            unflushed.newest.len() >= TABLE_ENTRIES
        };
        if full { self.flush() } else { Ok(()) }
    }

    fn note(&self, anchor: Anchor) -> Result<(), Fatal> {
        self.writable()?;
        let noted = self.meta.insert(ANCHOR, anchor.encode());
        noted.map_err(|e| self.fatal(&e))?;
        self.unflushed.write().anchor = anchor;
        Ok(())
    }

    /// Writes what is in memory as one table.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        self.writable()?;
        let (leaving, anchor) = {
            let mut unflushed = self.unflushed.write();
            if !unflushed.leaving.is_empty() {
                // Noting more than is in tables would hide the gap for ever.
                return Err(self.unsound("the last table could not be written"));
            }
            unflushed.leaving = Arc::new(std::mem::take(&mut unflushed.newest));
            let anchor = Anchor {
                indexed: unflushed.indexed,
                ..unflushed.anchor
            };
            (unflushed.leaving.clone(), anchor)
        };
        self.write_table(&leaving).map_err(|e| self.fatal(&e))?;
        // Only now, and in this order: a crash between the two leaves places
        // that will be added again, the same ones.
        self.note(anchor)?;
        self.unflushed.write().leaving = Arc::default();
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
        for (identity, place) in entries {
            batch.insert(&self.places, identity.0, place.encode());
        }
        for gap in before {
            batch.remove(&self.meta, gap.key());
        }
        for gap in after {
            batch.insert(&self.meta, gap.key(), gap.value());
        }
        batch.commit().map_err(|e| self.fatal(&e))?;
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

    fn write_table(&self, places: &HashMap<Identity, LeafPosition>) -> fjall::Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<_> = places.iter().collect();
        sorted.sort_unstable_by_key(|(identity, _)| **identity);
        let mut table = self.places.start_ingestion()?;
        for (identity, place) in sorted {
            table.write(identity.0, place.encode())?;
        }
        table.finish()
    }

    fn writable(&self) -> Result<(), Fatal> {
        match &*self.ended.lock() {
            None => Ok(()),
            Some(failure) => Err(failure.of(&self.path)),
        }
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
            let Unflushed { anchor, seen, .. } = *self.unflushed.read();
            if let Err(error) = failure::say_failed(
                &self.path,
                Anchor {
                    head: seen,
                    ..anchor
                },
            ) {
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
    }
}

impl Unflushed {
    fn since(anchor: Anchor) -> Self {
        Unflushed {
            newest: HashMap::new(),
            leaving: Arc::default(),
            indexed: anchor.indexed,
            anchor,
            seen: anchor.head,
        }
    }
}

/// A name beside `path` that is not taken.
fn vacant(path: &Path) -> Result<PathBuf, Fatal> {
    let names = (1..=MOST_SET_ASIDE).map(|n| path.with_added_extension(format!("damaged-{n}")));
    let mut vacant = names.filter(|name| matches!(name.try_exists(), Ok(false)));
    vacant.next().ok_or_else(|| {
        Fatal::Inconsistent(format!(
            "{} cannot be used, and {MOST_SET_ASIDE} like it lie beside it already: find out what \
             damages them (memory, disk), and remove those that were looked at",
            path.display()
        ))
    })
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

    fn place(n: u64) -> LeafPosition {
        LeafPosition {
            index: n,
            timestamp_ms: 1_000_000 + n,
        }
    }

    fn head(size: u64) -> TreeHead {
        let mut root = EMPTY_ROOT;
        root.0[..8].copy_from_slice(&size.to_be_bytes());
        TreeHead { size, root }
    }

    fn add(dedup: &Dedup, range: std::ops::Range<u64>) {
        let entries = range.clone().map(|n| (identity(n), place(n)));
        dedup.extend(entries, range.end, head(range.end)).unwrap();
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
        // As after a crash: the table is there, what was in memory is not. But
        // that there was more is known.
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed(), table + 5);
        assert_eq!(dedup.anchor().head, head(table + 9));
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
    fn an_index_that_has_failed_is_not_written_and_not_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let owner = LogId([1; 32]);
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        add(&dedup, 0..3);
        let full = std::io::ErrorKind::StorageFull.into();
        dedup.fatal(&fjall::Error::Io(full));
        // fjall writes no more, but says no more why.
        for fatal in [
            dedup.fatal(&fjall::Error::Poisoned),
            dedup.flush().unwrap_err(),
            dedup.note_distrust().unwrap_err(),
        ] {
            let passing = matches!(fatal, Fatal::Dedup { damaged: false, .. });
            assert!(
                passing && fatal.to_string().contains("StorageFull"),
                "{fatal}"
            );
        }
        drop(dedup);
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        add(&dedup, 0..5);
        let error = std::io::Error::from_raw_os_error(5);
        dedup.fatal(&fjall::Error::Io(error));
        assert!(dedup.extend([].into_iter(), 5, head(6)).is_err());
        assert!(dedup.flush().is_err() && dedup.mend(&[], &[], &[]).is_err());
        drop(dedup);
        let error = Dedup::open(dir.path(), owner).err().unwrap();
        assert!(
            matches!(error, Fatal::Dedup { damaged: true, .. }),
            "{error}"
        );
        // The tree that it could not note any more is one that was signed.
        assert_eq!(last_seen(dir.path()), Some(head(5)));
        assert_eq!(Dedup::look(dir.path(), owner).unwrap(), Some(5));
    }

    #[test]
    fn another_logs_index_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Dedup::open(dir.path(), LogId([1; 32])).unwrap());
        let error = Dedup::open(dir.path(), LogId([2; 32])).err().unwrap();
        assert!(error.to_string().contains("another log"), "{error}");
    }

    #[test]
    fn a_rebuilt_index_is_empty_and_those_before_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
        for _ in 0..MOST_SET_ASIDE {
            let dedup = Dedup::open(&path, owner).unwrap();
            add(&dedup, 0..2);
            dedup.flush().unwrap();
            drop(dedup);
            let dedup = Dedup::rebuild(&path, owner).unwrap();
            assert_eq!(dedup.indexed(), 0);
            assert_eq!(dedup.find(&identity(1)).unwrap(), None);
        }
        let aside = Dedup::open(&dir.path().join("dedup.damaged-1"), owner).unwrap();
        assert_eq!(aside.find(&identity(1)).unwrap(), Some(place(1)));
        let error = Dedup::rebuild(&path, owner).err().unwrap();
        assert!(error.to_string().contains("lie beside it"), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn an_index_of_the_older_format_says_how_much_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
        assert_eq!(Dedup::look(&path, owner).unwrap(), None);
        assert!(!path.exists());
        let dedup = Dedup::open(&path, owner).unwrap();
        dedup.meta.insert(UNBOUND, 7_u64.to_be_bytes()).unwrap();
        drop(dedup);
        assert_eq!(Dedup::open(&path, owner).unwrap().unbound, Some(7));
        assert_eq!(Dedup::look(&path, owner).unwrap(), Some(7));
    }

    #[test]
    fn what_was_unknown_is_found_once_it_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        let owner = LogId([1; 32]);
        let gap = |first, end| Gap {
            first,
            end,
            latest_ms: u64::MAX,
        };
        {
            let dedup = Dedup::open(dir.path(), owner).unwrap();
            dedup.mend(&[], &[], &[gap(3, 6)]).unwrap();
            add(&dedup, 0..3);
            add(&dedup, 6..9);
            dedup.flush().unwrap();
        }
        {
            let dedup = Dedup::open(dir.path(), owner).unwrap();
            assert_eq!((dedup.indexed(), dedup.gaps.all()), (9, vec![gap(3, 6)]));
            let mended = [3, 4].map(|n| (identity(n), place(n)));
            dedup.mend(&mended, &[gap(3, 6)], &[gap(5, 6)]).unwrap();
        }
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.gaps.all(), [gap(5, 6)]);
        assert_eq!(dedup.find(&identity(4)).unwrap(), Some(place(4)));
        assert_eq!(dedup.find(&identity(5)).unwrap(), None);
    }
}
