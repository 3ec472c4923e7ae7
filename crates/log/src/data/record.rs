//! The journal's record of one round, with all data to publish the round again.
//!
//! ```text
//! magic "lucarne round 1\n"   16 bytes
//! old size, new size           8 bytes each, big-endian
//! timestamp                    8 bytes, Unix milliseconds
//! old root, new root          32 bytes each
//! length of the entries        8 bytes
//! entries                      TileLeaf structures, as in the data tiles
//! issuers                      4-byte length and DER certificate, each
//! ```
//!
//! Records form a chain through their sizes and roots. After a crash, the checkpoint in the lock
//! decides which chain is part of the log. A record that starts at the tree of the lock was never
//! committed. A record that starts at a larger tree proves that the lock is stale (`recover.rs`).

use bytes::Bytes;
use lucarne_tlog::Hash;

use crate::error::RecordError;

const MAGIC: &[u8; 16] = b"lucarne round 1\n";
const HEADER: usize = 16 + 3 * 8 + 2 * 32 + 8;

/// The step from the tree before a round to the tree after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of entries before the round.
    pub old_size: u64,
    /// Number of entries after the round.
    pub new_size: u64,
    /// The timestamp of every entry of the round.
    pub timestamp_ms: u64,
    /// Root before the round.
    pub old_root: Hash,
    /// Root after the round.
    pub new_root: Hash,
}

/// A round as stored in the journal.
///
/// # Examples
///
/// ```
/// use lucarne_log::{Record, RecordError};
///
/// let outcome = Record::parse(vec![0; 200].into());
/// assert_eq!(outcome, Err(RecordError::Magic));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sizes and roots before and after the round, and its timestamp.
    pub step: Step,
    /// The entries, as concatenated `TileLeaf` structures.
    pub entries: Bytes,
    /// The issuers that the log had not stored before, DER.
    pub issuers: Vec<Bytes>,
}

/// Writes a record: entries first, then [`RecordWriter::finish`].
pub(crate) struct RecordWriter {
    bytes: Vec<u8>,
}

impl RecordWriter {
    /// Reserves `capacity` bytes for entries and issuers.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + capacity);
        bytes.resize(HEADER, 0);
        RecordWriter { bytes }
    }

    /// Returns the buffer to which the next entry is appended.
    pub(crate) fn entries(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the bytes of the entries so far.
    pub(crate) fn entries_len(&self) -> usize {
        self.bytes.len() - HEADER
    }

    /// Appends the issuers and fills in the header. Returns the record, and the part of the record
    /// with the entries.
    pub(crate) fn finish<'a>(
        mut self,
        step: &Step,
        issuers: impl Iterator<Item = &'a [u8]>,
    ) -> (Bytes, Bytes) {
        let entries_len = self.entries_len();
        for der in issuers {
            self.bytes
                .extend_from_slice(&(der.len() as u32).to_be_bytes());
            self.bytes.extend_from_slice(der);
        }
        let header = [
            MAGIC.as_slice(),
            &step.old_size.to_be_bytes(),
            &step.new_size.to_be_bytes(),
            &step.timestamp_ms.to_be_bytes(),
            &step.old_root.0,
            &step.new_root.0,
            &(entries_len as u64).to_be_bytes(),
        ]
        .concat();
        self.bytes[..HEADER].copy_from_slice(&header);
        let record = Bytes::from(self.bytes);
        let entries = record.slice(HEADER..HEADER + entries_len);
        (record, entries)
    }
}

impl Record {
    /// Parses a record; its parts share the buffer.
    ///
    /// # Errors
    /// If the bytes are not a complete record of this version.
    pub fn parse(mut bytes: Bytes) -> Result<Record, RecordError> {
        let mut header = take(&mut bytes, HEADER)?;
        if take(&mut header, MAGIC.len())? != MAGIC.as_slice() {
            return Err(RecordError::Magic);
        }
        let step = Step {
            old_size: take_u64(&mut header)?,
            new_size: take_u64(&mut header)?,
            timestamp_ms: take_u64(&mut header)?,
            old_root: take_hash(&mut header)?,
            new_root: take_hash(&mut header)?,
        };
        let entries_len =
            usize::try_from(take_u64(&mut header)?).map_err(|_| RecordError::Truncated)?;
        let entries = take(&mut bytes, entries_len)?;
        let mut issuers = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(array(&take(&mut bytes, 4)?)?);
            issuers.push(take(&mut bytes, length as usize)?);
        }
        Ok(Record {
            step,
            entries,
            issuers,
        })
    }
}

fn take(bytes: &mut Bytes, n: usize) -> Result<Bytes, RecordError> {
    if bytes.len() < n {
        return Err(RecordError::Truncated);
    }
    Ok(bytes.split_to(n))
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], RecordError> {
    bytes.try_into().map_err(|_| RecordError::Truncated)
}

fn take_u64(bytes: &mut Bytes) -> Result<u64, RecordError> {
    Ok(u64::from_be_bytes(array(&take(bytes, 8)?)?))
}

fn take_hash(bytes: &mut Bytes) -> Result<Hash, RecordError> {
    Ok(Hash(array(&take(bytes, 32)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> (Step, Bytes) {
        let step = Step {
            old_size: 7,
            new_size: 9,
            timestamp_ms: 1_700_000_000_000,
            old_root: Hash([1; 32]),
            new_root: Hash([2; 32]),
        };
        let mut writer = RecordWriter::with_capacity(16);
        writer.entries().extend_from_slice(b"two entries");
        let issuers = [b"one".as_slice(), b"another"];
        (step, writer.finish(&step, issuers.into_iter()).0)
    }

    #[test]
    fn what_is_written_is_read() {
        let (step, bytes) = record();
        let record = Record::parse(bytes).unwrap();
        assert_eq!(record.step, step);
        assert_eq!(record.entries, b"two entries".as_slice());
        assert_eq!(record.issuers, [b"one".as_slice(), b"another"]);
    }

    #[test]
    fn a_cut_record_is_refused_or_lacks_whole_issuers() {
        let (_, bytes) = record();
        for len in 0..bytes.len() {
            match Record::parse(bytes.slice(..len)) {
                Err(error) => assert_eq!(error, RecordError::Truncated),
                Ok(record) => assert!(record.issuers.len() < 2),
            }
        }
    }

    #[test]
    fn another_version_is_told() {
        let (_, bytes) = record();
        let mut other = bytes.to_vec();
        other[14] = b'2';
        assert_eq!(Record::parse(other.into()), Err(RecordError::Magic));
    }
}
