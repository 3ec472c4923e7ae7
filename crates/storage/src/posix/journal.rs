//! The journal: rounds that are durable, but whose files may not be durable yet.
//!
//! The journal is a directory of segments (see [`segment`](super::segment)) with increasing
//! numbers. Records are only appended to the newest segment. [`Journal::open`] and
//! [`Journal::rotate`] start a new segment and never continue an old segment, so that no byte is
//! written after bytes of unknown state.
//!
//! A segment is filled with zeros and synced before its first record, and whenever it grows. A
//! record only overwrites blocks that are on the disk already. [`second_look`](super::second_look)
//! explains why.

mod contents;

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use self::contents::steadily;
use super::directory::is_same;
use super::second_look::{PastCache, still_writable};
use super::segment::{self, SEGMENT_HEADER, Salt, Segment, record_header, segment_header};
use crate::guards::Guard;
use crate::{AssetError, Stats};

/// Minimum length of a segment in bytes, zeroed and durable before a record overwrites it.
const FIRST_ROOM: u64 = 128 << 10;

/// Maximum number of zeros that are added to a segment, unless one record is longer. A shorter
/// segment doubles its length, so that few rounds wait for a second sync.
const MAX_ROOM: u64 = 2 << 20;

pub(super) struct Journal {
    directory: PathBuf,
    stats: Arc<Stats>,
    state: Mutex<State>,
}

enum State {
    /// The journal was not read yet.
    Closed,
    Open(Open),
    /// A write or sync failed, for this reason. The kernel may have dropped the unwritten bytes and
    /// marked them clean. A second sync would then succeed although the bytes are not on the disk,
    /// so no second sync is tried. [`Journal::open`] recovers and trusts only acknowledged records.
    Poisoned(String),
}

struct Open {
    active: Active,
    /// Segments before the active segment, oldest first: path and greatest `new_size`.
    older: Vec<SegmentSize>,
}

/// The segment that receives new records.
struct Active {
    number: u64,
    path: PathBuf,
    /// The file, positioned at `used`.
    file: File,
    /// The same file for reads past the page cache; `None` if direct reads are not supported.
    past_cache: Option<PastCache>,
    salt: Salt,
    /// Offset of the next record.
    used: u64,
    /// Length of the file, which has zeros from `used` on.
    room: u64,
    /// Greatest `new_size` in the segment; `None` while it has no record.
    newest: Option<u64>,
}

/// A prepared segment without records.
pub(super) struct Next(Active);

impl Next {
    /// Returns the file, for a sync file by file.
    pub(super) fn file(&self) -> &File {
        &self.0.file
    }
}

impl Journal {
    pub(super) fn new(directory: PathBuf, stats: Arc<Stats>) -> Self {
        Self {
            directory,
            stats,
            state: Mutex::new(State::Closed),
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads all segments and starts a new segment. Clears the poison, because all descriptors and
    /// the written file are new.
    pub(super) fn open(&self) -> Result<Vec<Bytes>, AssetError> {
        let mut state = self.state.lock();
        match self.read() {
            Ok((open, records)) => {
                *state = State::Open(open);
                Ok(records)
            }
            Err(error) => {
                *state = State::Poisoned(error.to_string());
                Err(error)
            }
        }
    }

    /// Appends a record: one write, one sync, and a second look at the disk. When the method
    /// returns, the record is durable.
    pub(super) fn append(&self, new_size: u64, record: &[u8]) -> Result<(), AssetError> {
        let mut state = self.state.lock();
        if let State::Closed = *state {
            *state = State::Open(self.read()?.0);
        }
        let open = self.opened(&mut state)?;
        let result = open.active.append(new_size, record, &self.stats);
        let (action, error) = match result {
            Ok(written) => {
                self.stats.appended(written);
                return Ok(());
            }
            Err(failure) => failure,
        };
        let error = AssetError::io(action, open.active.path.display().to_string(), error);
        *state = State::Poisoned(error.to_string());
        Err(error)
    }

    /// Creates the segment after the active segment without syncing; `None` if the active segment
    /// has no record yet.
    pub(super) fn prepare(&self) -> Result<Option<Next>, AssetError> {
        let number = match &*self.state.lock() {
            State::Open(open) if open.active.newest.is_some() => open.active.number + 1,
            State::Poisoned(reason) => return Err(self.poisoned(reason)),
            _ => return Ok(None),
        };
        // `sealed`: `rotate` uses this segment only if all appends to the segment before have
        // succeeded. If `rotate` never uses it, `read` removes it with its claim.
        let next = Active::create(&self.directory, number, true)?;
        Ok(Some(Next(next)))
    }

    /// Starts to append to `next`, whose header and directory entry must be durable.
    pub(super) fn rotate(&self, next: Next) -> Result<(), AssetError> {
        let mut state = self.state.lock();
        let open = self.opened(&mut state)?;
        let full = std::mem::replace(&mut open.active, next.0);
        // Older versions, which do not reserve room for records, treat zeros here as a tear. The
        // truncation need not be durable.
        let _ = full.file.set_len(full.used);
        if let Some(newest) = full.newest {
            open.older.push((full.path, newest));
        }
        Ok(())
    }

    /// Removes the oldest segments without records beyond `size`. No segment is removed from the
    /// middle, because a segment that a recovery started states that the segment before it may be
    /// torn. The removals need not be durable: records that reappear are settled, and
    /// [`Assets::staged`](crate::Assets::staged) may return them.
    pub(super) fn drop_settled(&self, size: u64) -> Result<(), AssetError> {
        let mut state = self.state.lock();
        let State::Open(open) = &mut *state else {
            return Ok(());
        };
        let older = open.older.iter();
        let settled = older.take_while(|(_, newest)| *newest <= size).count();
        let settled: Vec<_> = open.older.drain(..settled).collect();
        drop(state);
        for (path, _) in settled {
            remove(&path)?;
        }
        Ok(())
    }

    /// Fails if the file system no longer accepts writes, even if its last sync succeeded.
    pub(super) fn still_writable(&self) -> Result<(), AssetError> {
        match &*self.state.lock() {
            State::Open(Open { active, .. }) => still_writable(&active.file)
                .map_err(|e| AssetError::io("write", active.path.display().to_string(), e)),
            State::Closed | State::Poisoned(_) => Ok(()),
        }
    }

    /// Refuses all further work until [`open`](Self::open).
    pub(super) fn poison(&self, reason: String) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Poisoned(_)) {
            *state = State::Poisoned(reason);
        }
    }

    fn opened<'s>(&self, state: &'s mut State) -> Result<&'s mut Open, AssetError> {
        match state {
            State::Open(open) => Ok(open),
            State::Poisoned(reason) => Err(self.poisoned(reason)),
            State::Closed => Err(self.poisoned("the journal has not been read yet")),
        }
    }

    fn poisoned(&self, reason: &str) -> AssetError {
        AssetError::Poisoned {
            location: self.directory.display().to_string(),
            reason: reason.to_owned(),
        }
    }

    fn read(&self) -> Result<(Open, Vec<Bytes>), AssetError> {
        let mut files = self.segments()?;
        while let Some(unused) = files.pop_if(SegmentFile::never_used) {
            remove(&unused.path)?;
        }
        let number = files.last().map_or(1, |file| file.number + 1);
        let (older, records) = whole(&files)?;
        // Not `sealed`: after a failed sync, the last record of the previous segment may be
        // complete only in the page cache.
        let active = Active::create(&self.directory, number, false)?;
        self.sync("sync", &active.path, &active.file)?;
        self.sync("sync", &self.directory, &open_directory(&self.directory)?)?;
        Ok((Open { active, older }, records))
    }

    /// Returns the records of [`open`](Self::open) without changing a file.
    pub(super) fn look(&self) -> Result<Vec<Bytes>, AssetError> {
        if !self.directory.exists() {
            return Ok(Vec::new());
        }
        steadily(|| {
            let mut files = self.segments()?;
            while files.pop_if(SegmentFile::never_used).is_some() {}
            Ok(whole(&files)?.1)
        })
    }

    /// Returns all segments, oldest first.
    pub(super) fn segments(&self) -> Result<Vec<SegmentFile>, AssetError> {
        let failed = |e| AssetError::io("list", self.directory.display().to_string(), e);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Some(number) = number(&path) {
                files.push((number, path));
            }
        }
        files.sort_unstable();
        let mut segments = Vec::new();
        for (number, path) in files {
            let failed = |e| AssetError::io("read", path.display().to_string(), e);
            let bytes = segment::read(&path).map_err(failed)?;
            segments.push(SegmentFile {
                number,
                path,
                bytes,
            });
        }
        Ok(segments)
    }

    fn sync(&self, action: &'static str, path: &Path, file: &File) -> Result<(), AssetError> {
        self.stats.synced();
        file.sync_all()
            .map_err(|e| AssetError::io(action, path.display().to_string(), e))
    }
}

/// A segment as it is on the disk.
pub(super) struct SegmentFile {
    number: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
}

/// Path of a segment, and the greatest `new_size` in it.
type SegmentSize = (PathBuf, u64);

/// Returns the size of each segment, and all complete records.
fn whole(files: &[SegmentFile]) -> Result<(Vec<SegmentSize>, Vec<Bytes>), AssetError> {
    let mut sizes = Vec::new();
    let mut records = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let segment = file.parse()?;
        if let Some(torn) = &segment.torn {
            file.allow_tear(torn, files.get(at + 1))?;
        }
        let newest = segment.records.iter().map(|(size, _)| *size).max();
        sizes.push((file.path.clone(), newest.unwrap_or(0)));
        records.extend(segment.records.into_iter().map(|(_, record)| record));
    }
    Ok((sizes, records))
}

impl SegmentFile {
    /// Returns `true` if no record was ever appended to the segment. `&mut`, because `pop_if`
    /// requires it.
    pub(super) fn never_used(&mut self) -> bool {
        Segment::never_used(&self.bytes)
    }

    fn parse(&self) -> Result<Segment, AssetError> {
        Segment::parse(&self.bytes).map_err(|damage| self.damaged(damage.offset, damage.detail))
    }

    /// Accepts a tear that a crash can explain: this segment was the last one at the crash. Then no
    /// segment follows, or a recovery started the next segment.
    fn allow_tear(
        &self,
        torn: &Range<usize>,
        next: Option<&SegmentFile>,
    ) -> Result<(), AssetError> {
        if let Some(next) = next
            && next.parse()?.sealed
        {
            return Err(self.torn(torn.start));
        }
        tracing::warn!(
            file = %self.path.display(),
            offset = torn.start,
            bytes = torn.len(),
            "dropped the unfinished end of the journal: it was never acknowledged"
        );
        Ok(())
    }

    /// Returns `true` if the next segment states that this segment was complete.
    pub(super) fn must_be_whole(&self, next: Option<&SegmentFile>) -> bool {
        let next = next.and_then(|next| next.parse().ok());
        next.is_some_and(|next| next.sealed)
    }

    pub(super) fn torn(&self, offset: usize) -> AssetError {
        self.damaged(offset, "a complete record was damaged later")
    }

    pub(super) fn damaged(&self, offset: usize, detail: &'static str) -> AssetError {
        AssetError::Damaged {
            file: self.path.display().to_string(),
            offset: offset as u64,
            detail,
        }
    }
}

impl Active {
    /// Creates a new segment. The caller syncs it.
    fn create(directory: &Path, number: u64, sealed: bool) -> Result<Self, AssetError> {
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
    fn append(
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
        if Guard::Sync.stands() {
            stats.synced();
            self.file.sync_data().map_err(|e| ("sync", e))?;
            self.look_again([&header, record])
                .map_err(|e| ("verify", e))?;
        }
        self.used += length;
        self.newest = self.newest.max(Some(new_size));
        Ok(length)
    }

    /// Makes the file at least `length` bytes longer, durably.
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

    /// Fails if the path no longer leads to the open file: a start would not find its records.
    fn still_named(&self) -> io::Result<()> {
        match is_same(&self.path, &self.file) {
            Ok(true) => Ok(()),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Err(io::Error::other(
                "the file was removed or replaced while the log used it. Nothing was signed; find \
                 the program that changes files in this directory",
            )),
        }
    }

    /// Fails if the disk observably lacks bytes that a sync reported as durable. In this case,
    /// nothing may be signed.
    fn look_again(&mut self, written: [&[u8]; 2]) -> io::Result<()> {
        still_writable(&self.file)?;
        self.still_named()?;
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

fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    (name.len() == 16).then_some(name)?.parse().ok()
}

fn remove(path: &Path) -> Result<(), AssetError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|e| AssetError::io("remove", path.display().to_string(), e)),
    }
}

pub(super) fn open_directory(path: &Path) -> Result<File, AssetError> {
    File::open(path).map_err(|e| AssetError::io("open", path.display().to_string(), e))
}
