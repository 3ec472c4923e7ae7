//! Handing the logs over from one process to the next, without a refused connection.
//!
//! The process that runs listens at a socket in the file system (`handover`). One that
//! is started with the same configuration finds it there, and asks:
//!
//! ```text
//! the next one                          the one that runs
//! hello: its logs and their places  →
//!                                   ←   offer, and the sockets that listen
//! ready: whatever could fail has not →
//!                                       answers are the last ones of their connections
//!                                       accepts nothing more
//!                                   ←   accept
//! accepts; submissions wait, reads
//! are what the other publishes
//!                                       answers what it has, closes its logs
//!                                   ←   yours
//! opens the logs
//! leading                           →
//!                                       ends
//! ```
//!
//! Both have the sockets, so a connection that nobody has accepted outlives either of
//! them. If the next one dies or gives up (`failed`), the other goes on: with what it
//! still has, or with its logs opened again. It may also take back what it has
//! offered (`withdrawn`), and then the next one ends. If the one that runs dies, the
//! next one takes that for `yours`. That never two of them write one log is not for
//! these messages to see to: a directory has its lock, a log the swap of its checkpoint.

mod doorway;
mod giving;
mod places;
mod taking;
mod wire;

use std::time::Duration;

pub(crate) use doorway::{Candidate, Candidates, Doorway, Estate};
pub(crate) use giving::{Given, give};
pub(crate) use taking::{Giver, Taking, ask};

/// The version of these messages. One that does not speak it is refused in words.
const PROTOCOL: u32 = 1;

/// The time for an answer that needs no work.
const ANSWER: Duration = Duration::from_secs(10);

/// The time for the next process to become ready.
const PREPARING: Duration = Duration::from_secs(60);

/// The time in which the next process opens the logs. Beyond, it gives them back: what
/// takes so long is done better while the other process runs, or by a stop and a start.
const OPENING: Duration = Duration::from_secs(30);
