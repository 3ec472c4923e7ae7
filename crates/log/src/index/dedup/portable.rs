//! Records of an index as a stream, which the index of another instance can take up.
//!
//! The stream has the records of all tables in order, each identity once. The files of tables are
//! not copied, because their checksums include table numbers, which differ between indices.

use std::io;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use lucarne_ct::Identity;

use super::Dedup;
use super::table::{self, RECORD, Record, Table};
use super::tables::Tables;
use crate::data::tree::TreeHead;
use crate::error::Fatal;

/// The number of records in each chunk of a stream except the last chunk: 5.6 MB. Tests use smaller
/// chunks.
pub(crate) const CHUNK_RECORDS: u64 = if cfg!(test) { 1 << 8 } else { 1 << 17 };
const CHUNK_BYTES: usize = CHUNK_RECORDS as usize * RECORD;

/// The tables of an index that has all entries below a number.
pub(crate) struct Sealed {
    /// The number of entries.
    pub(crate) indexed: u64,
    /// A signed tree that begins with these entries.
    pub(crate) head: TreeHead,
    tables: Vec<Arc<Table>>,
}

/// The reasons why a stream of records is not taken up.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadStream {
    #[error("the records are incomplete")]
    Truncated,
    #[error("the SHA-256 of chunk {0} does not match the manifest")]
    Chunk(usize),
    #[error("the records are not in order")]
    Order,
    #[error("a record has the index {0}, which is beyond the last entry")]
    Beyond(u64),
    #[error("an entry of the tree has no record")]
    Missing,
}

/// Returns the number of bytes of a chunk with `records` records.
pub(crate) fn chunk_bytes(records: u64) -> u64 {
    records * RECORD as u64
}

/// Returns the first record of a chunk.
pub(crate) fn first_record(chunk: &[u8]) -> Option<Record> {
    chunk.get(..RECORD).map(table::decode)
}

impl Sealed {
    /// Passes all records to `each`, in chunks of [`CHUNK_RECORDS`], until it returns `false`.
    /// Blocks.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub(crate) fn chunks(&self, mut each: impl FnMut(Vec<u8>) -> bool) -> io::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut goes_on = true;
        Tables::for_each(&self.tables, |record| {
            chunk.extend_from_slice(&table::encode(&record));
            if chunk.len() == CHUNK_BYTES {
                let next = Vec::with_capacity(CHUNK_BYTES);
                goes_on = each(std::mem::replace(&mut chunk, next));
            }
            goes_on
        })?;
        if goes_on && !chunk.is_empty() {
            each(chunk);
        }
        Ok(())
    }
}

impl Dedup {
    /// Returns the tables if they have all indexed entries. Returns `None` if there is a backlog or
    /// a gap, or if the index must be rebuilt.
    pub(crate) fn sealed(&self) -> Option<Sealed> {
        // The anchor and the tables change together.
        let file = self.file.lock();
        let anchor = &file.noted.anchor;
        let is_whole =
            anchor.backlog.entries() == 0 && file.noted.gaps.is_empty() && !self.is_unsound();
        is_whole.then(|| Sealed {
            indexed: anchor.indexed,
            head: anchor.head,
            tables: self.tables.all(),
        })
    }

    /// Takes up a stream of `records` records, which has all entries below `indexed`, as one table.
    /// The entries leave the backlog. `next` returns the chunks of the stream, which must have the
    /// `wanted` identities. If a chunk is bad or an identity is missing, the index stays as it was.
    /// Must be called by the task that reads the backlog.
    ///
    /// # Errors
    /// If the table cannot be written.
    pub(crate) fn take_up_stream(
        &self,
        indexed: u64,
        records: u64,
        mut wanted: Vec<Identity>,
        next: impl FnMut() -> Result<Bytes, BadStream>,
    ) -> Result<Result<(), BadStream>, Fatal> {
        self.writable()?;
        wanted.sort_unstable();
        wanted.dedup();
        let stream = Stream {
            indexed,
            left: records,
            next,
            chunk: Bytes::new(),
            last: None,
            wanted: wanted.into_iter().peekable(),
        };
        let written = self.tables.write_stream(records, stream);
        let table = match written.map_err(|error| self.fatal(&error))? {
            Ok(table) => table,
            Err(bad) => return Ok(Err(bad)),
        };
        self.record(Some(table), |noted| noted.anchor.backlog.cut_below(indexed))?;
        self.pace.note(&self.backlog());
        Ok(Ok(()))
    }
}

/// Iterates over the records of a stream, and checks each record.
struct Stream<F> {
    indexed: u64,
    /// The number of records that were not read yet.
    left: u64,
    next: F,
    chunk: Bytes,
    last: Option<Identity>,
    /// The wanted identities that were not read yet, in ascending order.
    wanted: Peekable<IntoIter<Identity>>,
}

impl<F: FnMut() -> Result<Bytes, BadStream>> Stream<F> {
    fn record(&mut self) -> Result<Record, BadStream> {
        if self.chunk.is_empty() {
            self.chunk = (self.next)()?;
        }
        if self.chunk.len() < RECORD {
            return Err(BadStream::Truncated);
        }
        let (identity, place) = table::decode(&self.chunk.split_to(RECORD));
        if place.index >= self.indexed {
            return Err(BadStream::Beyond(place.index));
        }
        if self.last.is_some_and(|last| last >= identity) {
            return Err(BadStream::Order);
        }
        self.last = Some(identity);
        if self.wanted.peek().is_some_and(|next| *next < identity) {
            return Err(BadStream::Missing);
        }
        self.wanted.next_if_eq(&identity);
        Ok((identity, place))
    }
}

impl<F: FnMut() -> Result<Bytes, BadStream>> Iterator for Stream<F> {
    type Item = Result<Record, BadStream>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            // All records were read: a remaining wanted identity is missing.
            return self.wanted.next().map(|_| Err(BadStream::Missing));
        };
        self.left = left;
        Some(self.record())
    }
}
