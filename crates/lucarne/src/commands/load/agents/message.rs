//! Messages between a leader and its agents.

use lucarne_load::Summary;
use serde::{Deserialize, Serialize};

use super::bundle::Bundle;

/// First frame of each side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Version of the program.
    pub(super) version: String,
    /// Proof of the key; the leader omits it if it refuses the agent.
    pub(super) proof: Option<String>,
    /// Time of this side, in nanoseconds since 1970.
    pub(super) now: u64,
}

/// A message of the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Prepare a part of the run, such as `2/3`.
    Prepare { part: String, bundle: Box<Bundle> },
    /// Start at this time of the leader, in nanoseconds since 1970.
    Start { at: u64 },
    /// End the load.
    End(Ending),
    /// The leader has the result: the agent may exit.
    Received,
}

/// Kinds of an early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ending {
    /// The leader decided so, because of a threshold or of a lost agent.
    Aborted,
    /// The user stopped the run.
    Stopped,
    /// The user stopped the run again: running iterations are cut off.
    AtOnce,
}

/// A message of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// The agent cannot run the plan.
    Refused(String),
    /// The agent waits for the start.
    Prepared {
        /// Hash of the plan and its files.
        plan: String,
        /// Time of the leader minus time of the agent, in milliseconds, as far as it is certain.
        clock: i64,
    },
    /// Summary of all samples so far.
    Progress(Box<Summary>),
    /// Summary of the part, and the reason why it could not begin or go on.
    Finished {
        summary: Box<Summary>,
        error: Option<String>,
    },
}
