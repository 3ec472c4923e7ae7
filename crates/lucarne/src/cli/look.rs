//! Arguments of the commands that inspect logs.

use std::path::PathBuf;

use clap::Subcommand;

/// Exit codes of the commands that inspect logs.
pub(super) const LOOKING_CODES: &str = "\
    Exit codes: 0 all is well; 1 something is wrong (details on standard error); 2 something \
    could not be checked.";

/// Selection of logs to inspect.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// Short name of the log [default: all]
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Commands for the journal.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// List the rounds of the journal and the state of each
    ///
    /// Prints whether each round follows the one before, and its state: published, signed, staged,
    /// or passed over. Only reads; may run while the server runs.
    #[command(after_help = LOOKING_CODES)]
    List(Look),
}
