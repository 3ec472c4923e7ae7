//! A journal as it lies in storage: for whoever looks into it beside the log.

use bytes::Bytes;

use crate::AssetError;

/// The records of a journal, and where each lies.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All whole records, oldest first.
    pub records: Vec<StagedRecord>,
    /// The ends that were never finished, which a recovery drops. Beside a
    /// process that appends, the last one may just be being written.
    pub torn: Vec<TornTail>,
    /// The damage that no crash explains ([`AssetError::Damaged`]). Records behind it in
    /// the same file are not among `records`.
    pub damage: Vec<AssetError>,
}

impl JournalContents {
    /// The whole records, without their places.
    pub(crate) fn into_records(self) -> Vec<Bytes> {
        self.records
            .into_iter()
            .map(|staged| staged.record)
            .collect()
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRecord {
    /// A path, or the name of an object.
    pub file: String,
    /// The place in the file where it begins, with what frames it.
    pub offset: u64,
    /// Its length there, with what frames it.
    pub bytes: u64,
    /// The record itself.
    pub record: Bytes,
}

/// An append that was never finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The path of the segment.
    pub file: String,
    /// The place where the unfinished record begins.
    pub offset: u64,
    /// The bytes that are there of it.
    pub bytes: u64,
}
