//! Arguments of `lucarne give-back`.

use std::path::PathBuf;

use crate::config::Flags;

/// Software that takes over the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Software {
    /// Sunlight, with an SQLite lock and a directory.
    Sunlight,
    /// TesseraCT for POSIX.
    Tesseract,
}

/// Options of `lucarne give-back`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct GiveBack {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Give back the witness of the configuration instead of a log, to Sunlight
    #[arg(long, conflicts_with = "name")]
    pub witness: bool,

    /// Software that takes over the log
    #[arg(long, value_enum)]
    pub to: Software,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}
