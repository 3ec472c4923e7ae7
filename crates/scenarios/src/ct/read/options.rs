//! Options of `ct-read`.

use std::num::ParseIntError;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lucarne_settings::typed;
use serde::Deserialize;

use crate::ct::LogOptions;
use crate::ct::options::AuditLevel;
use crate::option_values::{HttpVersion, Ratio, TimeSpan, defaults};

/// The log that `ct-read` reads, the kinds of reads, and the checks.
///
/// The same struct is filled from the command line (flags) and from a plan (keys of the same names
/// in camelCase).
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CtReadOptions {
    /// URL of a log; several logs are read in turn. Origin and key come from its
    /// log.v3.json unless they are given
    #[arg(long, alias = "log_url", value_name = "URL")]
    #[serde(deserialize_with = "typed::list")]
    pub log_url: Vec<String>,
    /// Origin of the log (in the order of the logs)
    #[arg(long, value_name = "NAME", env = "CT_LOG_ORIGIN")]
    #[serde(deserialize_with = "typed::list")]
    pub origin: Vec<String>,
    /// Public key of the log: base64 of its DER, or a PEM file (in the order of the logs)
    #[arg(
        long,
        alias = "log_public_key",
        value_name = "KEY|FILE",
        env = "CT_LOG_PUBLIC_KEY"
    )]
    #[serde(deserialize_with = "typed::list")]
    pub log_public_key: Vec<String>,
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
    /// Age at which a checkpoint is stale
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub max_checkpoint_age: TimeSpan,
    /// Interval between polls of the checkpoint during the load
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(std::time::Duration::from_millis(500)))]
    pub checkpoint_interval: TimeSpan,
    /// Allowed difference between the clocks of log and load test
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(5))]
    pub clock_tolerance: TimeSpan,
    /// The log may be restarted during the run: wait for it, and report its absences
    #[arg(long)]
    pub expect_restarts: bool,
    /// Token that requests carry: Authorization: Bearer TOKEN
    #[arg(long, alias = "bearer_token", value_name = "TOKEN")]
    pub bearer_token: Option<String>,
    /// Version of HTTP
    #[arg(long, value_enum, default_value_t)]
    pub http: HttpVersion,
    /// Accept any TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// PEM file of certificates to trust for TLS; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Time limit of a request
    #[arg(long, aliases = ["http_timeout", "http-timeout"], value_name = "TIME", default_value_t = TimeSpan::seconds(30))]
    pub timeout: TimeSpan,
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

impl Default for CtReadOptions {
    fn default() -> Self {
        defaults()
    }
}

impl CtReadOptions {
    /// Returns the options of the logs and their monitoring.
    pub(crate) fn logs(&self) -> LogOptions {
        LogOptions {
            log_url: self.log_url.clone(),
            write_log_url: Vec::new(),
            origin: self.origin.clone(),
            log_public_key: self.log_public_key.clone(),
            audit: AuditLevel::Inclusion,
            mmd: std::time::Duration::MAX,
            max_checkpoint_age: self.max_checkpoint_age.0,
            checkpoint_interval: self.checkpoint_interval.0,
            clock_tolerance: self.clock_tolerance.0,
            expect_restarts: self.expect_restarts,
            bearer_token: self.bearer_token.clone(),
            bearer_token_write: None,
            http: self.http,
            insecure: self.insecure,
            ca: self.ca.clone(),
            timeout: self.timeout.0,
        }
    }
}
