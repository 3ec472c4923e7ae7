//! Writing to an index: new places, tables, gaps, and the anchor that binds them to a tree.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lucarne_ct::Identity;

use super::tables::TABLES;
use super::{
    ANCHOR, ANCHOR_WITHOUT_TABLES, Anchor, DISTRUSTED, Dedup, LeafPosition, Part, Record,
    TABLE_ENTRIES, table,
};
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
    pub(super) fn commit(
        &self,
        anchor: &Anchor,
        tables: Option<Vec<u8>>,
        gaps: &[Gap],
    ) -> fjall::Result<()> {
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
                return Err(self.unsound(DedupError::Table));
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

    /// Records for later processes that the index returned a wrong place.
    pub(crate) fn note_distrust(&self) -> Result<(), Fatal> {
        self.writable()?;
        let noted = self.meta.insert(DISTRUSTED, [1]);
        noted.map_err(|e| self.fatal(&e))
    }

    /// Writes a table. After the table is durable, records it together with the anchor and the
    /// gaps. Lookups find the entries of the table before the anchor in memory changes.
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
