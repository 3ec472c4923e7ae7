//! All tables of an index, and their merging. The index of leaf hashes (`rfc6962/leaf_index.rs`)
//! has tables, too.
//!
//! A separate thread merges tables of similar size: eight of the smallest size, four of each other
//! size, and more if the thread has fallen behind, as after a rebuild. A place is written again
//! each time the index has grown fourfold, and a lookup reads a few filters of each size. The list
//! of tables is one value, which is recorded with the anchor. A table is durable before the list
//! includes the table. Its files are removed after its removal from the list is durable.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use lucarne_ct::Identity;
use parking_lot::Mutex;

use super::LeafPosition;
use super::failure::Failure;
use super::sealed::sync;
use super::table::{Record, Records, Table, TableWriter};

/// Number of tables that start a merge: of the smallest size, and of any other size.
const MERGED: [usize; 2] = [8, 4];
/// Maximum number of tables that are merged at once.
const MOST_MERGED: usize = 64;
/// Number of merged records between two checks whether the index is being closed.
const LOOK_EVERY: u64 = 1 << 12;

/// The tables of an index, from the oldest to the newest.
pub(crate) struct Tables {
    folder: PathBuf,
    all: ArcSwap<Vec<Arc<Table>>>,
    next_id: AtomicU64,
    /// Held while the list changes.
    changing: Mutex<()>,
    closing: AtomicBool,
}

impl Tables {
    /// Opens the tables of this list, and removes the files of other tables.
    pub(crate) fn open(folder: PathBuf, ids: &[u64]) -> io::Result<Self> {
        if !folder.try_exists()? {
            std::fs::create_dir(&folder)?;
            sync(folder.parent().unwrap_or(&folder))?;
        }
        let mut last = ids.iter().copied().max().unwrap_or(0);
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some(id) = Table::id_of(&path) else {
                continue;
            };
            last = last.max(id);
            if !ids.contains(&id) {
                std::fs::remove_file(path)?;
            }
        }
        let tables = ids.iter().map(|id| Table::open(&folder, *id).map(Arc::new));
        let tables: io::Result<Vec<_>> = tables.collect();
        Ok(Tables {
            all: ArcSwap::from_pointee(tables?),
            next_id: AtomicU64::new(last + 1),
            changing: Mutex::default(),
            closing: AtomicBool::new(false),
            folder,
        })
    }

    /// Returns whether a lookup must read the disk to find out whether a table has this identity.
    pub(crate) fn need_disk(&self, identity: &Identity) -> bool {
        let tables = self.all.load();
        tables.iter().any(|table| table.needs_disk(identity))
    }

    /// Returns the place of this identity, the newest place if there are two; `None` if no table
    /// has the identity.
    pub(crate) fn find(&self, identity: &Identity) -> io::Result<Option<LeafPosition>> {
        for table in self.all.load().iter().rev() {
            if let Some(place) = table.find(identity)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::SeqCst)
    }

    /// Writes these records, which are in order, as a table that is not in the list yet.
    pub(crate) fn write(&self, records: &[Record]) -> io::Result<Arc<Table>> {
        let id = self.next_id();
        let mut writer = TableWriter::create(&self.folder, id, records.len() as u64)?;
        for record in records {
            writer.write(record)?;
        }
        self.finish(writer, id)
    }

    fn finish(&self, writer: TableWriter, id: u64) -> io::Result<Arc<Table>> {
        writer.finish()?;
        sync(&self.folder)?;
        Table::open(&self.folder, id).map(Arc::new)
    }

    /// Replaces `old` by `new`, after `note` has recorded the new list. If the list cannot be
    /// recorded for now, the files of `new` are removed, so that repeated attempts fill no disk.
    pub(crate) fn change(
        &self,
        old: &[Arc<Table>],
        new: Arc<Table>,
        note: impl FnOnce(Vec<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let _changing = self.changing.lock();
        let all = self.all.load();
        let is_old = |table: &Arc<Table>| old.iter().any(|old| old.id == table.id);
        let first = all.iter().position(is_old);
        let mut tables: Vec<_> = all.iter().filter(|table| !is_old(table)).cloned().collect();
        // Merged tables are older than tables that were written since.
        tables.insert(first.unwrap_or(tables.len()), new.clone());
        if let Err(error) = note(tables.iter().map(|table| table.id).collect()) {
            if !Failure::from(&error).damaged {
                let _ = self.remove(&[new]);
            }
            return Err(error);
        }
        self.all.store(Arc::new(tables));
        Ok(())
    }

    /// Returns the tables as they are now. These tables can be read even after other tables have
    /// replaced them.
    pub(super) fn all(&self) -> Vec<Arc<Table>> {
        self.all.load().to_vec()
    }

    /// Passes the records of these tables to `each`, in order and each identity once, until it
    /// returns `false`.
    pub(super) fn for_each(
        tables: &[Arc<Table>],
        mut each: impl FnMut(Record) -> bool,
    ) -> io::Result<()> {
        let mut last = None;
        for record in Merge::of(tables)? {
            let record = record?;
            if last.replace(record.0) != Some(record.0) && !each(record) {
                break;
            }
        }
        Ok(())
    }

    /// Writes a table of at most `at_most` ordered records, and does not add it to the list. If the
    /// records end with an error, no table is left.
    pub(super) fn write_stream<E>(
        &self,
        at_most: u64,
        records: impl Iterator<Item = Result<Record, E>>,
    ) -> io::Result<Result<Arc<Table>, E>> {
        let id = self.next_id();
        let written = self.written(id, at_most, records);
        if !matches!(written, Ok(Ok(_))) {
            // Files that are left are removed when the index is opened.
            let _ = Table::remove(&self.folder, id);
        }
        written
    }

    fn written<E>(
        &self,
        id: u64,
        at_most: u64,
        records: impl Iterator<Item = Result<Record, E>>,
    ) -> io::Result<Result<Arc<Table>, E>> {
        let mut writer = TableWriter::create(&self.folder, id, at_most)?;
        for record in records {
            match record {
                Ok(record) => writer.write(&record)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.finish(writer, id).map(Ok)
    }

    /// Stops a merge in progress at its next check.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Returns the number of records in all tables.
    pub(crate) fn count(&self) -> u64 {
        self.all.load().iter().map(|table| table.entries).sum()
    }

    /// Returns a record of each table.
    pub(crate) fn samples(&self) -> io::Result<Vec<Record>> {
        let all = self.all.load();
        all.iter()
            .filter_map(|table| table.records().next())
            .collect()
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<u64> {
        self.all.load().iter().map(|table| table.entries).collect()
    }

    /// Removes the files of tables that are no longer in the list.
    pub(crate) fn remove(&self, old: &[Arc<Table>]) -> io::Result<()> {
        old.iter()
            .try_for_each(|table| Table::remove(&self.folder, table.id))
    }

    /// Returns the tables that are merged next: those of the smallest size with enough tables.
    pub(crate) fn due(&self) -> Option<Vec<Arc<Table>>> {
        let all = self.all.load();
        let sizes = all.iter().map(|table| size(table.entries)).max()?;
        (0..=sizes).find_map(|wanted| {
            let alike = all.iter().filter(|table| size(table.entries) == wanted);
            let enough = MERGED[usize::from(wanted > 0)];
            let alike: Vec<_> = alike.take(MOST_MERGED).cloned().collect();
            (alike.len() >= enough).then_some(alike)
        })
    }

    /// Merges tables into a new table that is not in the list yet; `None` if the index is being
    /// closed.
    pub(crate) fn merge(&self, old: &[Arc<Table>]) -> io::Result<Option<Arc<Table>>> {
        let id = self.next_id();
        let at_most = old.iter().map(|table| table.entries).sum();
        let merged = self.merged(old, id, at_most);
        if !matches!(merged, Ok(Some(_))) {
            // Frees space on a full disk. Other leftovers are removed when the index is opened.
            let _ = Table::remove(&self.folder, id);
        }
        merged
    }

    fn merged(&self, old: &[Arc<Table>], id: u64, at_most: u64) -> io::Result<Option<Arc<Table>>> {
        let mut writer = TableWriter::create(&self.folder, id, at_most)?;
        let mut last = None;
        for (written, record) in (0u64..).zip(Merge::of(old)?) {
            if written.is_multiple_of(LOOK_EVERY) && self.closing.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let record = record?;
            if last.replace(record.0) != Some(record.0) {
                writer.write(&record)?;
            }
        }
        self.finish(writer, id).map(Some)
    }
}

/// Returns the size class of a table: 0 for fewer than 2¹⁸ entries. Each further class has fourfold
/// limits.
fn size(entries: u64) -> u32 {
    match entries.max(1).ilog2() {
        ..18 => 0,
        log => 1 + (log - 18) / 2,
    }
}

/// The records of several tables in order. If several records have the same identity, the record of
/// the newest table is first.
struct Merge<'t> {
    tables: Vec<Records<'t>>,
    /// The next record of each table: identity and number of the table, the newest first.
    next: BinaryHeap<Reverse<(Identity, usize, Place)>>,
}

/// A position that is ignored in comparisons.
struct Place(LeafPosition);

impl<'t> Merge<'t> {
    fn of(tables: &'t [Arc<Table>]) -> io::Result<Self> {
        let mut tables: Vec<_> = tables.iter().rev().map(|table| table.records()).collect();
        let mut next = BinaryHeap::with_capacity(tables.len());
        for (n, records) in tables.iter_mut().enumerate() {
            if let Some((identity, place)) = records.next().transpose()? {
                next.push(Reverse((identity, n, Place(place))));
            }
        }
        Ok(Merge { tables, next })
    }
}

impl Iterator for Merge<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first = self.next.peek_mut()?;
        let Reverse((identity, n, Place(place))) = &mut *first;
        let record = (*identity, *place);
        match self.tables[*n].next() {
            Some(Ok(following)) => {
                (*identity, *place) = following;
            }
            Some(Err(error)) => return Some(Err(error)),
            None => {
                PeekMut::pop(first);
            }
        }
        Some(Ok(record))
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
