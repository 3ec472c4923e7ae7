//! The storage of a log: a directory or a bucket.

use super::history::{MOST, Note, Tree};

// Files other than tiles that a power failure may destroy; the tiles have the lower bits.
const JOURNAL: u8 = 1 << MOST;
const CHECKPOINT: u8 = JOURNAL << 1;
const WHOLE: u8 = CHECKPOINT << 1;

/// A round in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) old: Tree,
    pub(super) new: Tree,
    /// A power failure does not destroy the record.
    pub(super) synced: bool,
}

/// The published files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Files {
    pub(super) checkpoint: Option<Note>,
    /// Tiles at the right edge of each published tree, at position `size - 1`. In the model, the
    /// tiles are the whole tree. The tree is empty if its tiles were not published.
    tiles: [Tree; MOST],
}

impl Files {
    pub(super) fn tile(&self, size: usize) -> Tree {
        self.tiles[size - 1]
    }

    pub(super) fn publish_tiles(&mut self, tree: Tree) {
        self.tiles[tree.size() - 1] = tree;
    }

    fn has_beyond(&self, size: usize) -> bool {
        self.tiles[size..].iter().any(|tile| *tile != Tree::EMPTY)
    }

    /// Returns whether the tiles of this tree are published.
    pub(super) fn has(&self, tree: Tree) -> bool {
        tree == Tree::EMPTY || self.tile(tree.size()) == tree
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) files: Files,
    /// The files that a power failure does not destroy.
    settled: Files,
    journal: [Option<Record>; MOST],
    /// The data tile of the first entry is damaged.
    pub(super) is_rotten: bool,
}

impl Place {
    /// The storage of a new log.
    pub(super) const NEW: Place = Place {
        files: Files {
            checkpoint: Some(Note::FIRST),
            tiles: [Tree::EMPTY; MOST],
        },
        settled: Files {
            checkpoint: Some(Note::FIRST),
            tiles: [Tree::EMPTY; MOST],
        },
        journal: [None; MOST],
        is_rotten: false,
    };

    fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.journal.iter().flatten()
    }

    /// Appends a record to the journal; returns `false` if the journal is full.
    pub(super) fn stage(&mut self, record: Record) -> bool {
        match self.journal.iter_mut().find(|free| free.is_none()) {
            Some(free) => *free = Some(record),
            None => return false,
        }
        true
    }

    fn keep_records(&mut self, keep: impl Fn(&Record) -> bool) {
        let kept: Vec<Record> = self.records().copied().filter(keep).collect();
        self.journal = [None; MOST];
        self.journal
            .iter_mut()
            .zip(kept)
            .for_each(|(free, record)| *free = Some(record));
    }

    /// Syncs all files, and removes the records up to this size from the journal.
    pub(super) fn settle(&mut self, size: usize) {
        self.settled = self.files;
        self.keep_records(|record| record.new.size() > size);
        self.journal
            .iter_mut()
            .flatten()
            .for_each(|record| record.synced = true);
    }

    /// Syncs the published files. In a bucket, files are durable at once.
    pub(super) fn settle_files(&mut self) {
        self.settled = self.files;
    }

    /// Returns a bit for each file that is not durable: tiles by size, the end of the journal, and
    /// two bits for the checkpoint, which may revert to the former checkpoint or be torn.
    pub(super) fn at_risk(&self) -> u8 {
        let (now, before) = (&self.files, &self.settled);
        let tiles = (0..MOST).filter(|at| now.tiles[*at] != before.tiles[*at]);
        let tiles = tiles.map(|at| 1 << at).sum::<u8>();
        let unsynced = self.records().any(|record| !record.synced);
        let checkpoint = now.checkpoint != before.checkpoint;
        let journal = if unsynced { JOURNAL } else { 0 };
        let checkpoint = if checkpoint { CHECKPOINT | WHOLE } else { 0 };
        tiles | journal | checkpoint
    }

    /// Simulates a power failure that destroys the files in `lost`, out of those at risk.
    pub(super) fn fail_power(&mut self, lost: u8) {
        for at in (0..MOST).filter(|at| lost & 1 << at != 0) {
            self.files.tiles[at] = self.settled.tiles[at];
        }
        if lost & JOURNAL != 0 {
            self.keep_records(|record| record.synced);
        }
        if lost & CHECKPOINT != 0 {
            self.files.checkpoint = self.settled.checkpoint;
        } else if lost & WHOLE != 0 {
            self.files.checkpoint = None;
        }
        // All files that remain are durable.
        self.settle(0);
    }

    /// Returns the size at which the rounds of the journal that lead to the newest head begin. The
    /// newest head is the head of the lock, or was signed after it. Returns `None` if the journal
    /// has a round on a tree that the lock never had, or if it does not lead from the head of the
    /// lock to the newest head. (`no_round_beyond`, `ahead::newest`, `rounds_to`)
    pub(super) fn base(&self, head: Note, newest: Note) -> Option<usize> {
        let signed = head.tree;
        let beyond = |record: &Record| {
            let old = record.old;
            old.size() > signed.size() || old.size() == signed.size() && old != signed
        };
        if self.records().any(beyond) {
            return None;
        }
        let staged = |record: &Record| (record.old, record.new) == (signed, newest.tree);
        if newest.tree != signed && !(newest.time > head.time && self.records().any(staged)) {
            return None;
        }
        let back = self.records().rev().fold(newest.tree, |tree, record| {
            if record.new == tree { record.old } else { tree }
        });
        Some(back.size())
    }

    /// Returns the tree size at which publication continues. Returns `None` if the
    /// published tree is not a prefix of the tree in the lock, or if its tiles are missing.
    /// (`not_newer`, `no_tile_beyond`, `same_history`, `tree_at`)
    pub(super) fn judge(&self, head: Note, base: usize, is_bucket: bool) -> Option<usize> {
        let mut there = base;
        if let Some(published) = self.files.checkpoint {
            let is_behind = head.tree.goes_on_from(published.tree) && published.time <= head.time;
            if !is_behind {
                return None;
            }
            if is_bucket {
                there = base.max(published.tree.size());
            }
        }
        if self.files.has_beyond(head.tree.size()) {
            return None;
        }
        let from = [there, base].into_iter();
        let mut from = from.filter(|size| self.files.has(head.tree.first(*size)));
        from.next()
    }
}
