//! The content of a journal, for programs that inspect it while the log runs.

use bytes::Bytes;

use crate::AssetError;

/// The records of a journal with their positions.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All complete records, oldest first.
    pub records: Vec<StagedRecord>,
    /// The unfinished ends of segments, which a recovery drops. The last unfinished end may be an
    /// append in progress.
    pub torn: Vec<TornTail>,
    /// Damage that no crash explains ([`AssetError::Damaged`]). Records after the damage in the
    /// same file are missing from `records`.
    pub damage: Vec<AssetError>,
}

impl JournalContents {
    /// Returns the complete records without their positions.
    pub(crate) fn into_records(self) -> Vec<Bytes> {
        self.records
            .into_iter()
            .map(|staged| staged.record)
            .collect()
    }
}

/// A record of the journal, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRecord {
    /// Path of the segment, or name of the object.
    pub file: String,
    /// Offset in the file, at the start of the record's header.
    pub offset: u64,
    /// Length in the file, including the header.
    pub bytes: u64,
    /// Content of the record.
    pub record: Bytes,
}

/// An append that was never finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Path of the segment.
    pub file: String,
    /// Offset at which the unfinished record begins.
    pub offset: u64,
    /// Number of bytes from this offset to the end of the file.
    pub bytes: u64,
}
