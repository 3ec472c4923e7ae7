//! A signer: the key of a log in a separate process, which remembers the last signed tree head.
//!
//! A faulty or compromised server cannot be trusted to sign only one history. The key is therefore
//! kept in another process, behind a Unix socket, and the signer checks each request itself:
//!
//! - A tree head is signed only if a consistency proof leads to it from the last signed head. Each
//!   head is stored on disk before its signature is sent ([`Guard`], [`SigningLog`]).
//! - An SCT is signed only for a leaf that is proven to be in a tree with a signed head, and only
//!   over the exact bytes whose hash was in the proof.
//!
//! ```text
//! log → Client → wire → Server → SigningLog → Guard → key → Memory (tree heads)
//!  ↑                                                         │
//!  └─────────────────────── signature ←──────────────────────┘
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Client`], [`ClientError`] | the client in the log, on tokio |
//! | [`wire`] | the bytes on the socket |
//! | [`Server`], [`ServerError`] | threads that respond; no async runtime, no network |
//! | [`SigningLog`], [`SignError`] | one log: guard, memory and key together |
//! | [`Guard`], [`Head`], [`Refusal`] | rules for signatures, without I/O |
//! | [`Memory`], [`MemoryDirectory`] | the last tree head on disk |
//! | `TokenKey` (feature `pkcs11`) | a key in hardware |
//! | [`Seldom`] | rate limits of log lines |

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
