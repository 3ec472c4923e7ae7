//! Outcomes of offering a chain to a log.

use lucarne_ct::Sct;

/// Outcome of offering a certificate to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Submission {
    /// There is no log to submit to.
    Not,
    /// A log has the certificate already, according to a verified SCT. The field is the log's name.
    NotNeeded(String),
    /// No configured log accepts the certificate. The field is the reason.
    NoLog(String),
    /// The submission waits for its turn. The field is the error of the last attempt, if there was
    /// one.
    Waiting(Option<String>),
    /// The log returned an SCT.
    Accepted { sct: Sct, verified: Verified },
    /// The log refused the chain. The field is the log's reason.
    Refused(String),
    /// The log was unavailable or the queue was full. The field has the details.
    Failed(String),
}

/// Result of verifying the returned SCT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verified {
    /// The SCT is valid. The field names the key that verified it.
    By(String),
    /// The SCT is false. The field is the reason.
    No(String),
    /// The key of the log is unknown.
    UnknownKey,
}
