//! Hand-over of the logs from one process to the next without refused connections.
//!
//! The running process listens on a socket in the file system (`handover`). A process that starts
//! with the same configuration connects to it:
//!
//! ```text
//! next process                          running process
//! hello: its logs and their places  →
//!                                   ←   offer, with the listening sockets
//! ready: all checks have passed     →
//!                                       ends its connections after one more response
//!                                       stops accepting
//!                                   ←   accept
//! accepts; submissions wait, reads
//! show what the other has published
//!                                       finishes open submissions, closes its logs
//!                                   ←   yours
//! opens the logs
//! leading                           →
//!                                       exits
//! ```
//!
//! Both processes have the sockets, so that unaccepted connections survive the end of either
//! process. If the next process dies or gives up (`failed`), the running process continues: with
//! its open logs, or after it has reopened them. The running process may also withdraw its offer
//! (`withdrawn`); then the next process exits. If the running process dies, the next process treats
//! this as `yours`.
//!
//! These messages do not prevent two processes from writing one log. The lock of the directory and
//! the compare-and-swap of the log's checkpoint prevent this.

mod doorway;
mod giving;
mod places;
mod taking;
mod wire;

use std::time::Duration;

pub(crate) use doorway::{Candidate, Candidates, Doorway, Estate};
pub(crate) use giving::{Given, give};
pub(crate) use taking::{Giver, Taking, ask};

/// Version of the protocol. Other versions are refused with a message.
const PROTOCOL: u32 = 1;

/// Timeout for a response that needs no work.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the next process to become ready.
const PREPARING: Duration = Duration::from_secs(60);

/// Timeout for the next process to open the logs. After the timeout, the next process returns the
/// logs: if the logs need longer to open, a stop and a start are the better upgrade.
const OPENING: Duration = Duration::from_secs(30);
