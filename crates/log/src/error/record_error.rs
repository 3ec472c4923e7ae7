//! The reasons why bytes are not the record of a round.

/// The reasons why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes have another format, or another version of this format.
    #[error("not a round record of this version")]
    Magic,
    /// The record is shorter than its lengths require.
    #[error("the round record is cut short")]
    Truncated,
}
