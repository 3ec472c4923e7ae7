//! Object stores that speak S3.
//!
//! A run goes through cells, one after the other: every operation, size of
//! object, number of users and store, each for the same time. A cell's requests
//! carry its tags (`op`, `size`, `concurrency`, `endpoint`), the counter
//! `object_bytes` (payload without heads) and the gauge `cell_seconds`, so that
//! a report can show operations and bytes per second. Two stores take turns cell
//! by cell: they meet the same weather, and never each other.
//!
//! - Every object is known beforehand, and every GET is compared with it byte by
//!   byte. Its ETag, and that of HEAD, must be the one of the write.
//! - A PUT must be acknowledged with an ETag and without an error document; some of
//!   the objects are read back at the end. A deleted object must be gone.
//! - `create` is a conditional PUT (`if-none-match: *`) that several clients race
//!   for. Exactly one may win, and what it wrote must be there; which stores do
//!   otherwise is said at the end.
//! - Requests are signed by query (SigV4, presigned URLs); the payload is not
//!   signed. Signing takes place before a request's time begins.
//! - What is written lies under a prefix of its own, and is removed at the end.

mod acknowledged;
mod conditional_put;
mod content;
mod keys;
mod objects;
mod options;
mod scenario;
mod schedule;
mod shared_state;
mod store;
mod user;

pub use options::{AddressingStyle, Operation, S3Options, Size};
pub use scenario::build;
