//! Arguments of `lucarne adopt`.

use std::path::PathBuf;

use crate::config::Flags;

/// Exit codes of `lucarne adopt`.
pub(crate) const ADOPT_CODES: &str = "\
    Exit codes: 0 done, or stopped while following; 1 refused, and nothing was written; 2 \
    something could not be checked.";

/// Options of `lucarne adopt`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Adopt {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Take over the witness of the configuration instead of a log
    #[arg(long, conflicts_with_all = ["name", "follow"])]
    pub witness: bool,

    /// Check and index the log while the old software still runs, until a signal. Writes only to
    /// the log's `cache`
    #[arg(long, conflicts_with = "check")]
    pub follow: bool,

    /// Check only, and write nothing
    #[arg(long, alias = "dry-run")]
    pub check: bool,

    /// Number of entries that TesseraCT's database has sequenced. For a log in a bucket whose
    /// database is not queried: `SELECT next FROM SeqCoord WHERE id = 0`
    #[arg(long, value_name = "NUMBER")]
    pub sequenced: Option<u64>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}
