//! A Certificate Transparency log: pool → round → journal → commit → publish.
//!
//! The crate knows nothing of HTTP: it takes chains and gives SCTs, and serves
//! tiles by name.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ahead;
mod catchup;
mod clock;
mod compress;
mod config;
mod damaged;
mod dedup;
mod error;
mod fsck;
mod gaps;
mod health;
mod issued;
mod jump;
mod known;
mod left;
mod log;
mod look;
mod lookups;
mod metadata;
mod metrics;
#[cfg(test)]
mod model;
mod negative_cache;
mod phase;
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
mod round;
mod scrub;
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
mod tree;
mod verified_checkpoint;
mod verified_tiles;
mod verify;

pub use clock::Clock;
pub use compress::gunzip;
pub use config::LogConfig;
pub use error::{Fatal, ReadError, SubmitError};
pub use fsck::{Checked, Files, Finding, FsckPosition, Problem, fsck, superseded};
pub use known::{Answer, AnswerError, KnownCheckpoint, KnownCheckpoints, KnownError};
pub use left::{Indexed, Left};
pub use log::Log;
pub use look::{Found, Looked, Standing, standings};
pub use lucarne_signer::{Client as SignerClient, ClientError as SignerError};
pub use lucarne_storage::{Encoding, OpenFile};
pub use metadata::{IntendedUse, Metadata, PlannedChange, RateLimit, Status};
pub use metrics::Metrics;
pub use read_cache::StoredFile;
pub use record::{Record, RecordError, Step};
pub use recover::Newest;
pub use repair::{Cure, Overlay, Repair, Repaired, Source, repair, superseded_anew};
pub use scrub::{NoWindow, ScrubConfig, ScrubWindow};
pub use signer::Signer;
pub use state::{Check, Health, Published, State, Stats};
pub use verify::{EntryError, VerifyError};
