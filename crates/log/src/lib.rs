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
//! A log is created once, then started. It returns the SCT of a chain after its entry is in a
//! published checkpoint:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use lucarne_ct::{Chain, EntryKind, LogKey, Roots};
//! use lucarne_log::{Clock, Log, LogConfig, Metrics};
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
//!     period: Duration::from_millis(20),
//! #     description: String::new(),
//! #     metadata: Default::default(),
//! #     also_at: None,
//! #     policy: Default::default(),
//! #     verification: Arc::default(),
//! #     pool_size: 1000,
//! #     lanes: Default::default(),
//! #     checkpoint_interval: Duration::from_secs(5),
//! #     journal_bytes: 1 << 30,
//! #     read_cache_bytes: 1 << 20,
//! #     rfc6962_reads: None,
//! #     scrub: None,
//! #     known: None,
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
//! | `submit` | submissions: from a chain to its SCT |
//! | `index` | the dedup index: the place of each entry by its identity |
//! | `sequence` | rounds: from waiting entries to a signed and published tree |
//! | `read` | tiles, issuers and proofs, for clients and for the log itself |
//! | `recovery` | the start of a log, and its restart after a failure |
//! | `instances` | several instances of one log |
//! | `check` | verification of a log's files, and their repair |
//! | `status` | the status of a log for operators and monitoring systems |
//! | `model` | the protocol as a state machine, for a test of all states |
//!
//! Outside of the folders are the handle [`Log`], its configuration [`LogConfig`], the errors
//! [`Fatal`], [`ReadError`] and [`SubmitError`], and the state that all tasks of a log share
//! (`shared`). `fill` (feature `fill`) creates large logs and indices for measurements.
//!
//! ## `submit`
//!
//! | item | contents |
//! |---|---|
//! | `submission` | all steps of a submission, in order |
//! | `lookups`, `duplicate_limit` | lookups of known entries, and the limit on their cost |
//! | `batches` | signatures that one submission verifies for several submissions |
//! | `pool`, [`Lane`], [`LaneConfig`] | waiting submissions in two lanes, and the newest entries |
//! | `promises`, `sct_signatures`, `issued_scts` | SCTs of a separate signer, and the newest SCTs |
//! | [`StepTimes`], [`StepTime`] | the times of a submission's steps, for traces |
//!
//! ## `index`
//!
//! | item | contents |
//! |---|---|
//! | `dedup` | tables on disk, and the newest entries in memory |
//! | `catchup` | the missing entries, from the data tiles or from a snapshot |
//! | `backlog`, `unreadable_entries` | entries that are not read yet, or have a damaged tile |
//! | `thread_priority` | low priority of background threads |
//!
//! ## `sequence`
//!
//! | item | contents |
//! |---|---|
//! | `sequencer`, `phase`, `term` | the loop, the steps of a round, and the time of leadership |
//! | [`Clock`], `clock_jump` | the time, and the protection against a jump forward |
//! | [`believable`] | whether a start needs an operator's confirmation of the clock |
//! | `round`, `tree` | an encoded round, and the tree between two rounds |
//! | `verify`, [`VerifyError`], [`EntryError`] | a second computation of the root |
//! | [`Record`], [`RecordError`], [`Step`] | a round in the journal |
//! | [`Signer`], [`SignerClient`] | the holder of the key |
//! | `tree_head`, `verified_checkpoint` | tree heads that the log signs, and that it has verified |
//!
//! ## `read`
//!
//! | item | contents |
//! |---|---|
//! | `reader`, [`StoredFile`] | tiles and issuers by name |
//! | `read_cache`, `negative_cache` | stored files in memory, and missing issuers |
//! | `single_flight`, `read_ahead` | shared reads, and concurrent reads in order |
//! | `stored_tiles` | tiles as stored, by any software |
//! | `proofs`, `verified_tiles` | proofs and tiles that are verified against the tree |
//! | `compress`, `gzip`, `names_tile`, [`gunzip`] | the encodings of data tiles, and names tiles |
//! | `feed` | entries as events |
//! | [`Rfc6962Reads`], [`LogEntries`] | the read operations of RFC 6962 |
//!
//! ## `recovery`
//!
//! | item | contents |
//! |---|---|
//! | `supervise`, `session` | the log is opened, and reopened after failures |
//! | [`Turn`], [`GiveTurn`] | the start after another process of the same log |
//! | `recover`, [`Newest`] | the newest tree, from lock, journal and storage |
//! | `signed_ahead` | a tree head that the signer has signed, and the lock does not have |
//! | [`NeverPublished`] | the earlier tree for a checkpoint that was never published |
//! | [`Inconsistency`] | the contradictions between lock, journal, storage, signer and index |
//! | [`KnownCheckpoints`], [`KnownError`] | the checkpoints of mirrors and witnesses |
//! | [`ForeignLog`], [`Indexed`], `sunlight` | logs that other software has written |
//!
//! ## `instances`
//!
//! | item | contents |
//! |---|---|
//! | [`Instances`], [`Messenger`] | this process among several instances, and its channel to them |
//! | `follow`, `lease_watch` | a follower until it leads, and the detection of a silent leader |
//! | `forward` | submissions from a follower to the leader |
//!
//! ## `check`
//!
//! | item | contents |
//! |---|---|
//! | [`fsck()`], [`FsckOptions`], [`Files`] | every file compared with the signed tree head |
//! | [`Checked`], [`Finding`], [`Problem`] | the results of this check |
//! | `unsigned`, [`PartsError`] | precertificates and chains, which no leaf hash covers |
//! | [`ScrubConfig`], [`ScrubWindow`] | the periodic check of a running log |
//! | `restore`, `damaged_files` | damaged files restored at once, and their list |
//! | [`repair()`], [`Repair`], [`Source`] | files from the tiles below them or from other copies |
//! | [`Overlay`], [`superseded`] | repairs in memory, and superseded partial tiles |
//! | [`Inspection`], [`FoundCheckpoint`] | inspection by a process that does not run the log |
//! | [`standings`] | the state of each round in the journal |
//!
//! ## `status`
//!
//! | item | contents |
//! |---|---|
//! | [`State`], [`Published`] | the state of a log, and the checkpoint that readers may see |
//! | [`Health`], [`Check`] | the health checks and their results |
//! | [`Stats`], `recent_stats` | statistics of the last seconds |
//! | `public_errors` | errors without locations |
//! | [`Metrics`] | metrics of all logs of a process |
//! | [`Metadata`] | the operator's data for `log.v3.json` |

mod check;
mod config;
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
mod sequence;
mod shared;
mod status;
mod submit;

pub use check::fsck::{
    Checked, FileError, Files, Finding, FsckOptions, FsckPosition, NamesTiles, Parts, Problem,
    fsck, superseded,
};
pub use check::inspection::{FoundCheckpoint, Inspection, Standing, standings};
pub use check::repair::{
    Cure, Overlay, Refusal, Repair, Repaired, Source, repair, superseded_anew,
};
pub use check::scrub::{NoWindow, ScrubConfig, ScrubWindow};
pub use check::unsigned::PartsError;
pub use config::LogConfig;
pub use error::{
    Away, Fatal, FollowedTileError, HistoryHere, KnownError, ReadError, ReadFailure, SignError,
    SubmitError,
};
#[cfg(feature = "fill")]
pub use fill::LooseIndex;
pub use index::dedup::DedupError;
pub use instances::config::Instances;
pub use instances::messenger::{Messenger, MessengerError};
pub use log::Log;
pub use lucarne_signer::{Client as SignerClient, ClientError as SignerError};
pub use lucarne_storage::{Encoding, OpenFile};
pub use read::compress::gunzip;
pub use read::read_cache::StoredFile;
pub use read::rfc6962::{LogEntries, LogEntry, Rfc6962Error, Rfc6962Reads};
pub use recovery::external_sources::{KnownCheckpoints, SourceResponse, SourceResponseError};
pub use recovery::foreign_log::{ForeignLog, Indexed};
pub use recovery::inconsistency::{
    BundleError, HistoryError, Inconsistency, IndexInconsistency, IndexSeen, JournalInconsistency,
    LockEvidence, LockInconsistency, ReplayError, SignedTime, SignerInconsistency,
    StorageInconsistency, TreeError,
};
pub use recovery::known_checkpoints::KnownCheckpoint;
pub use recovery::recover::{NeverPublished, Newest};
pub use recovery::turn::{GiveTurn, Turn};
pub use sequence::clock::Clock;
pub use sequence::clock_jump::believable;
pub use sequence::record::{Record, RecordError, Step};
pub use sequence::signer::Signer;
pub use sequence::verify::{EntryError, VerifyError};
pub use status::metadata::{IntendedUse, Metadata, PlannedChange, RateLimit, Status};
pub use status::metrics::Metrics;
pub use status::state::{Check, Health, Published, State, Stats};
pub use submit::lane::{Lane, LaneConfig};
pub use submit::steps::{StepTime, StepTimes};
