//! Options of `ct-read`.

use std::num::ParseIntError;

use clap::{Args, ValueEnum};
use lucarne_settings::typed;
use serde::Deserialize;

use crate::ct::LogOptions;
use crate::option_values::Ratio;

/// The log that `ct-read` reads, the kinds of reads, and the checks.
///
/// The same struct is filled from the command line (flags) and from a plan (keys of the same names
/// in camelCase).
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CtReadOptions {
    /// Logs, and how to monitor them.
    #[command(flatten)]
    #[serde(rename = "..log")]
    pub log: LogOptions,
    /// Kinds of random reads, each with its weight
    #[arg(
        long,
        value_name = "KIND:N",
        value_delimiter = ',',
        default_value = "checkpoints:1,tiles:4,entries:4,issuers:1"
    )]
    #[serde(deserialize_with = "typed::list")]
    pub reads: Vec<WeightedRead>,
    /// Share of the users that read all entries from the first to the last, repeatedly, instead of
    /// random parts
    #[arg(long, value_name = "SHARE", default_value_t = Ratio(0.0))]
    pub full_readers: Ratio,
    /// Keep immutable files (full tiles, issuers) and do not read them twice; request checkpoints
    /// with If-None-Match
    #[arg(long)]
    pub cache: bool,
    /// Content coding to request
    #[arg(long, value_enum, default_value_t)]
    pub compression: Compression,
}

/// A kind of read with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedRead {
    /// Kind of the read.
    pub kind: ReadKind,
    /// Weight within the sum of all weights.
    pub weight: u32,
}

/// Kinds of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadKind {
    /// The checkpoint.
    Checkpoints,
    /// A hash tile of any level.
    Tiles,
    /// A data tile.
    Entries,
    /// A certificate from the chain of an entry.
    Issuers,
}

/// The reasons why a text is not a kind of read with its weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightedReadError {
    /// The kind is unknown.
    #[error("must be checkpoints, tiles, entries or issuers")]
    Kind,
    /// The weight is not a number.
    #[error("must have a whole number after the colon")]
    Weight(#[from] ParseIntError),
}

impl std::str::FromStr for WeightedRead {
    type Err = WeightedReadError;

    fn from_str(text: &str) -> Result<Self, WeightedReadError> {
        let (kind, weight) = text.split_once(':').unwrap_or((text, "1"));
        let kind = ReadKind::from_str(kind, false).map_err(|_| WeightedReadError::Kind)?;
        let weight = weight.parse()?;
        Ok(Self { kind, weight })
    }
}

/// Content coding that a reader requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression
    Identity,
    /// gzip
    #[default]
    Gzip,
    /// zstd
    Zstd,
    /// gzip or zstd, as the server prefers
    Any,
}

impl Compression {
    /// Returns the value of Accept-Encoding.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Compression::Identity => "identity",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Any => "gzip, zstd",
        }
    }
}
