//! The segment that receives new records.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::remove;
use crate::posix::directory::is_same;
use crate::posix::second_look::{PastCache, still_writable};
use crate::posix::segment::{self, SEGMENT_HEADER, Salt, Segment, record_header, segment_header};
use crate::{AssetError, Stats};

/// Minimum length of a segment in bytes, zeroed and durable before a record overwrites it.
const FIRST_ROOM: u64 = 128 << 10;

/// Maximum number of zeros that are added to a segment, unless one record is longer. A shorter
/// segment doubles its length, so that few rounds wait for a second sync.
const MAX_ROOM: u64 = 2 << 20;

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
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
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
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
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
