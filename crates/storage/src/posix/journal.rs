//! The journal: rounds that are durable, but whose files may not be durable yet.
//!
//! The journal is a directory of segments (see [`segment`](super::segment)) with increasing
//! numbers. Records are only appended to the newest segment ([`Active`]). [`Journal::open`] and
//! [`Journal::rotate`] start a new segment and never continue an old segment, so that no byte is
//! written after bytes of unknown state.
//!
//! A segment is filled with zeros and synced before its first record, and whenever it grows. A
//! record only overwrites blocks that are on the disk already. [`active`](super::active) gives the
//! reason.
//!
//! Other processes may inspect the journal at any time ([`Journal::contents`]).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::active::{Active, still_writable};
use super::repairs::set_aside;
use super::segment::{self, RECORD_HEADER, Segment};
use crate::{AssetError, JournalContents, StagedRecord, Stats, TornTail};

/// Number of attempts to read a journal that seems damaged or lacks a listed file. A concurrent
/// process that appends and truncates can cause both; real damage persists.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

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
    /// Segments before the active segment, oldest first.
    older: Vec<Older>,
}

/// A segment that receives no more records.
struct Older {
    path: PathBuf,
    /// Greatest `new_size` of its complete records.
    newest: u64,
    /// Whether the file is damaged. A damaged segment is kept as evidence.
    is_damaged: bool,
}

/// The treatment of damaged records by a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The recovery fails.
    Refused,
    /// The recovery gets the other records, and decides whether these are sufficient.
    Skipped,
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
    pub(super) fn open(&self, damage: Damage) -> Result<Vec<Bytes>, AssetError> {
        let mut state = self.state.lock();
        match self.read(damage) {
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
            *state = State::Open(self.read(Damage::Refused)?.0);
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

    /// Starts to append to `next`, whose header and directory entry must be durable. A segment that
    /// `is_damaged` is kept after its rounds are settled.
    pub(super) fn rotate(&self, next: Next, is_damaged: bool) -> Result<(), AssetError> {
        let mut state = self.state.lock();
        let open = self.opened(&mut state)?;
        let full = std::mem::replace(&mut open.active, next.0);
        // Older versions, which do not reserve room for records, treat zeros here as a tear. The
        // truncation need not be durable.
        let _ = full.file.set_len(full.used);
        if let Some(newest) = full.newest {
            open.older.push(Older {
                path: full.path,
                newest,
                is_damaged,
            });
        }
        Ok(())
    }

    /// Compares the active segment with the records that this process has appended. Returns the
    /// damage.
    pub(super) fn damage(&self) -> Option<AssetError> {
        let (path, used) = match &*self.state.lock() {
            State::Open(Open { active, .. }) => (active.path.clone(), active.used),
            State::Closed | State::Poisoned(_) => return None,
        };
        Active::damage(&path, used)
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
        let settled = older.take_while(|older| older.newest <= size).count();
        let settled: Vec<_> = open.older.drain(..settled).collect();
        drop(state);
        for older in settled {
            if older.is_damaged {
                let (file, kept) = (older.path.display(), set_aside(&older.path)?);
                tracing::warn!(%file, kept, "the log no longer needs this damaged segment");
            } else {
                remove(&older.path)?;
            }
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

    fn read(&self, damage: Damage) -> Result<(Open, Vec<Bytes>), AssetError> {
        let mut files = self.segments()?;
        while let Some(unused) = files.pop_if(SegmentFile::never_used) {
            remove(&unused.path)?;
        }
        let number = files.last().map_or(1, |file| file.number + 1);
        let (older, records) = records(&files, damage)?;
        // Not `sealed`: after a failed sync, the last record of the previous segment may be
        // complete only in the page cache.
        let active = Active::create(&self.directory, number, false)?;
        self.sync("sync", &active.path, &active.file)?;
        self.sync("sync", &self.directory, &open_directory(&self.directory)?)?;
        Ok((Open { active, older }, records))
    }

    /// Returns the records of [`open`](Self::open) without changing a file.
    pub(super) fn look(&self, damage: Damage) -> Result<Vec<Bytes>, AssetError> {
        if !self.directory.exists() {
            return Ok(Vec::new());
        }
        steadily(|| {
            let mut files = self.segments()?;
            while files.pop_if(SegmentFile::never_used).is_some() {}
            Ok(records(&files, damage)?.1)
        })
    }

    /// Returns all segments, oldest first.
    fn segments(&self) -> Result<Vec<SegmentFile>, AssetError> {
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

/// Inspection while another process writes the journal.
impl Journal {
    /// Returns the files of damaged segments, and of the segments before them, oldest first.
    pub(super) fn damaged(&self) -> Result<Vec<PathBuf>, AssetError> {
        let contents = self.read_contents()?;
        let files = contents.damage.iter().filter_map(|damage| match damage {
            AssetError::Damaged { file, .. } => Some(PathBuf::from(file)),
            _ => None,
        });
        let Some(last) = files.max() else {
            return Ok(Vec::new());
        };
        let paths = self.segments()?.into_iter().map(|segment| segment.path);
        Ok(paths.filter(|path| *path <= last).collect())
    }

    /// Returns every record with its position, without changing a file.
    pub(super) fn contents(&self) -> Result<JournalContents, AssetError> {
        if !self.directory.exists() {
            return Ok(JournalContents::default());
        }
        let sound = || {
            let mut contents = self.read_contents()?;
            match contents.damage.pop() {
                None => Ok(contents),
                Some(damage) => Err(damage),
            }
        };
        steadily(sound).or_else(|_| self.read_contents())
    }

    fn read_contents(&self) -> Result<JournalContents, AssetError> {
        let mut files = self.segments()?;
        while files.pop_if(SegmentFile::never_used).is_some() {}
        let mut contents = JournalContents::default();
        for (at, file) in files.iter().enumerate() {
            add(&mut contents, file, files.get(at + 1));
        }
        Ok(contents)
    }
}

/// A segment as it is on the disk.
struct SegmentFile {
    number: u64,
    path: PathBuf,
    bytes: Bytes,
}

/// Returns the segments, and all complete records.
fn records(files: &[SegmentFile], damage: Damage) -> Result<(Vec<Older>, Vec<Bytes>), AssetError> {
    let mut older = Vec::new();
    let mut records = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let next = files.get(at + 1);
        let (found, is_damaged) = match file.whole(next) {
            Ok(found) => (found, false),
            Err(AssetError::Damaged { .. }) if damage == Damage::Skipped => {
                (undamaged(&file.bytes), true)
            }
            Err(error) => return Err(error),
        };
        let newest = found.iter().map(|(size, _)| *size).max();
        older.push(Older {
            path: file.path.clone(),
            newest: newest.unwrap_or(0),
            is_damaged,
        });
        records.extend(found.into_iter().map(|(_, record)| record));
    }
    Ok((older, records))
}

impl SegmentFile {
    /// Returns `true` if no record was ever appended to the segment. `&mut`, because `pop_if`
    /// requires it.
    fn never_used(&mut self) -> bool {
        Segment::never_used(&self.bytes)
    }

    /// Returns size and bytes of all records, without a tear that a crash can explain.
    fn whole(&self, next: Option<&SegmentFile>) -> Result<Vec<(u64, Bytes)>, AssetError> {
        let segment = self.parse()?;
        if let Some(torn) = &segment.torn {
            self.allow_tear(torn, next)?;
        }
        Ok(segment.records)
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
        if self.must_be_whole(next) {
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
    fn must_be_whole(&self, next: Option<&SegmentFile>) -> bool {
        let next = next.and_then(|next| next.parse().ok());
        next.is_some_and(|next| next.sealed)
    }

    fn torn(&self, offset: usize) -> AssetError {
        self.damaged(offset, "a complete record was damaged later")
    }

    fn damaged(&self, offset: usize, detail: &'static str) -> AssetError {
        AssetError::Damaged {
            file: self.path.display().to_string(),
            offset: offset as u64,
            detail,
        }
    }
}

/// Adds the records of one segment.
fn add(contents: &mut JournalContents, file: &SegmentFile, next: Option<&SegmentFile>) {
    let torn = match Segment::parse(&file.bytes) {
        Ok(segment) => segment.torn,
        Err(damage) => {
            contents
                .damage
                .push(file.damaged(damage.offset, damage.detail));
            None
        }
    };
    let path = file.path.display().to_string();
    for (offset, _, record) in Segment::around_damage(&file.bytes) {
        contents.records.push(StagedRecord {
            file: path.clone(),
            offset: offset as u64,
            bytes: (RECORD_HEADER + record.len()) as u64,
            record,
        });
    }
    if let Some(torn) = torn {
        if file.must_be_whole(next) {
            contents.damage.push(file.torn(torn.start));
        } else {
            contents.torn.push(TornTail {
                file: path,
                offset: torn.start as u64,
                bytes: torn.len() as u64,
            });
        }
    }
}

/// Repeats `look` until it succeeds, at most [`LOOKS`] times.
fn steadily<T>(look: impl Fn() -> Result<T, AssetError>) -> Result<T, AssetError> {
    for _ in 1..LOOKS {
        if let Ok(seen) = look() {
            return Ok(seen);
        }
        std::thread::sleep(PAUSE);
    }
    look()
}

/// Returns size and bytes of the complete records of a damaged segment.
fn undamaged(segment: &Bytes) -> Vec<(u64, Bytes)> {
    let records = Segment::around_damage(segment).into_iter();
    records.map(|(_, size, record)| (size, record)).collect()
}

fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    (name.len() == 16).then_some(name)?.parse().ok()
}

pub(super) fn remove(path: &Path) -> Result<(), AssetError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|e| AssetError::io("remove", path.display().to_string(), e)),
    }
}

pub(super) fn open_directory(path: &Path) -> Result<File, AssetError> {
    File::open(path).map_err(|e| AssetError::io("open", path.display().to_string(), e))
}
