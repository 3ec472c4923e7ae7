//! The key of a log in a process of its own, which remembers what it has signed.
//!
//! A server that is broken, or broken into, cannot be trusted to sign one history only. So the
//! key is where it is not, behind a Unix socket, and whoever holds it looks for itself:
//!
//! - a tree head is signed only if a consistency proof leads to it from the last one, which is
//!   remembered on disk before the signature leaves ([`Guard`], [`SigningLog`]);
//! - an SCT is signed only for a leaf that is shown to be in a tree whose head was signed, and
//!   only over the very bytes whose hash was in the proof.
//!
//! | module | concept |
//! |---|---|
//! | `guard` | what may be signed after what: pure |
//! | `memory` | the last head, durably |
//! | `signing` | one log: guard, memory and key together |
//! | `token` | a key in hardware (feature `pkcs11`) |
//! | `wire` | the bytes on the socket |
//! | `server` | threads that answer; no async runtime, no network |
//! | `client` | the log's side, on tokio |
//! | `seldom` | log lines that others can cause |

mod client;
mod guard;
mod memory;
mod seldom;
mod server;
mod signing;
#[cfg(feature = "pkcs11")]
mod token;
pub mod wire;

pub use client::{Client, ClientError};
pub use guard::{Guard, Head, Refusal};
pub use memory::{Memory, MemoryDirectory, MemoryError};
pub use seldom::Seldom;
pub use server::{Server, ServerError};
pub use signing::{SignError, SigningLog};
#[cfg(feature = "pkcs11")]
pub use token::{TokenError, TokenKey};
