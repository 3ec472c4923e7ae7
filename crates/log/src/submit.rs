//! Submissions: from a chain to its SCT.
//!
//! ```text
//! chain → submission → pool, lookups → batches → lane → pool → (round) → issued_scts → SCT
//!                            └─ duplicate → duplicate_limit ─────────────────↑
//! ```
//!
//! `submission` has these steps in order. The entry is first looked up in the pool and in the dedup
//! index (`lookups`). The signature of a new entry is verified in a batch, and the entry waits in
//! its lane of the pool for a round. `sct_signatures` signs SCTs, or requests them from a separate
//! signer, for all entries of a round at once (`promises`). `steps` has the times of these steps,
//! for traces. `submissions` is the state that all submissions of a log share, and `session` the
//! part that ends with each opening. A follower sends entries through `forward_queue`, in the
//! messages of `forward_wire`.

pub(crate) mod batches;
pub(crate) mod duplicate_limit;
pub(crate) mod forward_queue;
pub(crate) mod forward_wire;
pub(crate) mod issued_scts;
pub(crate) mod lookups;
pub(crate) mod pool;
pub(crate) mod promises;
pub(crate) mod sct_signatures;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod submission;
pub(crate) mod submissions;
