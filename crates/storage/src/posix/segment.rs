//! The format of a journal segment, and its recovery after a crash.
//!
//! A segment is a header followed by records, each in a frame. All numbers are little-endian.
//!
//! ```text
//! segment   magic 8 | salt 16 | sealed 1 | zero 7 | XXH3-64 of these 32 | records | zeros
//! record    salt 16 | new_size 8 | length 8 | XXH3-128 of the record 16 |
//!           XXH3-64 of these 48 | the record
//! ```
//!
//! Why zeros: a record overwrites blocks that the file system already has on the disk. Its sync
//! then depends on no change to the structures of the file system (`active.rs`).
//!
//! Why XXH3: the sums must detect a tear or a flipped bit, on megabytes per second during a round.
//! The sums need not resist an attacker: a process that can write the journal can write the whole
//! log, and a record is accepted only if the resulting tree has the root that was signed according
//! to the lock.
//!
//! Why a salt: submitters choose some of the bytes in a record. After damage, [`Segment::parse`]
//! searches for a later record. The salt is random and never leaves the journal, so that a
//! submitter cannot forge a record.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::file;

const MAGIC: &[u8; 8] = b"LUCJRNL1";
pub(super) const SEGMENT_HEADER: usize = 40;
pub(super) const RECORD_HEADER: usize = 56;

/// Maximum number of bytes after the last complete record: an unfinished record, and room of the
/// same length.
const MAX_AFTER: u64 = 2 * file::OTHER_BYTES;

/// Random bytes, equal in all frames of a segment and different in each segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Salt([u8; 16]);

impl Salt {
    /// Creates a salt from the standard library's hash keys, which come from the system's random
    /// generator. Submitters cannot predict these keys.
    pub(super) fn random() -> Self {
        let half = || RandomState::new().hash_one(0).to_le_bytes();
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&half());
        salt[8..].copy_from_slice(&half());
        Self(salt)
    }
}

/// Returns the header of a segment. `sealed` states that every append to the previous segment had
/// succeeded, so that the previous segment must be complete.
pub(super) fn segment_header(salt: Salt, sealed: bool) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..24].copy_from_slice(&salt.0);
    header[24] = u8::from(sealed);
    let sum = xxh3_64(&header[..32]);
    header[32..].copy_from_slice(&sum.to_le_bytes());
    header
}

pub(super) fn record_header(salt: Salt, new_size: u64, record: &[u8]) -> [u8; RECORD_HEADER] {
    let mut header = [0; RECORD_HEADER];
    header[..16].copy_from_slice(&salt.0);
    header[16..24].copy_from_slice(&new_size.to_le_bytes());
    header[24..32].copy_from_slice(&(record.len() as u64).to_le_bytes());
    header[32..48].copy_from_slice(&xxh3_128(record).to_le_bytes());
    let sum = xxh3_64(&header[..48]);
    header[48..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// A parsed segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// `new_size` and bytes of each complete record, in order.
    pub(super) records: Vec<(u64, Bytes)>,
    /// The byte range of an unfinished record; `None` if all records are complete.
    pub(super) torn: Option<Range<usize>>,
    /// See [`segment_header`].
    pub(super) sealed: bool,
}

/// Damage that no crash explains.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) offset: usize,
    pub(super) detail: &'static str,
}

impl Segment {
    /// Parses a segment that may end in an unfinished record.
    ///
    /// Only the last record can be unfinished: an append begins after the sync of the previous
    /// record has succeeded, and no append follows a failed append. A record that does not match
    /// its sums is therefore a tear if it is the last record, and damage if another record follows.
    /// Zeros mean that no record was started.
    pub(super) fn parse(file: &Bytes) -> Result<Self, Damage> {
        let (salt, sealed) = parse_segment_header(file).ok_or(Damage {
            offset: 0,
            detail: "not the header of a journal segment",
        })?;
        let mut segment = Self {
            records: Vec::new(),
            torn: None,
            sealed,
        };
        let mut offset = SEGMENT_HEADER;
        let written = written(file);
        while offset < written {
            match parse_record(salt, &file[offset..], written - offset) {
                Record::Whole { new_size, length } => {
                    let start = offset + RECORD_HEADER;
                    offset = start + length;
                    segment.records.push((new_size, file.slice(start..offset)));
                }
                Record::Last => {
                    segment.torn = Some(offset..written);
                    break;
                }
                Record::Damaged(detail) => return Err(Damage { offset, detail }),
            }
        }
        Ok(segment)
    }

    /// Returns offset, `new_size` and bytes of each complete record of a segment that may be
    /// damaged anywhere. The salt identifies the next record after a damaged record.
    pub(super) fn around_damage(file: &Bytes) -> Vec<(usize, u64, Bytes)> {
        let Some((salt, _)) = parse_segment_header(file) else {
            return Vec::new();
        };
        let (mut records, mut offset, written) = (Vec::new(), SEGMENT_HEADER, written(file));
        while offset < written {
            let next = match parse_record(salt, &file[offset..], written - offset) {
                Record::Whole { new_size, length } => {
                    let start = offset + RECORD_HEADER;
                    let record = file.slice(start..start + length);
                    records.push((offset, new_size, record));
                    Some(start + length)
                }
                Record::Last => None,
                Record::Damaged(_) => (offset + 1..written)
                    .find(|at| parse_record_header(salt, &file[*at..]).is_some()),
            };
            let Some(next) = next else {
                break;
            };
            offset = next;
        }
        records
    }

    /// Returns the offset after the last complete record.
    pub(super) fn end(&self) -> usize {
        let lengths = self
            .records
            .iter()
            .map(|(_, record)| RECORD_HEADER + record.len());
        SEGMENT_HEADER + lengths.sum::<usize>()
    }

    /// Returns `true` for a file that never received a record: records follow only after the header
    /// is durable.
    pub(super) fn never_used(file: &[u8]) -> bool {
        written(file) <= SEGMENT_HEADER
    }
}

/// Reads a segment from its file. The length is bounded by its records, one unfinished record and
/// the room for more.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a longer file, and for anything that is not a file.
pub(super) fn read(path: &Path) -> io::Result<Bytes> {
    let mut file = file::open(path)?;
    let max = if file.metadata()?.is_file() {
        records_end(&file)?.saturating_add(MAX_AFTER)
    } else {
        0
    };
    file::read_bounded(&mut file, max)
}

/// Returns the offset after the last record: the first bytes that are not the header of a record.
fn records_end(file: &File) -> io::Result<u64> {
    let mut header = [0; SEGMENT_HEADER];
    if !read_at(file, &mut header, 0)? {
        return Ok(0);
    }
    let Some((salt, _)) = parse_segment_header(&header) else {
        return Ok(0);
    };
    let (mut end, mut header) = (SEGMENT_HEADER as u64, [0; RECORD_HEADER]);
    while read_at(file, &mut header, end)? {
        let Some((_, length, _)) = parse_record_header(salt, &header) else {
            break;
        };
        end = end.saturating_add(length.saturating_add(RECORD_HEADER as u64));
    }
    Ok(end)
}

/// Fills `bytes` from the offset `at` of a file. Returns `false` if the file is too short.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// Returns the length of a segment without the zeros at its end.
fn written(file: &[u8]) -> usize {
    let last = file.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}

fn parse_segment_header(file: &[u8]) -> Option<(Salt, bool)> {
    let header = file.first_chunk::<SEGMENT_HEADER>()?;
    let salt = Salt(*header[8..].first_chunk()?);
    let sealed = header[24] == 1;
    (*header == segment_header(salt, sealed)).then_some((salt, sealed))
}

enum Record {
    Whole { new_size: u64, length: usize },
    Last,
    Damaged(&'static str),
}

/// Parses the record at the start of `rest`, the remainder of the segment. Only the first `written`
/// bytes of `rest` were written.
fn parse_record(salt: Salt, rest: &[u8], written: usize) -> Record {
    let Some((new_size, length, sum)) = parse_record_header(salt, rest) else {
        return if (1..written).any(|at| parse_record_header(salt, &rest[at..]).is_some()) {
            Record::Damaged("a record's header does not match its checksum")
        } else {
            Record::Last
        };
    };
    let body = &rest[RECORD_HEADER..];
    match usize::try_from(length) {
        Ok(length) if length <= body.len() && xxh3_128(&body[..length]) == sum => {
            Record::Whole { new_size, length }
        }
        Ok(length) if length < written.saturating_sub(RECORD_HEADER) => {
            Record::Damaged("a record does not match its checksum")
        }
        _ => Record::Last,
    }
}

/// Returns `new_size`, length and sum.
fn parse_record_header(salt: Salt, rest: &[u8]) -> Option<(u64, u64, u128)> {
    let header = rest.first_chunk::<RECORD_HEADER>()?;
    if header[..16] != salt.0 {
        return None;
    }
    let sum = u64::from_le_bytes(*header[48..].first_chunk()?);
    if sum != xxh3_64(&header[..48]) {
        return None;
    }
    let new_size = u64::from_le_bytes(*header[16..].first_chunk()?);
    let length = u64::from_le_bytes(*header[24..].first_chunk()?);
    let sum = u128::from_le_bytes(*header[32..].first_chunk()?);
    Some((new_size, length, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a segment of three records, and the offset of each.
    fn sample() -> (Vec<u8>, Vec<usize>) {
        let salt = Salt(*b"a salt for tests");
        let mut file = segment_header(salt, true).to_vec();
        let mut starts = Vec::new();
        for (new_size, record) in [(3, &b"one"[..]), (5, b""), (90, b"the third record")] {
            starts.push(file.len());
            file.extend_from_slice(&record_header(salt, new_size, record));
            file.extend_from_slice(record);
        }
        (file, starts)
    }

    fn parse(file: &[u8]) -> Result<Segment, Damage> {
        Segment::parse(&Bytes::copy_from_slice(file))
    }

    #[test]
    fn a_segment_is_no_longer_than_its_records_allow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let (file, _) = sample();
        std::fs::write(&path, with_room(&file)).unwrap();
        assert_eq!(read(&path).unwrap(), with_room(&file));
        let sparse = File::options().write(true).open(&path).unwrap();
        sparse.set_len(file.len() as u64 + MAX_AFTER + 1).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("expected at most"), "{error}");

        std::fs::remove_file(&path).unwrap();
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert_eq!(error, "is a FIFO; expected a file");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert_eq!(error, "is a device; expected a file");
    }

    fn torn_at(segment: &Segment) -> Option<usize> {
        segment.torn.as_ref().map(|torn| torn.start)
    }

    /// Returns the segment with room for more records.
    fn with_room(file: &[u8]) -> Vec<u8> {
        [file, &[0; 300]].concat()
    }

    #[test]
    fn a_segment_reads_back() {
        let (file, _) = sample();
        let segment = parse(&file).unwrap();
        let sizes: Vec<u64> = segment.records.iter().map(|(size, _)| *size).collect();
        assert_eq!(sizes, [3, 5, 90]);
        assert_eq!(segment.records[2].1, "the third record");
        assert_eq!(segment.torn, None);
        assert!(segment.sealed);
    }

    #[test]
    fn a_tail_torn_anywhere_is_dropped() {
        let (file, starts) = sample();
        for length in SEGMENT_HEADER..file.len() {
            let segment = parse(&file[..length]).unwrap();
            let ends = &starts[1..];
            let whole = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(segment.records.len(), whole, "length {length}");
            let start = starts[whole];
            assert_eq!(torn_at(&segment), (start < length).then_some(start));
        }
    }

    /// A record overwrites zeros: any part of it may be on the disk when the power fails.
    #[test]
    fn a_record_that_is_partly_zeros_is_dropped() {
        let (file, starts) = sample();
        for from in starts[2]..file.len() - 1 {
            for file in [&file, &with_room(&file)] {
                let mut zeroed = file.clone();
                zeroed[from..].fill(0);
                let segment = parse(&zeroed).unwrap();
                assert_eq!(segment.records.len(), 2);
                let torn = (from > starts[2]).then_some(starts[2]);
                assert_eq!(torn_at(&segment), torn, "zeros from {from}");
            }
        }
        let mut reordered = with_room(&file);
        reordered[starts[2]..starts[2] + RECORD_HEADER].fill(0);
        let segment = parse(&reordered).unwrap();
        assert_eq!(segment.torn, Some(starts[2]..file.len()));
    }

    #[test]
    fn room_for_more_records_is_no_tear() {
        let (file, _) = sample();
        let segment = parse(&with_room(&file)).unwrap();
        assert_eq!((segment.records.len(), segment.torn), (3, None));
        assert!(!Segment::never_used(&with_room(&file)));
        let unused = with_room(&file[..SEGMENT_HEADER]);
        assert!(Segment::never_used(&unused));
        assert_eq!(parse(&unused).unwrap().torn, None);
    }

    /// The end of a record may consist of zeros, too.
    #[test]
    fn a_record_that_ends_with_zeros_is_whole() {
        let salt = Salt::random();
        let mut file = segment_header(salt, false).to_vec();
        for (new_size, record) in [(3, &b"one\0\0"[..]), (5, &b"\0\0\0"[..])] {
            file.extend_from_slice(&record_header(salt, new_size, record));
            file.extend_from_slice(record);
        }
        for file in [file.clone(), with_room(&file)] {
            let segment = parse(&file).unwrap();
            assert_eq!((segment.records.len(), segment.torn), (2, None));
        }
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        let (file, starts) = sample();
        for bit in 0..file.len() * 8 {
            for file in [&file, &with_room(&file)] {
                let mut flipped = file.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let at = bit / 8;
                match parse(&flipped) {
                    Err(damage) => {
                        let hit = [0].iter().chain(&starts).rev().find(|start| **start <= at);
                        assert_eq!(damage.offset, *hit.unwrap());
                        assert!(at < starts[2], "the last record is torn, not damaged");
                    }
                    Ok(segment) => {
                        assert!(at >= starts[2], "bit {bit} was missed");
                        assert_eq!(torn_at(&segment), Some(starts[2]));
                    }
                }
            }
        }
    }

    #[test]
    fn the_records_around_a_damaged_record_are_found() {
        let (file, starts) = sample();
        for (damaged, sizes) in [
            (starts[0], &[5, 90][..]),
            (starts[0] + RECORD_HEADER, &[5, 90]),
            (starts[1] + 20, &[3, 90]),
            (starts[2] + RECORD_HEADER, &[3, 5]),
            (10, &[]),
        ] {
            let mut file = file.clone();
            file[damaged] ^= 1;
            let found = Segment::around_damage(&Bytes::from(file));
            let found: Vec<u64> = found.iter().map(|(_, size, _)| *size).collect();
            assert_eq!(found, sizes, "byte {damaged}");
        }
        let segment = parse(&file).unwrap();
        assert_eq!(segment.end(), file.len());
    }

    /// Shows the attack that the salt prevents: a submitter's record that contains a whole segment.
    #[test]
    fn a_record_that_looks_like_a_journal_changes_nothing() {
        let (inside, _) = sample();
        let salt = Salt::random();
        let mut file = segment_header(salt, false).to_vec();
        file.extend_from_slice(&record_header(salt, 7, &inside));
        file.extend_from_slice(&inside);
        file[SEGMENT_HEADER + 20] ^= 1;
        assert_eq!(torn_at(&parse(&file).unwrap()), Some(SEGMENT_HEADER));
    }
}
