//! The dedup index: identity → index and timestamp.
//!
//! Keys are full SHA-256 identities; the value is the place of the entry. The newest 65,536 places
//! are kept in memory, and then sorted and written as one table (`table.rs`). Tables are merged in
//! the background (`tables.rs`). Small values that change are in one file (`anchor.rs`): the log of
//! the index, the number of indexed entries, the list of tables and the gaps.
//!
//! The index follows the log and is never ahead of it: the number of indexed entries is recorded
//! after the table is durable, and entries that a crash has lost are read from the log's own tiles.
//! No round waits for the disk of the index, and a lost index costs a rebuild.
//!
//! Entries that the index lacks are its backlog (`backlog.rs`). They are read from the tiles in the
//! background, the newest first. Each part becomes a table, and leaves the backlog after lookups
//! find the entries of the table.
//!
//! The index is bound to one history of the log by its [`Anchor`]: one value with the number of
//! indexed entries, and the size and root of a tree that begins with them. The tree is recorded
//! with each round, and again together with each new list of tables. After any crash, the recorded
//! tree has every entry of the tables, and shows whether cache and log have the same history
//! (`catchup.rs`). A single wrong place is detected when it is used (`submission/proof.rs`).
//!
//! After an I/O error the contents of the disk are unknown: the kernel may show bytes that it could
//! not write, and let the next sync succeed. The index is not written any more, and a file reports
//! the failure to the next process (`failure.rs`): the index is set aside and rebuilt. The file of
//! the failure records the newest tree of the index. An index that returned a wrong place still has
//! its own record. Either record can prove that lock and storage are older, even if the index is no
//! longer used.
//!
//! `dedup.rs` has the lookups. `opening.rs` opens and rebuilds an index, and `writing.rs` adds
//! entries. `earlier.rs` removes the index of an earlier version.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lucarne_ct::Identity;
use parking_lot::{Mutex, RwLock};

use self::anchor::AnchorFile;
use self::failure::Failure;
use self::merger::Merger;
use crate::data::tree::TreeHead;
use crate::error::Fatal;
use crate::index::backlog::{Backlog, Pace};
use crate::index::unreadable_entries::{Gap, Gaps};

mod anchor;
pub(crate) mod earlier;
mod failure;
mod filter;
mod merger;
mod opening;
mod portable;
mod sealed;
mod table;
mod tables;
mod writing;

pub(crate) use self::anchor::{Anchor, LeafPosition};
pub(crate) use self::failure::{Unusable, last_seen};
pub(crate) use self::opening::set_aside;
pub(crate) use self::portable::{BadStream, CHUNK_RECORDS, Sealed, chunk_bytes, first_record};
pub(crate) use self::sealed::{load, replace};
pub(crate) use self::table::Record;
pub(crate) use self::tables::Tables;

/// Number of places in memory that are written as one table. A table has 3 MB on disk, and reading
/// the tiles of its entries after a crash takes a tenth of a second.
pub(crate) const TABLE_ENTRIES: usize = 1 << 16;
/// Number of entries that are read from the tiles for one table: 12 MB in memory.
pub(crate) const PART: u64 = 1 << 18;

/// The folder of the tables.
const TABLES: &str = "tables";

/// The dedup index of one log.
pub(crate) struct Dedup {
    path: PathBuf,
    tables: Arc<Tables>,
    merger: Merger,
    unflushed: RwLock<Unflushed>,
    /// Locked while tables and anchor change, before the list of tables.
    file: Arc<Mutex<AnchorFile>>,
    /// The indexed entries that could not be read.
    pub(crate) gaps: Gaps,
    /// The pace at which the backlog is read.
    pub(crate) pace: Pace,
    distrusted: AtomicBool,
    /// The failure after which the index is not written any more.
    ended: Mutex<Option<Failure>>,
    /// Excludes other processes, and is released last.
    _lock: File,
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

/// The newest entries of the backlog, read from the tiles.
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

/// A lookup must read the disk to find out whether the index has an entry.
pub(crate) struct NeedsDisk;

/// The reasons why an entry that is not found may be in the log.
pub(crate) enum Unknown {
    /// The backlog may have the entry.
    Unread,
    /// A tile that cannot be read may have the entry.
    Unreadable,
}

impl Dedup {
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

    /// Finds the position of this identity in the log in memory, without the disk, if that is
    /// sufficient.
    pub(crate) fn find_in_memory(
        &self,
        identity: &Identity,
    ) -> Result<Option<LeafPosition>, NeedsDisk> {
        if let Some(place) = self.unflushed_place(identity) {
            return Ok(Some(place));
        }
        // A place that has left memory since is in a table now.
        if self.tables.need_disk(identity) {
            return Err(NeedsDisk);
        }
        Ok(None)
    }

    /// Finds the position of this identity in the log.
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<LeafPosition>, Fatal> {
        if let Some(place) = self.unflushed_place(identity) {
            return Ok(Some(place));
        }
        // A place that has left memory since is in a table now.
        let found = self.tables.find(identity);
        found.map_err(|error| self.fatal(&error))
    }

    fn unflushed_place(&self, identity: &Identity) -> Option<LeafPosition> {
        let unflushed = self.unflushed.read();
        let place = unflushed.newest.get(identity);
        place.or_else(|| unflushed.leaving.get(identity)).copied()
    }

    /// Marks the index as wrong, because it returned a wrong place: the next opening of the log
    /// rebuilds the index. Returns `true` at the first call; the caller then
    /// [records](Self::note_distrust) the mark.
    pub(crate) fn distrust(&self) -> bool {
        !self.distrusted.swap(true, Ordering::SeqCst)
    }

    /// Returns whether the index has returned a wrong place.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::SeqCst)
    }

    /// Returns whether this process has found that the index must be rebuilt.
    pub(crate) fn is_unsound(&self) -> bool {
        let ended = self.ended.lock();
        ended.as_ref().is_some_and(|failure| failure.damaged) || self.is_distrusted()
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

#[cfg(test)]
pub(crate) mod tests;
