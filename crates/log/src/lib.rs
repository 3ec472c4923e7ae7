//! A Certificate Transparency log: pool → round → journal → commit → publish.
//!
//! The crate does not depend on HTTP: its API accepts chains, returns SCTs, and reads tiles by
//! name.

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
