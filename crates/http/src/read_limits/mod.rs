//! The limits of reading: how much one client may ask for, so that nobody's fault is everybody's.
//!
//! Each client has a token bucket ([`Rate`]). A request takes a unit from it, and one more for each whole
//! [`UNIT_BYTES`] of its answer. An IPv6 client takes from its network's bucket, too. For what is of a
//! tree, one whose `User-Agent` does not say whom to ask also takes from a bucket that all such clients share. It takes
//! from all of its buckets or from none. Whoever asks for the same partial tile again and again pays twice as much
//! each time.
//!
//! The checkpoint costs nothing: by it, clients learn that there is something to read. Nor do submissions, or who
//! waits for the log to grow, which have bounds of their own.

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
