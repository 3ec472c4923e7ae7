//! Load on object stores with an S3 API.
//!
//! A run consists of cells, one after the other: every combination of operation, object size,
//! number of users and store, each for the same time. A cell's requests have its tags (`op`,
//! `size`, `concurrency`, `endpoint`), the counter `object_bytes` (payload without heads) and the
//! gauge `cell_seconds`, so that a report can show operations and bytes per second. Two stores take
//! turns cell by cell, so they run under the same conditions but never at the same time.
//!
//! - The content of every object is known, and every GET is compared with it byte by byte. The ETag
//!   of GET and HEAD must equal the ETag of the write.
//! - A PUT must be acknowledged with an ETag and without an error document. At the end, a random
//!   sample of the objects is read again: large enough to find 1% damaged objects with 99%
//!   probability. A deleted object must not exist.
//! - `create` is a conditional PUT (`if-none-match: *`) that several clients send concurrently.
//!   Exactly one must win, and its object must be stored. Stores that violate this are reported at
//!   the end.
//! - Requests are signed by query (SigV4, presigned URLs); the payload is not signed. A request is
//!   signed before the measured time.
//! - All objects have a prefix of the run, and are removed at the end.

mod acknowledged;
mod conditional_put;
mod content;
mod keys;
mod objects;
mod options;
mod read_back;
mod scenario;
mod schedule;
mod shared_state;
mod store;
mod user;

pub use options::{AddressingStyle, Operation, S3Options, Size, SizeError};
pub use scenario::build;
