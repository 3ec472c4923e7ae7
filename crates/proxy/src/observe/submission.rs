//! What became of a chain that was offered to a log.

use lucarne_ct::Sct;

/// The outcome of offering a certificate to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Submission {
    /// There is no log to submit to.
    Not,
    /// A log has it, and has said so by an SCT that verifies; which.
    NotNeeded(String),
    /// None of the logs takes it; why.
    NoLog(String),
    /// It waits for its turn; what went wrong so far.
    Waiting(Option<String>),
    /// The log gave an SCT. Who it is of and whether it verifies.
    Accepted { sct: Sct, verified: Verified },
    /// The log does not want it; what it says.
    Refused(String),
    /// The log could not be had, or there was no room in the queue; why.
    Failed(String),
}

/// The verdict on the SCT of the log that was submitted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verified {
    /// It is, by the key of this log.
    By(String),
    /// It is not.
    No(String),
    /// Nobody knows the log's key.
    UnknownKey,
}
