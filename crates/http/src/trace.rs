//! The interface for traces of submissions.

use http::{HeaderMap, StatusCode};
use lucarne_log::StepTime;
use lucarne_net::RequestId;

/// Receives the traces of submissions.
pub trait Tracer: Send + Sync {
    /// Begins the trace of a submission with these header fields; `None` if the submission is not
    /// traced.
    fn begin(&self, headers: &HeaderMap) -> Option<Box<dyn Trace>>;
}

/// The trace of one submission. A trace that is dropped is not recorded: the client has closed
/// its connection.
pub trait Trace: Send {
    /// Ends the trace with the response. Must not block.
    fn end(self: Box<Self>, submission: TracedSubmission<'_>);
}

/// A submission after its response is known.
#[derive(Debug)]
pub struct TracedSubmission<'s> {
    /// `add-chain` or `add-pre-chain`.
    pub name: &'static str,
    /// Short name of the log.
    pub log: &'s str,
    /// Identifier of the request in log lines and refusals.
    pub id: RequestId,
    /// Status of the response.
    pub status: StatusCode,
    /// The finished steps, in order.
    pub steps: Vec<StepTime>,
}
