//! The index of leaf hashes: leaf hash → index of the entry.
//!
//! The dedup index cannot serve this purpose: a leaf hash covers the timestamp, and the identity in
//! the dedup index does not. Both indices have the same structure. The newest leaves are in memory.
//! After 65,536 leaves, these leaves become a table (`dedup/table.rs`), which is merged with other
//! tables of its size. The list of tables is one small file. The index has the first entries of the
//! log, without a gap, so the number of records in its tables is the number of indexed entries.
//!
//! The index can be lost at any time, and is rebuilt from the hash tiles of level 0.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lucarne_ct::{Identity, LogId};
use lucarne_tlog::Hash;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::index::dedup::{self, LeafPosition, Record, TABLE_ENTRIES, Tables};

const MAGIC: &[u8; 8] = b"leaves 1";
const LIST: &str = "list";
const TABLES: &str = "tables";
/// Number of leaves in memory that become a table. Tests use a smaller number.
pub(super) const TABLE: usize = if cfg!(test) { 1 << 10 } else { TABLE_ENTRIES };

/// The index of one log's leaf hashes. One process at a time writes its files.
pub(super) struct LeafIndex {
    folder: PathBuf,
    owner: LogId,
    tables: Tables,
    newest: RwLock<HashMap<Hash, u64>>,
    indexed: watch::Sender<u64>,
}

impl LeafIndex {
    /// Opens the index in `folder`, or creates it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the index is damaged or belongs to another log.
    pub(super) fn open(folder: &Path, owner: LogId) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let list = match dedup::load(&folder.join(LIST))? {
            Some(content) => decode(&content, owner).ok_or_else(unreadable)?,
            None => Vec::new(),
        };
        let tables = Tables::open(folder.join(TABLES), &list)?;
        Ok(LeafIndex {
            folder: folder.to_owned(),
            owner,
            newest: RwLock::default(),
            indexed: watch::Sender::new(tables.count()),
            tables,
        })
    }

    /// Removes the files of an unusable index.
    pub(super) fn remove(folder: &Path) -> io::Result<()> {
        let gone = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        gone(fs::remove_file(folder.join(LIST)))?;
        gone(fs::remove_dir_all(folder.join(TABLES)))
    }

    /// Returns the index of the entry with this leaf hash; `None` if the leaf is not indexed. The
    /// caller must verify the result against the tree.
    ///
    /// # Errors
    /// If a table cannot be read, or is damaged.
    pub(super) fn find(&self, leaf: &Hash) -> io::Result<Option<u64>> {
        // A leaf stays in memory until it is in a table.
        if let Some(index) = self.newest.read().get(leaf) {
            return Ok(Some(*index));
        }
        let found = self.tables.find(&Identity(leaf.0))?;
        Ok(found.map(|place| place.index))
    }

    /// Returns the number of indexed entries, which are the first entries of the log.
    pub(super) fn indexed(&self) -> u64 {
        *self.indexed.borrow()
    }

    /// Returns a receiver of the number of indexed entries.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.indexed.subscribe()
    }

    /// Returns one leaf of each table, with its index.
    ///
    /// # Errors
    /// See [`find`](Self::find).
    pub(super) fn samples(&self) -> io::Result<Vec<(Hash, u64)>> {
        let samples = self.tables.samples()?.into_iter();
        Ok(samples
            .map(|(key, place)| (Hash(key.0), place.index))
            .collect())
    }

    /// Adds leaves that follow the indexed leaves. Only one task at a time may call this.
    pub(super) fn add(&self, leaves: impl ExactSizeIterator<Item = Hash>) {
        let first = self.indexed();
        let next = first + leaves.len() as u64;
        self.newest.write().extend(leaves.zip(first..));
        self.indexed.send_replace(next);
    }

    /// Returns whether the leaves in memory must become a table.
    pub(super) fn is_full(&self) -> bool {
        self.newest.read().len() >= TABLE
    }

    /// Writes the leaves in memory as a table. Only the task that adds leaves may call this.
    ///
    /// # Errors
    /// If the disk fails. The index must then be opened again.
    pub(super) fn flush(&self) -> io::Result<()> {
        let mut records: Vec<Record> = {
            let newest = self.newest.read();
            newest
                .iter()
                .map(|(leaf, index)| record(leaf, *index))
                .collect()
        };
        if records.is_empty() {
            return Ok(());
        }
        records.sort_unstable_by_key(|(key, _)| *key);
        let table = self.tables.write(&records)?;
        self.tables.change(&[], table, |list| self.note(&list))?;
        self.newest.write().clear();
        Ok(())
    }

    /// Merges tables of the same size until too few are left, or the index is
    /// [closed](Self::close). Only one task at a time may call this, concurrently with the task
    /// that adds leaves.
    ///
    /// # Errors
    /// If the disk fails, or a table is damaged.
    pub(super) fn merge(&self) -> io::Result<()> {
        while let Some(due) = self.tables.due() {
            let Some(merged) = self.tables.merge(&due)? else {
                return Ok(());
            };
            self.tables.change(&due, merged, |list| self.note(&list))?;
            self.tables.remove(&due)?;
        }
        Ok(())
    }

    /// Stops a running merge at its next check.
    pub(super) fn close(&self) {
        self.tables.close();
    }

    /// Writes the list of tables durably and atomically.
    fn note(&self, list: &[u64]) -> io::Result<()> {
        let list: Vec<u8> = list.iter().flat_map(|id| id.to_be_bytes()).collect();
        let content = [&MAGIC[..], &self.owner.0, &list].concat();
        dedup::replace(&self.folder.join(LIST), content)
    }
}

fn record(leaf: &Hash, index: u64) -> Record {
    let place = LeafPosition {
        index,
        timestamp_ms: 0,
    };
    (Identity(leaf.0), place)
}

/// Returns the numbers of the tables; `None` if the list is invalid or belongs to another log.
fn decode(content: &[u8], owner: LogId) -> Option<Vec<u64>> {
    let list = content.strip_prefix(MAGIC)?.strip_prefix(&owner.0)?;
    let (list, rest) = list.as_chunks();
    rest.is_empty()
        .then(|| list.iter().map(|id| u64::from_be_bytes(*id)).collect())
}

fn unreadable() -> io::Error {
    let problem = "the list of tables is invalid, or belongs to another log";
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
