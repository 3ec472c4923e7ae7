//! A Certificate Transparency log: pool → round → journal → commit → publish.
//!
//! The crate does not depend on HTTP: its API accepts chains, returns SCTs, and reads tiles by
//! name.
//!
//! ```text
//! chain → submit → pool → round → verify → journal → lock → publish → SCT
//!           ↑              └────────── sequencer ──────────────┤
//!      dedup index ←─────────────── new entries ───────────────┤
//!           ↑                                                  ↓
//!           └────────── catchup at startup ←──────────── published files → readers
//!                                                           │       ↑
//!                                                           └→ fsck → repair
//! ```
//!
//! A log is created once, then started. The log returns the SCT of a chain after a published
//! checkpoint includes the entry:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use lucarne_ct::{Chain, EntryKind, LogKey, Roots};
//! use lucarne_log::{Clock, Log, LogConfig, Metrics, RoundConfig};
//! use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
//! use lucarne_storage::{MemoryAssets, MemoryLock};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = tempfile::tempdir()?;
//! let config = LogConfig {
//!     shortname: "example".to_owned(),
//!     origin: "log.example".to_owned(),
//!     submission_prefix: "https://log.example/".to_owned(),
//!     monitoring_prefix: "https://log.example/".to_owned(),
//!     key: LogKey::from_seed(&[7; 32])?.into(),
//!     cache: cache.path().join("dedup"),
//!     rounds: RoundConfig {
//!         period: Duration::from_millis(20),
//!         ..RoundConfig::default()
//!     },
//! #     description: String::new(),
//! #     metadata: Default::default(),
//! #     also_at: None,
//! #     policy: Default::default(),
//! #     verification: Arc::default(),
//! #     rfc6962_reads: None,
//! #     scrub: None,
//! #     known: None,
//! #     witnesses: None,
//! #     instances: None,
//! #     clock: Clock::system(),
//!     // And more settings.
//! };
//! let (assets, lock) = (Arc::new(MemoryAssets::new()), Arc::new(MemoryLock::new()));
//! Log::create(&config, &*assets, &*lock).await?;
//!
//! let root = Authority::root(&CaOptions::named("Example Root", KeyType::EcdsaP256))?;
//! let (roots, _) = Roots::from_pem(root.certificate_pem().as_bytes());
//! let metrics = Metrics::register(&mut Default::default());
//! let log = Log::start(config, roots, assets, lock, &metrics);
//! log.started().await;
//!
//! let ca = root.intermediate(&CaOptions::named("Example CA", KeyType::EcdsaP256))?;
//! let leaf = ca.issue(&LeafOptions::for_names(["www.example.test"])?)?;
//! let chain = Chain::from_ders(ca.chain(leaf).certificates())?;
//! let sct = log.submit(EntryKind::X509, chain).await?;
//! assert_eq!(sct.index(), Some(0));
//! assert_eq!(log.published().map(|published| published.size), Some(1));
//! log.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! Each folder begins with the file of its name, which has the order of its modules.
//!
//! | folder | contents |
//! |---|---|
//! | [`config`](LogConfig) | the operator's settings |
//! | [`error`](Fatal) | the errors for submitters, clients that read, and operators |
//! | `status` | the status of a log for operators and monitoring systems |
//! | `data` | trees, rounds and checkpoints, in memory and as bytes |
//! | `read` | tiles, issuers and proofs, for clients and for the log itself |
//! | `index` | the dedup index: the place of each entry by its identity |
//! | `rfc6962` | the read operations of RFC 6962 |
//! | `submit` | submissions: from a chain to its SCT |
//! | `shared` | the state that all tasks of a log share |
//! | `recovery` | the newest tree, from lock, journal and storage |
//! | `sequence` | rounds: from waiting entries to a signed and published tree |
//! | `instances` | several instances of one log |
//! | `check` | verification of a log's files, and their repair |
//! | [`log`](Log) | the handle of a log, which opens it and reopens it after failures |
//! | `model` | the protocol as a state machine, for a test of all states |
//!
//! A folder uses only folders above it in this table. `fill` (feature `fill`) creates large logs
//! and indices for measurements.
//!
//! ## `config`
//!
//! | item | contents |
//! |---|---|
//! | [`Clock`], [`Signer`], [`SignerClient`] | the time, and the holder of the key |
//! | [`RoundConfig`] | rounds of the sequencer, journal, cache in memory |
//! | [`Lane`], [`LaneConfig`] | the two lanes of submissions |
//! | [`Instances`], [`Messenger`] | this process among several instances, and its channel to them |
//! | [`ScrubConfig`], [`ScrubWindow`] | the periodic check of a running log |
//! | [`KnownCheckpoints`] | the checkpoints of mirrors and witnesses |
//! | [`Witnesses`], [`WitnessClient`], [`Endpoint`] | the witnesses and mirrors that cosign checkpoints, and requests to them |
//! | [`Metadata`] | the operator's data for `log.v3.json` |
//!
//! ## `error`
//!
//! | item | contents |
//! |---|---|
//! | [`SubmitError`], [`ReadError`] | the reasons why a submission or a read fails |
//! | [`Fatal`] | the reasons why a log cannot be opened, or had to stop |
//! | [`Inconsistency`] | the contradictions between lock, journal, storage, signer and index |
//! | [`VerifyError`], [`RecordError`], [`DedupError`], [`KnownError`] | errors of one component |
//!
//! ## `status`
//!
//! | item | contents |
//! |---|---|
//! | `log_status` | the status of a running log |
//! | [`State`], [`Published`] | the state of a log, and the checkpoint that readers may see |
//! | [`Health`], [`Check`] | the results of the health checks |
//! | [`Stats`], `recent_stats` | statistics of the last seconds |
//! | `clock_jump`, [`believable`], [`next_timestamp`] | the protection against a wrong clock |
//! | `scrub_status` | the progress of the scrubber |
//! | [`WitnessState`] | the last cosignature of each witness or mirror |
//! | `public_errors` | errors without locations |
//! | [`Metrics`] | metrics of all logs of a process |
//!
//! ## `data`
//!
//! | item | contents |
//! |---|---|
//! | `round`, `tree` | an encoded round, and the tree between two rounds |
//! | `verify` | a second computation of the root |
//! | [`Record`], [`Step`] | a round in the journal |
//! | `tree_head`, `verified_checkpoint` | tree heads that the log signs, and that it has verified |
//! | `cosignatures` | a checkpoint with the cosignatures of witnesses |
//! | [`StoredFile`], `gzip` | files as stored, and their encoding |
//! | `names_tile` | names tiles |
//!
//! ## `read`
//!
//! | item | contents |
//! |---|---|
//! | `reader` | tiles and issuers by name, and the encodings that clients request |
//! | `read_cache`, `negative_cache` | stored files in memory, and missing issuers |
//! | `single_flight` | shared reads |
//! | `stored_tiles` | tiles as stored, by any software |
//! | `proofs`, `verified_tiles` | proofs and tiles that are verified against the tree |
//! | `edge`, `damaged_files` | damaged tiles at the right edge, and the list of damaged files |
//! | `feed` | entries as events |
//!
//! ## `index`
//!
//! | item | contents |
//! |---|---|
//! | `dedup` | tables on disk, and the newest entries in memory |
//! | `catchup` | the missing entries, from the data tiles or from a snapshot |
//! | `backlog`, `unreadable_entries` | entries that are not read yet, or have a damaged tile |
//! | `log_index` | the parts of a log that keep its index up to date |
//! | `evidence` | the entries that an index has seen, read without its log |
//! | `thread_priority` | low priority of background threads |
//!
//! ## `rfc6962`
//!
//! | item | contents |
//! |---|---|
//! | [`Rfc6962Reads`], [`LogEntries`] | the read operations |
//! | `indexer`, `leaf_index`, `leaves` | the place of each leaf by its hash |
//!
//! ## `submit`
//!
//! | item | contents |
//! |---|---|
//! | `submission` | all steps of a submission, in order |
//! | `session` | the pool and the index of one opening of a log |
//! | `lookups`, `duplicate_limit` | lookups of known entries, and the limit on their cost |
//! | `batches` | signatures that one submission verifies for several submissions |
//! | `pool` | waiting submissions in two lanes, and the newest entries |
//! | `forward_queue`, `forward_wire` | entries on their way from a follower to the leader |
//! | `submissions` | the state that all submissions of a log share |
//! | `sct_signatures` | SCTs signed by this process or by a separate signer, and the newest SCTs |
//! | `promises`, `issued_scts` | rounds that a separate signer signs, and the newest signatures |
//! | [`StepTimes`], [`StepTime`] | the times of a submission's steps, for traces |
//!
//! ## `shared`
//!
//! | item | contents |
//! |---|---|
//! | `shared` | the parts of a log that its tasks share; most are in the folders of their users |
//! | [`Turn`], [`GiveTurn`] | a start that waits until another process has released the log |
//! | `instance` | this process among the instances of the log |
//!
//! ## `recovery`
//!
//! | item | contents |
//! |---|---|
//! | `recover`, [`Newest`] | the newest tree, from lock, journal and storage |
//! | `opening` | the recovery of a running log |
//! | `signed_ahead` | a tree head that the signer has signed, and the lock does not have |
//! | [`NeverPublished`] | the earlier tree for a checkpoint that was never published |
//! | [`KnownCheckpoint`] | the log compared with a checkpoint of an external source |
//! | [`ForeignLog`], [`Indexed`], `sunlight` | logs that other software has written |
//!
//! ## `sequence`
//!
//! | item | contents |
//! |---|---|
//! | `sequencer`, `phase` | the loop, and the steps of a round |
//! | `cosigning` | requests to witnesses and mirrors, and the publication of their cosignatures |
//! | `term` | the time in which an instance leads |
//!
//! ## `instances`
//!
//! | item | contents |
//! |---|---|
//! | `follow`, `lease_watch` | a follower until it leads, and the detection of a silent leader |
//! | `forward` | submissions from a follower to the leader |
//! | `leader_clock` | the clock of the leader, compared with the clock of a follower |
//! | `newest` | the newest checkpoint of all instances, for readers |
//!
//! ## `check`
//!
//! | item | contents |
//! |---|---|
//! | [`fsck()`], [`FsckOptions`] | every file compared with the signed tree head |
//! | [`Checked`], [`Finding`], [`Problem`] | the results of this check |
//! | `unsigned`, [`PartsError`] | precertificates and chains, which no leaf hash covers |
//! | `scrub`, `restore` | the check of a running log, and damaged files restored at once |
//! | [`repair()`], [`Repair`], [`OtherCopy`] | files from the tiles below them or from other copies |
//! | [`Overlay`], [`superseded`] | repairs in memory, and superseded partial tiles |
//! | [`Inspection`], [`FoundCheckpoint`] | inspection by a process that does not run the log |
//! | [`standings`] | the state of each round in the journal |
//!
//! ## `log`
//!
//! | item | contents |
//! |---|---|
//! | [`Log`] | the handle of a log |
//! | `supervise` | the log is opened, and reopened after failures |
//! | `health` | the health checks |
//! | `newest` | reads that take the other instances of the log into account |

mod check;
mod config;
mod data;
mod error;
#[cfg(feature = "fill")]
mod fill;
mod index;
mod instances;
mod log;
#[cfg(test)]
mod model;
mod read;
mod recovery;
mod rfc6962;
mod sequence;
mod shared;
mod status;
mod submit;

pub use check::fsck::{
    Checked, Finding, FsckOptions, FsckPosition, NamesTiles, Parts, Problem, fsck, superseded,
};
pub use check::inspection::{
    FoundCheckpoint, Inspection, Standing, hold_against, inspect, standings,
};
pub use check::repair::{
    Cure, OtherCopy, Overlay, Refusal, Repair, Repaired, Unwritten, repair, superseded_anew,
};
pub use check::unsigned::PartsError;
pub use config::LogConfig;
pub use config::clock::Clock;
pub use config::external_sources::{KnownCheckpoints, SourceResponse, SourceResponseError};
pub use config::instances::Instances;
pub use config::lane::{Lane, LaneConfig};
pub use config::messenger::{Messenger, MessengerError};
pub use config::metadata::{IntendedUse, Metadata, Operator, PlannedChange, RateLimit, Status};
pub use config::rounds::RoundConfig;
pub use config::scrub::ScrubConfig;
pub use config::scrub_window::{NoWindow, ScrubWindow};
pub use config::signer::Signer;
pub use config::witnesses::{
    Endpoint, InvalidWitnesses, WitnessClient, WitnessError, WitnessResponse, Witnesses,
};
pub use data::record::{Record, Step};
pub use data::stored_file::StoredFile;
pub use error::inconsistency::{
    BundleError, HistoryError, Inconsistency, IndexInconsistency, IndexSeen, JournalInconsistency,
    LockEvidence, LockInconsistency, ReplayError, SignedTime, SignerInconsistency,
    StorageInconsistency, TreeError,
};
pub use error::{
    Away, DedupError, EntryError, Fatal, FollowedTileError, HistoryHere, KnownError, ReadError,
    ReadFailure, RecordError, SignError, SubmitError, Unavailable, VerifyError,
};
#[cfg(feature = "fill")]
pub use fill::LooseIndex;
pub use log::Log;
pub use lucarne_signer::{Client as SignerClient, ClientError as SignerError};
pub use lucarne_storage::{Encoding, OpenFile};
pub use recovery::foreign_log::{ForeignLog, Indexed};
pub use recovery::known_checkpoints::KnownCheckpoint;
pub use recovery::recover::{NeverPublished, Newest, examine, never_published, newest};
pub use rfc6962::{LogEntries, LogEntry, Rfc6962Error, Rfc6962Reads};
pub use shared::turn::{GiveTurn, Turn};
pub use status::clock_jump::{believable, next_timestamp};
pub use status::metrics::Metrics;
pub use status::state::{Check, Health, Published, State, Stats};
pub use status::witness_status::WitnessState;
pub use submit::steps::{StepTime, StepTimes};
