//! The segment that receives new records, and the check that the disk has them.
//!
//! ext4 converts freshly written blocks after the sync that the program waits for, in its own
//! journal. If that journal is aborted at this moment, the sync succeeds, but the file has zeros
//! after the next mount. The journal of rounds therefore only overwrites blocks that were written
//! and synced before. Each round is also read back from the disk before it is signed.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, fstatvfs};

use super::directory::is_same;
use super::journal::remove;
use super::segment::{self, SEGMENT_HEADER, Salt, Segment, record_header, segment_header};
use crate::{AssetError, Stats};

/// Minimum length of a segment in bytes, zeroed and durable before a record overwrites it.
const FIRST_ROOM: u64 = 128 << 10;

/// Maximum number of zeros that are added to a segment, unless one record is longer. A shorter
/// segment doubles its length, so that few rounds wait for a second sync.
const MAX_ROOM: u64 = 2 << 20;

/// Offset, length and address of a direct read must be multiples of this. No Linux file system on a
/// disk requires more.
const ALIGNMENT: usize = 4096;

/// Maximum number of bytes per read.
const PIECE: usize = 128 << 10;

/// The segment that receives new records.
pub(super) struct Active {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// The file, positioned at `used`.
    pub(super) file: File,
    /// The same file for reads past the page cache; `None` if direct reads are not supported.
    past_cache: Option<PastCache>,
    salt: Salt,
    /// Offset of the next record.
    pub(super) used: u64,
    /// Length of the file, which has zeros from `used` on.
    room: u64,
    /// Greatest `new_size` in the segment; `None` while it has no record.
    pub(super) newest: Option<u64>,
}

impl Active {
    /// Creates a new segment. The caller syncs it.
    pub(super) fn create(directory: &Path, number: u64, sealed: bool) -> Result<Self, AssetError> {
        let path = directory.join(format!("{number:016}"));
        let salt = Salt::random();
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options
            .open(&path)
            .map_err(|e| AssetError::io("create the segment", path.display().to_string(), e))?;
        let used = SEGMENT_HEADER as u64;
        let begun = file
            .write_all(&segment_header(salt, sealed))
            .and_then(|()| write_zeros(&mut file, FIRST_ROOM - used))
            .and_then(|()| file.seek(SeekFrom::Start(used)));
        if let Err(e) = begun {
            // The segment is empty: on a full disk its zeros only waste space.
            let _ = remove(&path);
            return Err(AssetError::io(
                "create the segment",
                path.display().to_string(),
                e,
            ));
        }
        Ok(Self {
            number,
            past_cache: PastCache::open(&path),
            path,
            file,
            salt,
            used,
            room: FIRST_ROOM,
            newest: None,
        })
    }

    /// Appends a record and returns the number of bytes written, or the failed operation.
    pub(super) fn append(
        &mut self,
        new_size: u64,
        record: &[u8],
        stats: &Stats,
    ) -> Result<u64, (&'static str, io::Error)> {
        let header = record_header(self.salt, new_size, record);
        let length = (header.len() + record.len()) as u64;
        if self.used + length > self.room {
            stats.synced();
            self.grow(length).map_err(|e| ("extend", e))?;
        }
        write_both(&mut self.file, &header, record).map_err(|e| ("append to", e))?;
        stats.synced();
        self.file.sync_data().map_err(|e| ("sync", e))?;
        self.look_again([&header, record])
            .map_err(|e| ("verify", e))?;
        self.used += length;
        self.newest = self.newest.max(Some(new_size));
        Ok(length)
    }

    /// Extends the file by at least `length` bytes, durably.
    fn grow(&mut self, length: u64) -> io::Result<()> {
        let more = self
            .room
            .min(MAX_ROOM)
            .max(length.next_multiple_of(FIRST_ROOM));
        self.file.seek(SeekFrom::Start(self.room))?;
        if let Err(e) = write_zeros(&mut self.file, more) {
            // Free the space of the zeros on a full disk.
            let _ = self.file.set_len(self.room);
            return Err(e);
        }
        self.file.sync_all()?;
        self.file.seek(SeekFrom::Start(self.used))?;
        self.room += more;
        Ok(())
    }

    /// Fails if the path no longer leads to the open file, or the file is shorter than this process
    /// has left it: a start would not find its records.
    fn still_whole(&self) -> io::Result<()> {
        let changed = match is_same(&self.path, &self.file) {
            Ok(true) if self.file.metadata()?.len() >= self.room => return Ok(()),
            Ok(true) => "truncated",
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => "removed or replaced",
        };
        Err(io::Error::other(format!(
            "the file was {changed} while the log used it. Nothing was signed; find the program \
             that changes files in this directory"
        )))
    }

    /// Compares the file with the records that this process has appended. Returns the damage.
    pub(super) fn damage(path: &Path, used: u64) -> Option<AssetError> {
        let damaged = |offset: usize, detail| AssetError::Damaged {
            file: path.display().to_string(),
            offset: offset as u64,
            detail,
        };
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        let bytes = match segment::read(path) {
            Ok(bytes) if bytes.len() < used => {
                return Some(damaged(bytes.len(), "the file is truncated"));
            }
            Ok(bytes) => bytes.slice(..used),
            Err(e) => return Some(AssetError::io("read", path.display().to_string(), e)),
        };
        let changed = "the file does not have the records that were written";
        match Segment::parse(&bytes) {
            Err(damage) => Some(damaged(damage.offset, damage.detail)),
            Ok(segment) => match segment.torn {
                Some(torn) => Some(damaged(torn.start, changed)),
                None if segment.end() < used => Some(damaged(segment.end(), changed)),
                None => None,
            },
        }
    }

    /// Fails if the disk observably lacks bytes that a sync reported as durable. In this case,
    /// nothing may be signed.
    fn look_again(&mut self, written: [&[u8]; 2]) -> io::Result<()> {
        still_writable(&self.file)?;
        self.still_whole()?;
        let Some(past_cache) = &mut self.past_cache else {
            return Ok(());
        };
        match past_cache.has(self.used, written)? {
            Some(true) => Ok(()),
            Some(false) => Err(io::Error::other(
                "the sync reported success, but the disk does not have the written bytes. Nothing \
                 was signed; check the disk",
            )),
            None => {
                self.past_cache = None;
                Ok(())
            }
        }
    }
}

/// Writes header and record, normally with one `writev`. The system may write less, most likely
/// because the disk is full; the write of the rest then returns the reason.
fn write_both(file: &mut File, header: &[u8], record: &[u8]) -> io::Result<()> {
    let written = loop {
        match file.write_vectored(&[IoSlice::new(header), IoSlice::new(record)]) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    file.write_all(header.get(written..).unwrap_or_default())?;
    file.write_all(&record[written.saturating_sub(header.len())..])
}

fn write_zeros(file: &mut File, mut count: u64) -> io::Result<()> {
    static ZEROS: [u8; FIRST_ROOM as usize] = [0; FIRST_ROOM as usize];
    while count > 0 {
        let piece = count.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..piece as usize])?;
        count -= piece;
    }
    Ok(())
}

/// Fails if the file system no longer accepts writes.
///
/// After an internal error, the kernel turns a file system read-only. From Linux 6.15 on, ext4 no
/// longer shows this in the flags of the mount, but refuses every write, including an empty write,
/// which changes nothing.
pub(super) fn still_writable(file: &File) -> io::Result<()> {
    let flags = fstatvfs(file)?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(ErrorKind::ReadOnlyFilesystem.into());
    }
    let mut file = file;
    file.write(&[]).map(drop)
}

/// A file that is read past the page cache.
struct PastCache {
    file: File,
    buffer: Vec<u8>,
}

impl PastCache {
    /// Opens the file; `None` if its file system does not support direct reads.
    fn open(path: &Path) -> Option<Self> {
        Some(Self {
            file: open_directly(path)?,
            buffer: vec![0; PIECE + ALIGNMENT],
        })
    }

    /// Returns `true` if the disk has these consecutive parts from `offset` on; `None` if the file
    /// system does not support direct reads.
    fn has(&mut self, offset: u64, parts: [&[u8]; 2]) -> io::Result<Option<bool>> {
        let second = offset + parts[0].len() as u64;
        let end = second + parts[1].len() as u64;
        let aligned = self.buffer.as_ptr().align_offset(ALIGNMENT);
        let piece = &mut self.buffer[aligned..][..PIECE];
        let mut at = offset - offset % ALIGNMENT as u64;
        while at < end {
            let rest = (end - at).next_multiple_of(ALIGNMENT as u64) as usize;
            let wanted = &mut piece[..rest.min(PIECE)];
            let read = match self.file.read_at(wanted, at) {
                Ok(read) => &wanted[..read],
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::InvalidInput => return Ok(None),
                Err(e) => return Err(e),
            };
            let agree = agrees(read, at, parts[0], offset) && agrees(read, at, parts[1], second);
            if read.is_empty() || !agree {
                return Ok(Some(false));
            }
            at += read.len() as u64;
        }
        Ok(Some(true))
    }
}

#[cfg(target_os = "linux")]
fn open_directly(path: &Path) -> Option<File> {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).custom_flags(direct).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_directly(_path: &Path) -> Option<File> {
    None
}

/// Returns `true` if the bytes `read` at `at` agree with a part that begins at `start` where both
/// overlap.
fn agrees(read: &[u8], at: u64, part: &[u8], start: u64) -> bool {
    let from = at.max(start);
    let to = (at + read.len() as u64).min(start + part.len() as u64);
    let within = |begin: u64| (from - begin) as usize..(to - begin) as usize;
    from >= to || read[within(at)] == part[within(start)]
}

#[cfg(test)]
mod tests {
    use lucarne_testkit::SmallDisk;

    use super::*;

    /// Linux shows the error in the mount's flags only before 6.15.
    #[test]
    fn an_ext4_that_has_met_an_error_is_not_writable() {
        let test = "an_ext4_that_has_met_an_error_is_not_writable";
        let Some(disk) = SmallDisk::ext4_inside(test, 8) else {
            return;
        };
        let mut file = File::create_new(disk.path().join("segment")).unwrap();
        file.write_all(b"before").unwrap();
        file.sync_all().unwrap();
        still_writable(&file).unwrap();
        disk.meet_error();
        let error = still_writable(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    }

    #[test]
    fn a_record_anywhere_is_compared_byte_for_byte() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("segment");
        let parts = [vec![1; 56], vec![2; 300_000]];
        for offset in [40, 4096, 130_000, 262_000] {
            let mut bytes = vec![0; offset];
            bytes.extend(parts.concat());
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT) + ALIGNMENT, 0);
            let has = |bytes: &[u8]| {
                std::fs::write(&path, bytes).unwrap();
                let mut past = PastCache::open(&path).expect("a disk with direct reads");
                past.has(offset as u64, [&parts[0], &parts[1]]).unwrap()
            };
            assert_eq!(has(&bytes), Some(true));
            let last = offset + 56 + 300_000 - 1;
            for at in [offset, offset + 55, offset + 56, last - 131_072, last] {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1;
                assert_eq!(has(&wrong), Some(false), "byte {at}, record at {offset}");
            }
            assert_eq!(has(&bytes[..last]), Some(false), "record at {offset}");
        }
    }
}
