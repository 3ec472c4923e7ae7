//! Inspection of the journal while another process writes it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::{Journal, SegmentFile};
use crate::posix::segment::{RECORD_HEADER, Segment};
use crate::{AssetError, JournalContents, StagedRecord, TornTail};

/// Number of attempts to read a journal that seems damaged or lacks a listed file. A concurrent
/// process that appends and truncates can cause both; real damage persists.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Repeats `look` until it succeeds, at most [`LOOKS`] times.
pub(super) fn steadily<T>(look: impl Fn() -> Result<T, AssetError>) -> Result<T, AssetError> {
    for _ in 1..LOOKS {
        if let Ok(seen) = look() {
            return Ok(seen);
        }
        std::thread::sleep(PAUSE);
    }
    look()
}

/// Returns size and bytes of the complete records of a damaged segment.
pub(super) fn undamaged(segment: &Bytes) -> Vec<(u64, Bytes)> {
    let records = Segment::around_damage(segment).into_iter();
    records.map(|(_, size, record)| (size, record)).collect()
}

impl Journal {
    /// Returns the files of damaged segments, and of the segments before them, oldest first.
    pub(in crate::posix) fn damaged(&self) -> Result<Vec<PathBuf>, AssetError> {
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
    pub(in crate::posix) fn contents(&self) -> Result<JournalContents, AssetError> {
        if !self.directory().exists() {
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
