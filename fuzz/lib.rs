//! Fuzz targets, one for each parser, and their seeds. The tests run each target on its seeds;
//! `cargo xtask fuzz` explores from them with libFuzzer.

mod seeds;

use std::collections::BTreeMap;

use lucarne_ct::LogKey;
use lucarne_tlog::{Cosigner, EMPTY_ROOT, Hash};

// The crate includes these files instead of their crate, because instrumenting that crate would
// instrument two databases.
#[path = "../crates/log/src/error/record_error.rs"]
mod error;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/log/src/submit/forward_wire.rs"]
mod forward;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/cosign/src/list.rs"]
mod list;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/cosign/src/logs.rs"]
mod logs;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/log/src/data/record.rs"]
mod record;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/cosign/src/mirror/upload.rs"]
mod upload;
#[allow(dead_code, unreachable_pub)]
#[path = "../crates/cosign/src/request.rs"]
mod witness;

/// Calls a macro with the names of all targets.
#[macro_export]
macro_rules! with_targets {
    ($macro:ident) => {
        $macro! {
            batch ccadb_csv certificate chain_json checkpoint cosigned lint log_list mirror_upload
            note ocsp_scts policy precert_tbs roots_pem round_record sct_json sct_list signature
            signed_checkpoint signer_request submission tile_leaf tile_path tlog_proof vkey
            witness_list witness_request
        }
    };
}

/// Declares the module of each target, and [`target`].
macro_rules! declare {
    ($($name:ident)*) => {
        mod targets {
            $(pub(crate) mod $name;)*
        }

        /// Returns the target of this name: a function that panics if a rule does not hold for its
        /// input.
        pub fn target(name: &str) -> Option<fn(&[u8])> {
            match name {
                $(stringify!($name) => Some(targets::$name::run),)*
                _ => None,
            }
        }
    };
}

with_targets!(declare);

/// Returns the seeds of each target.
///
/// # Panics
///
/// If a seed cannot be generated.
pub fn seeds() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    seeds::all().expect("seeds from constants").0
}

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

/// Returns the cosigners: one for each type of cosignature.
pub fn cosigners() -> [Cosigner; 2] {
    [Cosigner::ed25519, Cosigner::ml_dsa_44]
        .map(|new| new("fuzz.example/w1", &[7; 32]).expect("a seed of 32 bytes"))
}
