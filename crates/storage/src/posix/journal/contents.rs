//! Inspection of the journal while another process writes it.

use std::time::Duration;

use super::{Journal, SegmentFile};
use crate::posix::segment::{RECORD_HEADER, SEGMENT_HEADER, Segment};
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

impl Journal {
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
    let segment = match Segment::parse(&file.bytes) {
        Ok(segment) => segment,
        Err(damage) => {
            contents
                .damage
                .push(file.damaged(damage.offset, damage.detail));
            // The records before the damage are complete.
            match Segment::parse(&file.bytes.slice(..damage.offset)) {
                Ok(segment) => segment,
                Err(_) => return,
            }
        }
    };
    let path = file.path.display().to_string();
    let mut offset = SEGMENT_HEADER as u64;
    for (_, record) in segment.records {
        let bytes = (RECORD_HEADER + record.len()) as u64;
        contents.records.push(StagedRecord {
            file: path.clone(),
            offset,
            bytes,
            record,
        });
        offset += bytes;
    }
    if let Some(torn) = segment.torn {
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
