//! Read limits: the requests that one client may send, so that no client affects the others.
//!
//! Each client has a token bucket ([`Rate`]). A request takes one unit, and another for each
//! complete [`UNIT_BYTES`] of its response. An IPv6 client also takes from the bucket of its
//! network. A client without a contact in its `User-Agent` that reads parts of a tree also takes
//! from a bucket that all such clients share. A request takes from all of its buckets or from none.
//! Each repeated request for the same partial tile costs twice as much as the request before.
//!
//! A checkpoint is free, because clients read a checkpoint to learn whether the log has grown.
//! Submissions and requests that wait for the log to grow are free, too, because they have separate
//! limits.

mod client_table;
mod clock;
mod contact;
mod fields;
mod gate;
mod limiter;
mod policy;
mod published;
mod rate;

pub use clock::MonotonicClock;
pub(crate) use gate::{ReadGate, ReadMetrics};
pub use limiter::{Admission, Decision, PartialTile, ReadLimiter, Reading, Refusal, Remainder};
pub use policy::{Policy, ReadLimits, UNIT_BYTES};
pub(crate) use published::PublishedLimits;
pub use rate::Rate;
