//! The journal: rounds that are durable but perhaps not yet published durably.
//!
//! It is a directory of segments (see [`segment`](super::segment)), numbered
//! without end. Only the newest is ever appended to; [`Journal::open`] and
//! [`Journal::rotate`] begin a new one, never continue an old one, so that no
//! byte is ever written behind one of doubtful state.
//!
//! A segment is zeroed and synced before its first record, and grows so: a record changes
//! nothing but bytes of blocks that the disk has already. Why, see
//! [`second_look`](super::second_look).

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
use super::second_look::{PastCache, still_writable};
use super::segment::{self, SEGMENT_HEADER, Salt, Segment, record_header, segment_header};
use crate::guards::Guard;
use crate::{AssetError, Stats};

/// A segment has at least this many bytes, zeroed and durable before a record overwrites them.
const FIRST_ROOM: u64 = 128 << 10;

/// The most zeros by which a segment grows at once, unless one record is longer. Until then
/// its length doubles, so that few rounds wait for a second sync.
const MOST_ROOM: u64 = 2 << 20;

pub(super) struct Journal {
    directory: PathBuf,
    stats: Arc<Stats>,
    state: Mutex<State>,
}

enum State {
    /// Not read yet.
    Closed,
    Open(Open),
    /// A write or sync failed, for this reason. The kernel may have dropped
    /// the bytes it could not write and call them clean: a second sync would
    /// then report success for what is not on the disk. So there is none; the
    /// way on is [`Journal::open`], which trusts nothing that was not
    /// acknowledged.
    Poisoned(String),
}

struct Open {
    active: Active,
    /// Segments before the active one, oldest first: file and the greatest
    /// `new_size` in it.
    older: Vec<SegmentSize>,
}

/// The segment that is appended to.
struct Active {
    number: u64,
    path: PathBuf,
    /// At `used`.
    file: File,
    /// The same file, as the disk has it; `None` if that cannot be seen.
    past_cache: Option<PastCache>,
    salt: Salt,
    /// The place of the next record.
    used: u64,
    /// The length of the file: zeros from `used` on.
    room: u64,
    /// Greatest `new_size` in it, `None` while it has no record.
    newest: Option<u64>,
}

/// A segment that exists but is not appended to yet.
pub(super) struct Next(Active);

impl Next {
    /// The file, for who syncs file by file.
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

    /// Reads all segments and begins a new one. Clears the poison: descriptors
    /// are new, and so is the file that is written from now on.
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

    /// One write, one sync, and a second look at the disk. When it returns, the record is
    /// durable.
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

    /// Makes the segment that is to follow the active one, without syncing
    /// anything; `None` if the active one has no record yet.
    pub(super) fn prepare(&self) -> Result<Option<Next>, AssetError> {
        let number = match &*self.state.lock() {
            State::Open(open) if open.active.newest.is_some() => open.active.number + 1,
            State::Poisoned(reason) => return Err(self.poisoned(reason)),
            _ => return Ok(None),
        };
        // `sealed`: `rotate` takes this segment into use only if all appends
        // to the one before have succeeded. Should it never be taken into use,
        // `read` removes it, and its word with it.
        let next = Active::create(&self.directory, number, true)?;
        Ok(Some(Next(next)))
    }

    /// Appends to `next` from now on. Its header and its directory entry must
    /// be durable.
    pub(super) fn rotate(&self, next: Next) -> Result<(), AssetError> {
        let mut state = self.state.lock();
        let open = self.opened(&mut state)?;
        let full = std::mem::replace(&mut open.active, next.0);
        // Versions that know no room for records take zeros here for a tear. That it was cut off
        // need not be durable.
        let _ = full.file.set_len(full.used);
        if let Some(newest) = full.newest {
            open.older.push((full.path, newest));
        }
        Ok(())
    }

    /// Removes the oldest segments, as far as they hold nothing beyond `size`.
    /// None is taken out of the middle: one that a recovery began says that
    /// the one before it may be torn. That they are gone need not be durable:
    /// records that come back are settled ones, which
    /// [`Assets::staged`](crate::Assets::staged) may return.
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

    /// Fails if the file system takes no writes any more, whatever its last sync reported.
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
            State::Closed => Err(self.poisoned("the journal was not read yet")),
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
        // Not `sealed`: the last record of the segment before may be whole in
        // the page cache only, after a sync that failed.
        let active = Active::create(&self.directory, number, false)?;
        self.sync("sync", &active.path, &active.file)?;
        self.sync("sync", &self.directory, &open_directory(&self.directory)?)?;
        Ok((Open { active, older }, records))
    }

    /// Returns what [`open`](Self::open) would return, without touching a file.
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

    /// All segments, oldest first.
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

/// A segment as it lies on the disk.
pub(super) struct SegmentFile {
    number: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
}

/// A segment, and the greatest `new_size` in it.
type SegmentSize = (PathBuf, u64);

/// Each segment with its size, and all whole records.
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
    /// Returns whether no record was ever appended to it. (`&mut`, as `pop_if` has it.)
    pub(super) fn never_used(&mut self) -> bool {
        Segment::never_used(&self.bytes)
    }

    fn parse(&self) -> Result<Segment, AssetError> {
        Segment::parse(&self.bytes).map_err(|damage| self.damaged(damage.offset, damage.detail))
    }

    /// A tear is what a crash left if this was the last segment then, that is,
    /// if there is none after it or the one after it was begun by a recovery.
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

    /// Returns whether the segment after it says that it was whole.
    pub(super) fn must_be_whole(&self, next: Option<&SegmentFile>) -> bool {
        let next = next.and_then(|next| next.parse().ok());
        next.is_some_and(|next| next.sealed)
    }

    pub(super) fn torn(&self, offset: usize) -> AssetError {
        self.damaged(offset, "a record that was whole is not any more")
    }

    pub(super) fn damaged(&self, offset: usize, detail: &str) -> AssetError {
        AssetError::Damaged {
            file: self.path.display().to_string(),
            offset: offset as u64,
            detail: detail.to_owned(),
        }
    }
}

impl Active {
    /// A new segment, synced by the caller.
    fn create(directory: &Path, number: u64, sealed: bool) -> Result<Self, AssetError> {
        let path = directory.join(format!("{number:016}"));
        let salt = Salt::random();
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options
            .open(&path)
            .map_err(|e| AssetError::io("begin", path.display().to_string(), e))?;
        let used = SEGMENT_HEADER as u64;
        let begun = file
            .write_all(&segment_header(salt, sealed))
            .and_then(|()| write_zeros(&mut file, FIRST_ROOM - used))
            .and_then(|()| file.seek(SeekFrom::Start(used)));
        if let Err(e) = begun {
            // Nothing is in it: on a full disk its zeros are better gone.
            let _ = remove(&path);
            return Err(AssetError::io("begin", path.display().to_string(), e));
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

    /// Returns the number of bytes written, or what failed.
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

    /// Makes durable room for `length` bytes more.
    fn grow(&mut self, length: u64) -> io::Result<()> {
        let more = self
            .room
            .min(MOST_ROOM)
            .max(length.next_multiple_of(FIRST_ROOM));
        self.file.seek(SeekFrom::Start(self.room))?;
        if let Err(e) = write_zeros(&mut self.file, more) {
            // A full disk has better use for them.
            let _ = self.file.set_len(self.room);
            return Err(e);
        }
        self.file.sync_all()?;
        self.file.seek(SeekFrom::Start(self.used))?;
        self.room += more;
        Ok(())
    }

    /// Fails if the disk does not have what a sync has reported as durable, as far as that can
    /// be seen. Nothing may be signed then.
    fn look_again(&mut self, written: [&[u8]; 2]) -> io::Result<()> {
        still_writable(&self.file)?;
        let Some(past_cache) = &mut self.past_cache else {
            return Ok(());
        };
        match past_cache.has(self.used, written)? {
            Some(true) => Ok(()),
            Some(false) => Err(io::Error::other(
                "the sync reported success, but the disk does not have what was written. Nothing \
                 was signed; check the disk",
            )),
            None => {
                self.past_cache = None;
                Ok(())
            }
        }
    }
}

/// One `writev` in all normal cases. The system may write less, most likely
/// because the disk is full; the rest then says why.
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
