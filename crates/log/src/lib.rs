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
//! # Submissions
//!
//! | item | contents |
//! |---|---|
//! | [`Log`], [`LogConfig`] | the handle of one log, and its configuration |
//! | `submit`, [`SubmitError`] | from a chain to its SCT, or to the reason of a refusal |
//! | `duplicates`, `lookups`, `dedup` | the index of known entries, and the limit on their cost |
//! | `batches` | signatures that one submission verifies for several |
//! | `pool`, [`Lane`], [`LaneConfig`] | waiting submissions in two lanes, and the newest entries |
//! | `promises`, `sct_signatures`, `issued` | SCTs of a separate signer, and the newest ones |
//!
//! # Rounds
//!
//! | item | contents |
//! |---|---|
//! | `sequencer`, `phase`, `term` | the loop, the steps of a round, and the time of leadership |
//! | [`Clock`], [`believable`] | the time, and the protection against a jump forward |
//! | `round`, `tree` | an encoded round, and the tree between two rounds |
//! | `verify`, [`VerifyError`], [`EntryError`] | a second computation of the root |
//! | [`Record`], [`RecordError`], [`Step`] | a round in the journal |
//! | [`Signer`], [`SignerClient`], `tree_head` | the holder of the key, and its tree heads |
//!
//! # Reads
//!
//! | item | contents |
//! |---|---|
//! | [`Published`] | the newest checkpoint that readers may see |
//! | `reader`, [`StoredFile`], [`ReadError`] | tiles and issuers by name |
//! | `read_cache`, `negative_cache` | stored files in memory, and missing issuers |
//! | `single_flight`, `read_ahead` | shared reads, and concurrent reads in order |
//! | `compress`, `gzip`, `names_tile`, [`gunzip`] | the encodings of data tiles, and names tiles |
//! | `feed` | entries as events |
//! | [`Rfc6962Reads`], [`LogEntries`] | the read operations of RFC 6962 |
//! | `proofs`, `verified_tiles` | proofs and tiles that are verified against the tree |
//!
//! # Start and recovery
//!
//! | item | contents |
//! |---|---|
//! | `supervise`, `session`, [`Fatal`] | the log is opened, and reopened after failures |
//! | [`Turn`], [`GiveTurn`] | the start after another process of the same log |
//! | `recover`, `ahead`, [`Newest`] | the newest tree, from lock, journal, storage and signer |
//! | [`NeverPublished`] | the earlier tree for a checkpoint that was never published |
//! | [`KnownCheckpoints`], [`KnownError`] | the checkpoints of mirrors and witnesses |
//! | `catchup`, `backlog`, `gaps` | the dedup index from the data tiles or from a snapshot |
//! | [`Looked`], [`Found`], [`standings`] | inspection by a process that does not run the log |
//! | [`Left`], [`Indexed`], `sunlight` | logs that other software has written |
//!
//! # Instances
//!
//! | item | contents |
//! |---|---|
//! | [`Instances`], [`Messenger`] | this process among several instances, and its channel to them |
//! | `follow`, `lease_watch` | a follower until it leads, and the detection of a silent leader |
//! | `forward` | submissions from a follower to the leader |
//!
//! # Verification and repair
//!
//! | item | contents |
//! |---|---|
//! | [`fsck()`], [`FsckOptions`], [`Files`] | every file compared with the signed tree head |
//! | [`Checked`], [`Finding`], [`Problem`] | the results of this check |
//! | `unsigned`, [`PartsError`] | precertificates and chains, which no leaf hash covers |
//! | [`ScrubConfig`], [`ScrubWindow`] | the periodic check of a running log |
//! | `restore`, `damaged` | damaged files restored at once, and their list |
//! | [`repair()`], [`Repair`], [`Source`] | files from the tiles below them or from other copies |
//! | [`Overlay`], [`superseded`] | repairs in memory, and superseded partial tiles |
//!
//! # Status
//!
//! | item | contents |
//! |---|---|
//! | [`State`], [`Health`], [`Stats`] | the state of a log, its checks and its statistics |
//! | `recent`, `places` | statistics of the last seconds, and errors without locations |
//! | `give_way` | low priority of background threads |
//! | [`Metrics`] | metrics of all logs of a process |
//! | [`Metadata`] | the operator's data for `log.v3.json` |
//! | `model` | the protocol as a state machine, for a test of all states |
//! | `fill` (feature `fill`) | large logs and indices for measurements |

mod ahead;
mod backlog;
mod batches;
mod catchup;
mod clock;
mod compress;
mod config;
mod damaged;
mod dedup;
mod duplicates;
mod error;
mod feed;
#[cfg(feature = "fill")]
mod fill;
mod follow;
mod forward;
mod fsck;
mod gaps;
mod give_way;
mod gzip;
mod health;
mod instances;
mod issued;
mod jump;
mod known;
mod lane;
mod lease_watch;
mod left;
mod log;
mod look;
mod lookups;
mod metadata;
mod metrics;
#[cfg(test)]
mod model;
mod names_tile;
mod negative_cache;
mod outside;
mod phase;
mod places;
mod pool;
mod promises;
mod proofs;
mod read_ahead;
mod read_cache;
mod reader;
mod recent;
mod record;
mod recover;
mod repair;
mod restore;
mod rfc6962;
mod round;
mod scrub;
mod sct_signatures;
mod sequencer;
mod session;
mod shared;
mod signer;
mod single_flight;
mod state;
mod stored;
#[cfg(test)]
mod stored_log;
mod submit;
mod sunlight;
mod supervise;
mod term;
mod tree;
mod tree_head;
mod turn;
mod unsigned;
mod verified_checkpoint;
mod verified_tiles;
mod verify;

pub use clock::Clock;
pub use compress::gunzip;
pub use config::LogConfig;
pub use error::{Fatal, KnownError, ReadError, SubmitError};
#[cfg(feature = "fill")]
pub use fill::LooseIndex;
pub use fsck::{
    Checked, FileError, Files, Finding, FsckOptions, FsckPosition, NamesTiles, Parts, Problem,
    fsck, superseded,
};
pub use instances::{Instances, Messenger, MessengerError};
pub use jump::believable;
pub use known::KnownCheckpoint;
pub use lane::{Lane, LaneConfig};
pub use left::{Indexed, Left};
pub use log::Log;
pub use look::{Found, Looked, Standing, standings};
pub use lucarne_signer::{Client as SignerClient, ClientError as SignerError};
pub use lucarne_storage::{Encoding, OpenFile};
pub use metadata::{IntendedUse, Metadata, PlannedChange, RateLimit, Status};
pub use metrics::Metrics;
pub use outside::{Answer, AnswerError, KnownCheckpoints};
pub use read_cache::StoredFile;
pub use record::{Record, RecordError, Step};
pub use recover::{NeverPublished, Newest};
pub use repair::{Cure, Overlay, Refusal, Repair, Repaired, Source, repair, superseded_anew};
pub use rfc6962::{LogEntries, LogEntry, Rfc6962Error, Rfc6962Reads};
pub use scrub::{NoWindow, ScrubConfig, ScrubWindow};
pub use signer::Signer;
pub use state::{Check, Health, Published, State, Stats};
pub use turn::{GiveTurn, Turn};
pub use unsigned::PartsError;
pub use verify::{EntryError, VerifyError};
