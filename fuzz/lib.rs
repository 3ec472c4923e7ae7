//! A log and its tree heads, shared by the seeds and the targets.

use lucarne_ct::LogKey;
use lucarne_tlog::{EMPTY_ROOT, Hash};

/// Origin of the log.
pub const ORIGIN: &str = "fuzz.example/2026h2";

/// All tree heads that the log has signed: size, root, timestamp.
pub const HEADS: [(u64, Hash, u64); 3] = [
    (0, EMPTY_ROOT, 1_790_000_000_000),
    (1, Hash([1; 32]), 1_790_000_000_001),
    (70_000, Hash([255; 32]), 1_790_000_060_000),
];

/// Returns the log's key.
pub fn log_key() -> LogKey {
    LogKey::from_seed(&[7; 32]).expect("a seed of 32 bytes")
}
