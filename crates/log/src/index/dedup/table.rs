//! A table of the index: places sorted by identity, in a file that is written once.
//!
//! Records of 43 bytes are in blocks of 16 KiB. After the blocks, the file has the first eight
//! bytes of each block's first identity, which are in memory while the table is open. A Bloom
//! filter is in a separate file (`filter.rs`). The checksums of blocks and sectors cover their
//! table and number, and a lookup verifies them: damage is an error, and never a missing entry.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lucarne_ct::Identity;

use super::LeafPosition;
use super::filter::{self, Filter, FilterWriter, prefix};
use super::sealed::{Buffered, SUM, check, damaged, forget, seal, sum_of};

const KEY: usize = 32;
/// Length of a record in bytes: an identity, an index of 40 bits (static-ct-api, "SCT Extension")
/// and a timestamp of 48 bits.
pub(super) const RECORD: usize = KEY + 5 + 6;
const MAX_INDEX: u64 = (1 << 40) - 1;
const MAX_TIME: u64 = (1 << 48) - 1;
const BLOCK: usize = 16 << 10;
/// Number of records in a full block.
pub(super) const PER_BLOCK: usize = (BLOCK - SUM) / RECORD;
const MAGIC: &[u8; 8] = b"places 1";
const FOOTER: usize = 48;
/// Number of bytes after which a table is synced while it is written. A sync of gigabytes would
/// delay the log's own syncs.
const SYNC_EVERY: usize = 32 << 20;
/// Number of blocks after which merged blocks are removed from the page cache: 8 MiB.
const FORGOTTEN: u64 = 512;

/// An identity with its place.
pub(crate) type Record = (Identity, LeafPosition);

pub(super) fn encode((identity, place): &Record) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..KEY].copy_from_slice(&identity.0);
    // A log cannot have larger places. A wrong place never leads to an SCT
    // (`submission/proof.rs`).
    let (index, timestamp_ms) = (place.index.min(MAX_INDEX), place.timestamp_ms.min(MAX_TIME));
    bytes[KEY..KEY + 5].copy_from_slice(&index.to_be_bytes()[3..]);
    bytes[KEY + 5..].copy_from_slice(&timestamp_ms.to_be_bytes()[2..]);
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Record {
    let mut identity = [0; KEY];
    identity.copy_from_slice(&bytes[..KEY]);
    let (mut index, mut timestamp) = ([0; 8], [0; 8]);
    index[3..].copy_from_slice(&bytes[KEY..KEY + 5]);
    timestamp[2..].copy_from_slice(&bytes[KEY + 5..RECORD]);
    let place = LeafPosition {
        index: u64::from_be_bytes(index),
        timestamp_ms: u64::from_be_bytes(timestamp),
    };
    (Identity(identity), place)
}

/// An open table.
pub(crate) struct Table {
    pub(super) id: u64,
    pub(super) entries: u64,
    file: File,
    /// The prefixes of the blocks' first identities.
    fences: Vec<u64>,
    sectors: u64,
    filter: Filter,
}

impl Table {
    pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
        folder.join(format!("{id:010}"))
    }

    /// Returns the number of the table to which the file `path` belongs; `None` if it belongs to no
    /// table.
    pub(super) fn id_of(path: &Path) -> Option<u64> {
        let id = path.file_stem()?.to_str()?.parse().ok()?;
        let folder = path.parent()?;
        (Self::path(folder, id) == path || filter::path(folder, id) == path).then_some(id)
    }

    pub(super) fn remove(folder: &Path, id: u64) -> io::Result<()> {
        std::fs::remove_file(Self::path(folder, id))?;
        std::fs::remove_file(filter::path(folder, id))
    }

    /// Opens table number `id`.
    pub(super) fn open(folder: &Path, id: u64) -> io::Result<Self> {
        let file = File::open(Self::path(folder, id))?;
        let length = file.metadata()?.len();
        let footer_at = length.checked_sub(FOOTER as u64);
        let footer_at = footer_at.ok_or_else(|| damaged(id))?;
        let mut footer = [0; FOOTER];
        file.read_exact_at(&mut footer, footer_at)?;
        check(&footer, id, u64::MAX)?;
        let number = |n: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&footer[8 * n..8 * n + 8]);
            u64::from_be_bytes(bytes)
        };
        let (entries, sectors, sum) = (number(2), number(3), number(4));
        let blocks = entries.div_ceil(PER_BLOCK as u64);
        if footer[..8] != *MAGIC || number(1) != id || blocks * (BLOCK + 8) as u64 != footer_at {
            return Err(damaged(id));
        }
        let mut fences = vec![0; blocks as usize * 8];
        file.read_exact_at(&mut fences, blocks * BLOCK as u64)?;
        if sum_of(&fences, id, blocks) != sum {
            return Err(damaged(id));
        }
        let fences = fences.chunks_exact(8).map(|eight| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(eight);
            u64::from_be_bytes(bytes)
        });
        Ok(Table {
            id,
            entries,
            fences: fences.collect(),
            sectors,
            filter: Filter::open(folder, id, sectors)?,
            file,
        })
    }

    /// Returns whether a lookup must read the disk to find out whether the table has this identity.
    pub(super) fn needs_disk(&self, identity: &Identity) -> bool {
        self.filter.needs_disk(identity, self.sectors)
    }

    /// Returns the place of this identity; `None` if the table does not have the identity.
    pub(super) fn find(&self, identity: &Identity) -> io::Result<Option<LeafPosition>> {
        if !self.filter.may_have(identity, self.id, self.sectors)? {
            return Ok(None);
        }
        let wanted = prefix(identity);
        let mut block = self.fences.partition_point(|fence| *fence < wanted);
        block = block.saturating_sub(1);
        let mut bytes = vec![0; BLOCK];
        while self.fences.get(block).is_some_and(|fence| *fence <= wanted) {
            let records = self.read(block as u64, &mut bytes)?;
            let records = bytes[..records * RECORD].as_chunks::<RECORD>().0;
            if let Ok(at) = records.binary_search_by(|record| record[..KEY].cmp(&identity.0)) {
                return Ok(Some(decode(&records[at]).1));
            }
            block += 1;
        }
        Ok(None)
    }

    /// Reads a block, and returns its number of records.
    fn read(&self, block: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_exact_at(bytes, block * BLOCK as u64)?;
        check(bytes, self.id, block)?;
        let left = self.entries - block * PER_BLOCK as u64;
        Ok(left.min(PER_BLOCK as u64) as usize)
    }

    /// Returns all records, in order.
    pub(super) fn records(&self) -> Records<'_> {
        Records {
            table: self,
            bytes: vec![0; BLOCK],
            block: 0,
            next: 0,
            end: 0,
        }
    }
}

/// An iterator over the records of a table.
pub(super) struct Records<'t> {
    table: &'t Table,
    bytes: Vec<u8>,
    block: u64,
    next: usize,
    end: usize,
}

impl Iterator for Records<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            if self.block as usize == self.table.fences.len() {
                return None;
            }
            self.end = match self.table.read(self.block, &mut self.bytes) {
                Ok(records) => records,
                Err(error) => return Some(Err(error)),
            };
            (self.block, self.next) = (self.block + 1, 0);
            if self.block.is_multiple_of(FORGOTTEN) {
                // These blocks are not read again.
                let length = FORGOTTEN * BLOCK as u64;
                forget(
                    &self.table.file,
                    (self.block - FORGOTTEN) * BLOCK as u64,
                    length,
                );
            }
        }
        let record = decode(&self.bytes[self.next * RECORD..][..RECORD]);
        self.next += 1;
        Some(Ok(record))
    }
}

/// A table that is being written.
pub(super) struct TableWriter {
    id: u64,
    file: Buffered,
    block: Vec<u8>,
    fences: Vec<u8>,
    entries: u64,
    unsynced: usize,
    filter: FilterWriter,
}

impl TableWriter {
    /// Begins table number `id` with at most `at_most` entries.
    pub(super) fn create(folder: &Path, id: u64, at_most: u64) -> io::Result<Self> {
        Ok(TableWriter {
            id,
            file: Buffered::create(&Table::path(folder, id))?,
            block: Vec::with_capacity(BLOCK),
            fences: Vec::new(),
            entries: 0,
            unsynced: 0,
            filter: FilterWriter::create(folder, id, at_most)?,
        })
    }

    /// Adds a record. The caller adds records in ascending order of identities.
    pub(super) fn write(&mut self, record: &Record) -> io::Result<()> {
        if self.block.is_empty() {
            self.fences.extend_from_slice(&record.0.0[..8]);
        }
        self.block.extend_from_slice(&encode(record));
        self.entries += 1;
        self.filter.add(&record.0, self.id)?;
        if self.block.len() == PER_BLOCK * RECORD {
            self.end_block()
        } else {
            Ok(())
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.block.resize(BLOCK, 0);
        let number = (self.entries - 1) / PER_BLOCK as u64;
        seal(&mut self.block, self.id, number);
        self.file.write(&self.block)?;
        self.block.clear();
        self.unsynced += BLOCK;
        if self.unsynced >= SYNC_EVERY {
            self.unsynced = 0;
            self.file.sync()?;
            self.file.forget();
        }
        Ok(())
    }

    /// Syncs the table, but not yet the name of its file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.end_block()?;
        self.filter.finish(self.id)?;
        let blocks = self.entries.div_ceil(PER_BLOCK as u64);
        let sum = sum_of(&self.fences, self.id, blocks);
        let mut footer = [0; FOOTER];
        footer[..8].copy_from_slice(MAGIC);
        for (n, number) in [self.id, self.entries, self.filter.sectors, sum]
            .iter()
            .enumerate()
        {
            footer[8 * n + 8..8 * n + 16].copy_from_slice(&number.to_be_bytes());
        }
        seal(&mut footer, self.id, u64::MAX);
        self.file.write(&self.fences)?;
        self.file.write(&footer)?;
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;

    fn record(n: u64) -> Record {
        let hash = |salt: u64| xxh3_64_with_seed(&n.to_be_bytes(), salt).to_be_bytes();
        let mut identity = [0; KEY];
        for (salt, bytes) in (0..).zip(identity.chunks_mut(8)) {
            bytes.copy_from_slice(&hash(salt));
        }
        let place = LeafPosition {
            index: n,
            timestamp_ms: (1 << 48) - 1 - n,
        };
        (Identity(identity), place)
    }

    fn write(folder: &Path, id: u64, numbers: std::ops::Range<u64>) -> Vec<Record> {
        let mut records: Vec<_> = numbers.map(record).collect();
        records.sort_unstable_by_key(|(identity, _)| *identity);
        let mut writer = TableWriter::create(folder, id, records.len() as u64).unwrap();
        for record in &records {
            writer.write(record).unwrap();
        }
        writer.finish().unwrap();
        records
    }

    #[test]
    fn finds_what_it_has_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for count in [1, PER_BLOCK as u64, PER_BLOCK as u64 + 1, 10_000] {
            let records = write(dir.path(), count, 0..count);
            let table = Table::open(dir.path(), count).unwrap();
            assert_eq!(table.entries, count);
            for (identity, place) in &records {
                assert_eq!(table.find(identity).unwrap(), Some(*place));
            }
            for n in count..count + 2000 {
                assert_eq!(table.find(&record(n).0).unwrap(), None);
            }
            let all: io::Result<Vec<_>> = table.records().collect();
            assert_eq!(all.unwrap(), records);
        }
    }

    #[test]
    fn the_filter_spares_nearly_all_reads() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 1, 0..100_000);
        let table = Table::open(dir.path(), 1).unwrap();
        let may_have = |n: &u64| {
            let filter = &table.filter;
            filter.may_have(&record(*n).0, 1, table.sectors).unwrap()
        };
        let wrong = (100_000..200_000).filter(may_have).count();
        assert!(wrong < 600, "{wrong} of 100,000");
    }

    /// Records whose identities begin with the same bytes may be in several blocks.
    #[test]
    fn identities_that_begin_alike_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let alike = |n: u64| {
            let (mut identity, place) = record(n);
            identity.0[..8].fill(5);
            identity.0[8..16].copy_from_slice(&n.to_be_bytes());
            (identity, place)
        };
        let count = 3 * PER_BLOCK as u64 + 7;
        let mut writer = TableWriter::create(dir.path(), 1, count).unwrap();
        (0..count).for_each(|n| writer.write(&alike(n)).unwrap());
        writer.finish().unwrap();
        let table = Table::open(dir.path(), 1).unwrap();
        for n in 0..count {
            let (identity, place) = alike(n);
            assert_eq!(table.find(&identity).unwrap(), Some(place));
        }
    }

    /// A lookup of an entry finds the entry or returns an error, whichever bit has flipped.
    #[test]
    fn no_bit_that_rots_hides_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let records = write(dir.path(), 1, 0..500);
        for path in [Table::path(dir.path(), 1), filter::path(dir.path(), 1)] {
            let sound = std::fs::read(&path).unwrap();
            for at in (0..sound.len()).step_by(97) {
                let mut rotten = sound.clone();
                rotten[at] ^= 1 << (at % 8);
                std::fs::write(&path, &rotten).unwrap();
                let Ok(table) = Table::open(dir.path(), 1) else {
                    continue;
                };
                for (identity, place) in records.iter().step_by(29) {
                    let found = table.find(identity);
                    assert!(
                        found.is_err() || found.unwrap() == Some(*place),
                        "byte {at}"
                    );
                }
            }
            for cut in [0, 1, sound.len() / 2, sound.len() - 1] {
                std::fs::write(&path, &sound[..cut]).unwrap();
                assert!(Table::open(dir.path(), 1).is_err(), "{cut} bytes are left");
            }
            std::fs::write(&path, &sound).unwrap();
        }
        assert!(Table::open(dir.path(), 1).is_ok());
    }
}
