//! Load on Certificate Transparency logs: [`mod@write`] submits chains, [`read`] reads published
//! files, and both verify all responses.
//!
//! | step | where |
//! |---|---|
//! | certificate authorities, created once and stored, or configured | [`Roots`], [`Authorities`] |
//! | the log: URLs, origin, key, temporal interval | [`LogOptions`], [`Target`] |
//! | chains with one signature each, created on demand or in advance | [`ChainGenerator`], [`Issuers`] |
//! | verification of each SCT | [`SctVerifier`] |
//! | promised entries until their proof | [`PendingScts`] |
//! | all observed checkpoints | [`TreeHeads`] |
//! | extension of the verified tree by tiles; promises, entries, issuers | [`Monitor`] |
//! | the verified tree, which any tile is compared with | [`lucarne_ctread::VerifiedTree`] |
//! | requests that a log must refuse | `probes` |
//! | a log that is being restarted | [`Outage`] |
//!
//! # Checks
//!
//! Every check has a stable name ([`checks`]). A check that
//! fails within an iteration is also the kind of the iteration's failure.
//!
//! | behaviour of the log | failed check |
//! |---|---|
//! | a response with status 200 that is not an SCT | `sct_wellformed` |
//! | another log's SCT | `sct_log_id` |
//! | an SCT without index, or with other extensions | `sct_index` |
//! | an SCT from the future, or older than its submission | `sct_timestamp` |
//! | an SCT whose signature is not for the submission | `sct_signature` |
//! | one index for two submissions | `sct_index_unique` |
//! | another index or timestamp for a repetition | `duplicate_same` |
//! | a refused submission | `submission_accepted` |
//! | 429 or 503 without a valid Retry-After | `retry_after` |
//! | no checkpoint | `checkpoint_served` |
//! | a malformed checkpoint; one of another origin; one without the log's signature | `checkpoint_wellformed`, `checkpoint_origin`, `checkpoint_signature` |
//! | a checkpoint smaller or older than an earlier one, or larger and not newer | `checkpoint_growth` |
//! | a checkpoint older than an entry that it covers | `checkpoint_timestamp` |
//! | a stale checkpoint, or one from the future | `checkpoint_fresh` |
//! | two roots for one size | `checkpoint_fork` |
//! | a root that its own entries do not lead to | `checkpoint_consistent` |
//! | no tile; a tile of another length | `tile_served`, `tile_wellformed` |
//! | a hash tile that does not lead to the root, though the entries do | `tile_consistent` |
//! | a malformed data tile; an entry with another index; entries that differ from the hash tile | `entry_wellformed`, `entry_index`, `entry_hash` |
//! | an entry with another precertificate than the submitted one | `entry_precertificate` |
//! | an entry with another chain, in another order, or with one that ends before the root | `entry_chain` |
//! | a missing issuer; a wrong one | `issuer_served`, `issuer_hash` |
//! | a content coding that was not requested, or cannot be decoded | `encoding` |
//! | another Content-Type; a checkpoint that caches may keep | `content_type`, `cache_control` |
//! | a tile that caches may not keep; no CORS; get-roots without the media type of JSON (warnings) | `tile_cache_control`, `cors`, `roots_content_type` |
//! | an accepted certificate outside the temporal interval, of an unknown root, with a bad signature, or poison on the wrong endpoint | `refused_outside_window`, `refused_unknown_root`, `refused_bad_signature`, `refused_wrong_endpoint` |
//! | a status other than 4xx for a malformed request or an unknown path | `refused_malformed`, `refused_unknown_path` |
//! | get-roots without a root that the log accepts | `roots_served` |
//! | `log.v3.json` is refused with 403, 429 or 5xx before the run | `metadata_served` |
//! | no checkpoint covers a promised index in time | `inclusion_in_time` |
//! | another entry at the promised index | `inclusion_entry` |
//! | the entry is at another index; it has another timestamp | `inclusion_index`, `inclusion_timestamp` |
//! | at the end a promised entry is missing, or the log is unavailable | `audit_complete` |
//!
//! # Further metrics
//!
//! | metric | |
//! |---|---|
//! | `ct_accepted` | the rate of submissions with a valid SCT as response |
//! | `throttled`, `ct_retry_after` | the rate of responses with 429 and 503, and the requested waits: the user waits (`vu_time_throttled`) and submits the same chain again |
//! | `ct_outage`, `ct_outage_errors` | with `--expect-restarts`: absences, and requests without a response during them |
//! | `ct_minted_late` | chains created under load because the stock was used up |
//! | `ct_tree_size`, `ct_promises_open` | the verified tree, and SCTs not yet proven |
//! | `ct_entries_read`, `ct_full_reads` | entries verified by readers, and whole logs read from end to end |
//! | `ct_cache_hits`, `ct_proof_requests` | reads saved by the cache, and hash tiles read only to verify |
//!
//! The monitor runs during the load. Requests of the monitor do not count as load and are not in
//! `http_reqs`.

mod authorities;
mod backoff;
mod certificate_template;
mod chain_generator;
pub mod checks;
mod entries;
mod extra_data;
pub mod fetch;
mod headers;
mod http_fetcher;
mod monitor;
mod monitored_log;
pub mod options;
mod outage;
mod pending_scts;
mod probes;
mod profile;
pub mod read;
mod roots;
mod sct;
mod submission;
mod target;
mod tree_heads;
pub mod write;

pub use authorities::{Authorities, GivenAuthority};
pub use chain_generator::{ChainGenerator, TemporalInterval};
pub use extra_data::{ChainMismatch, ExtraData, IssuerChain};
pub use http_fetcher::HttpFetcher;
pub use monitor::{Monitor, MonitorCounts};
pub use options::{LogOptions, SubmissionOptions};
pub use outage::Outage;
pub use pending_scts::{IndexReused, PendingSct, PendingScts, SctCounts};
pub use profile::Issuers;
pub use roots::{Roots, RootsError};
pub use sct::{SctVerifier, TimestampError, VerifiedSct, WrongSct, timestamp_sane};
pub use submission::{ChainSuffix, Submission};
pub use target::Target;
pub use tree_heads::{PriorTreeHead, TreeHead, TreeHeads};
