//! Writing to an index: new places, tables, gaps, and the anchor that binds them to a tree.

use std::sync::Arc;

use lucarne_ct::Identity;

use super::anchor::Noted;
use super::table::Table;
use super::{Dedup, LeafPosition, Part, Record, TABLE_ENTRIES};
use crate::data::tree::TreeHead;
use crate::error::{DedupError, Fatal};
use crate::index::unreadable_entries::Gap;

impl Dedup {
    /// Adds to the backlog all entries of the signed tree `head` that the index lacks.
    pub(crate) fn go_over(&self, head: TreeHead) -> Result<(), Fatal> {
        let before = self.anchor();
        if (before.indexed, before.head) == (head.size, head) {
            return Ok(());
        }
        self.unflushed.write().seen = head;
        self.writable()?;
        self.record(None, |noted| {
            let anchor = &mut noted.anchor;
            if anchor.indexed < head.size {
                anchor.backlog.push(Gap {
                    first: anchor.indexed,
                    end: head.size,
                    latest_ms: u64::MAX,
                });
            }
            (anchor.indexed, anchor.head) = (head.size, head);
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
            self.see(head)?;
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

    /// Records the newest tree.
    fn see(&self, head: TreeHead) -> Result<(), Fatal> {
        self.unflushed.write().seen = head;
        self.writable()?;
        let mut file = self.file.lock();
        file.see(head).map_err(|error| self.fatal(&error))?;
        self.unflushed.write().anchor.head = head;
        Ok(())
    }

    /// Writes the places in memory as one table.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        self.writable()?;
        let (leaving, indexed) = {
            let mut unflushed = self.unflushed.write();
            if !unflushed.leaving.is_empty() {
                // An anchor with more entries than the tables have would hide the missing entries
                // forever.
                return Err(self.unsound(DedupError::Table));
            }
            unflushed.leaving = Arc::new(std::mem::take(&mut unflushed.newest));
            (unflushed.leaving.clone(), unflushed.indexed)
        };
        let records = leaving.iter().map(|(identity, place)| (*identity, *place));
        self.write_table(records.collect(), |noted| noted.anchor.indexed = indexed)?;
        self.unflushed.write().leaving = Arc::default();
        Ok(())
    }

    /// Writes a part from the newest end of the backlog as one table. Must be called by one task
    /// at a time; [`extend`](Self::extend) may run concurrently.
    pub(crate) fn take_up(&self, part: Part) -> Result<(), Fatal> {
        let (read, timestamp_ms) = (part.from..part.to, part.timestamp_ms);
        self.write_table(part.records, |noted| {
            noted.gaps.extend(part.gaps);
            noted.anchor.backlog.cut(read, timestamp_ms);
        })?;
        self.pace.note(&self.backlog());
        Ok(())
    }

    /// Adds entries that were in gaps, as one table, and replaces these gaps.
    pub(crate) fn mend(
        &self,
        entries: Vec<Record>,
        before: &[Gap],
        after: &[Gap],
    ) -> Result<(), Fatal> {
        self.write_table(entries, |noted| {
            noted.gaps.retain(|gap| !before.contains(gap));
            noted.gaps.extend(after);
        })
    }

    /// Records for later processes that the index returned a wrong place.
    pub(crate) fn note_distrust(&self) -> Result<(), Fatal> {
        self.writable()?;
        self.record(None, |noted| noted.distrusted = true)
    }

    /// Writes a table. After the table is durable, records it together with another change.
    fn write_table(
        &self,
        mut records: Vec<Record>,
        change: impl FnOnce(&mut Noted),
    ) -> Result<(), Fatal> {
        self.writable()?;
        records.sort_unstable_by_key(|(identity, _)| *identity);
        let table = (!records.is_empty()).then(|| self.tables.write(&records));
        let table = table.transpose().map_err(|error| self.fatal(&error))?;
        drop(records);
        self.record(table, change)
    }

    /// Records a change, together with a new table. Lookups find the entries of the table before
    /// gaps and backlog change in memory.
    pub(super) fn record(
        &self,
        table: Option<Arc<Table>>,
        change: impl FnOnce(&mut Noted),
    ) -> Result<(), Fatal> {
        let mut file = self.file.lock();
        let recorded = match table {
            None => file.change(change),
            Some(table) => self.tables.change(&[], table, |list| {
                file.change(|noted| {
                    noted.tables = list;
                    change(noted);
                })
            }),
        };
        recorded.map_err(|error| self.fatal(&error))?;
        self.merger.wake();
        self.gaps.set(file.noted.gaps.clone());
        self.unflushed.write().anchor = file.noted.anchor.clone();
        Ok(())
    }

    pub(super) fn writable(&self) -> Result<(), Fatal> {
        if let Some(error) = self.merger.failure() {
            return Err(self.fatal(&error));
        }
        match &*self.ended.lock() {
            None => Ok(()),
            Some(failure) => Err(failure.of(&self.path)),
        }
    }
}
