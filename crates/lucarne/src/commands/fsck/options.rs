//! Arguments of `lucarne fsck` and `lucarne repair`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// A log of the configuration, or of any place.
#[derive(Debug, clap::Args)]
pub struct LogAt {
    /// Short name of the log, or origin of a mirror's copy; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Log outside the configuration: its directory, its bucket (s3://bucket/prefix?region=…), the
    /// URL of its monitoring prefix, or the directory of its archive
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["name", "config"])]
    pub at: Option<String>,

    /// Origin of the log [default: from its log.v3.json]
    #[arg(long, value_name = "NAME", requires = "at")]
    pub origin: Option<String>,

    /// Public key of the log: base64 of its DER, or a PEM file [default: from its log.v3.json]
    #[arg(long, value_name = "KEY|FILE", requires = "at")]
    pub log_public_key: Option<String>,
}

/// Options of `lucarne fsck`.
#[derive(Debug, clap::Args)]
pub struct Fsck {
    /// The log.
    #[command(flatten)]
    pub log: LogAt,

    /// Number of data tiles to read and hash concurrently [default: two for each core]
    #[arg(long, value_name = "N")]
    pub at_once: Option<NonZeroUsize>,

    /// File that records the progress of the check. The next check continues from there
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Verify precertificates and chains only in data tiles that are stored uncompressed. In the
    /// others, the checksum of gzip detects damage, but not forgery
    #[arg(long)]
    pub skip_signatures: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Options of `lucarne repair`.
#[derive(Debug, clap::Args)]
pub struct Repair {
    /// Options of the check.
    #[command(flatten)]
    pub fsck: Fsck,

    /// Another place that holds the same log: a directory, a bucket, or the URL of a monitoring
    /// prefix. The files are verified against the signed root. May be repeated
    #[arg(long, value_name = "PLACE")]
    pub from: Vec<String>,

    /// Additional accepted roots, in PEM. A chain from another place must end in one of these roots
    /// or in a root of the configuration. May be repeated
    #[arg(long, value_name = "FILE")]
    pub roots: Vec<PathBuf>,

    /// Write nothing; list the repairs
    #[arg(long, conflicts_with = "state")]
    pub dry_run: bool,
}
