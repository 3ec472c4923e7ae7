//! Certificate Transparency logs under load: [`mod@write`] submits to them, [`read`]
//! reads them, and both verify everything that they see.
//!
//! | step | where |
//! |---|---|
//! | authorities, made once and kept, or given | [`Roots`], [`Authorities`] |
//! | which log: URLs, origin, key, window | [`LogOptions`], [`Target`] |
//! | chains: one signature each, minted as they are sent or ahead | [`ChainGenerator`], [`Issuers`] |
//! | an SCT, verified as it comes | [`SctVerifier`] |
//! | what it promises, until it is proven | [`PendingScts`] |
//! | every checkpoint seen | [`TreeHeads`] |
//! | from one verified tree to the next, by tiles; promises, entries, issuers | [`Monitor`] |
//! | the verified tree, to check any tile with | [`TileCache`] |
//! | what a log must refuse, asked now and then | `probes` |
//! | a log that is being restarted | [`Outage`] |
//!
//! # What is found
//!
//! Everything that is checked has a name that stays ([`checks`]). A check that
//! fails within an iteration is also the kind of the iteration's failure.
//!
//! | what the log does | what fails |
//! |---|---|
//! | answers 200 with what is no SCT | `sct_wellformed` |
//! | another log's SCT | `sct_log_id` |
//! | an SCT without index, or with other extensions | `sct_index` |
//! | an SCT of the future, or older than its submission | `sct_timestamp` |
//! | an SCT whose signature is not for what was submitted | `sct_signature` |
//! | one index for two submissions | `sct_index_unique` |
//! | another index or timestamp for a repetition | `duplicate_same` |
//! | refuses a submission | `submission_accepted` |
//! | 429 or 503 without a Retry-After that makes sense | `retry_after` |
//! | no checkpoint | `checkpoint_served` |
//! | a checkpoint that cannot be read; of another name; not signed by its key | `checkpoint_wellformed`, `checkpoint_origin`, `checkpoint_signature` |
//! | a checkpoint smaller or older than one before, or larger and not newer | `checkpoint_growth` |
//! | a checkpoint older than an entry that it covers | `checkpoint_timestamp` |
//! | the same checkpoint for too long, or one of the future | `checkpoint_fresh` |
//! | two roots for one size | `checkpoint_fork` |
//! | a root that its own entries do not lead to | `checkpoint_consistent` |
//! | no tile; a tile of another length | `tile_served`, `tile_wellformed` |
//! | a hash tile that does not lead to the root, though the entries do | `tile_consistent` |
//! | a data tile that cannot be read; an entry with another index; entries that are not those of the hash tile | `entry_wellformed`, `entry_index`, `entry_hash` |
//! | another precertificate beside an entry than the one submitted | `entry_precertificate` |
//! | another chain beside an entry, in another order, or one that ends before the root | `entry_chain` |
//! | no issuer; another one | `issuer_served`, `issuer_hash` |
//! | a content coding that was not asked for, or cannot be decoded | `encoding` |
//! | another Content-Type; a checkpoint that caches may keep | `content_type`, `cache_control` |
//! | a tile that caches may not keep; no CORS; get-roots that is not called JSON (warnings) | `tile_cache_control`, `cors`, `roots_content_type` |
//! | takes a certificate outside of its window, of an unknown root, with a bad signature, or poison on the wrong endpoint | `refused_outside_window`, `refused_unknown_root`, `refused_bad_signature`, `refused_wrong_endpoint` |
//! | answers nonsense, or a path that is none, with anything but 4xx | `refused_malformed`, `refused_unknown_path` |
//! | get-roots lacks a root that it accepts | `roots_served` |
//! | `log.v3.json` is refused with 403, 429 or 5xx before the run | `metadata_served` |
//! | no checkpoint covers a promised index in time | `inclusion_in_time` |
//! | something else is at the promised index | `inclusion_entry` |
//! | the entry is at another index; it has another timestamp | `inclusion_index`, `inclusion_timestamp` |
//! | at the end something promised is missing, or the log has not come back | `audit_complete` |
//!
//! # What is counted apart
//!
//! | metric | |
//! |---|---|
//! | `ct_accepted` | the rate of submissions that were answered with an SCT that verifies |
//! | `throttled`, `ct_retry_after` | the rate of answers of 429 and 503, and the waits they asked for: the user waits as told and submits the same chain again |
//! | `ct_outage`, `ct_outage_errors` | with `--expect-restarts`: absences, and requests without answer during them |
//! | `ct_minted_late` | chains minted under load because those made ahead were used up |
//! | `ct_tree_size`, `ct_promises_open` | the verified tree, and SCTs not yet proven |
//! | `ct_entries_read`, `ct_full_reads` | entries verified by readers, and whole logs read from end to end |
//! | `ct_cache_hits`, `ct_proof_requests` | reads saved by the cache, and hash tiles read only to verify |
//!
//! Requests of the monitor, which runs beside the load, are not load and are
//! not counted among `http_reqs`.

mod authorities;
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
mod tile_cache;
mod tree_heads;
pub mod write;

pub use authorities::{Authorities, GivenAuthority};
pub use chain_generator::{ChainGenerator, TemporalInterval};
pub use extra_data::{ExtraData, IssuerChain};
pub use http_fetcher::HttpFetcher;
pub use monitor::{Monitor, MonitorCounts};
pub use outage::Outage;
pub use pending_scts::{PendingSct, PendingScts, SctCounts};
pub use profile::Issuers;
pub use roots::{Roots, RootsError};
pub use sct::{SctVerifier, VerifiedSct, timestamp_sane};
pub use submission::{ChainSuffix, Submission};
pub use target::{LogOptions, Target};
pub use tile_cache::TileCache;
pub use tree_heads::{PriorTreeHead, TreeHead, TreeHeads};
