//! Arguments of `lucarne lock`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::commands::looking::{LOOKING_CODES, Look};
use crate::config::Flags;

/// Commands for the lock.
#[derive(Debug, Subcommand)]
pub enum Lock {
    /// Show the lock's checkpoint of each log, with the published one
    ///
    /// Compares both, and the rounds of the journal between them, exactly as `serve` does at
    /// startup. Only reads; may run while the server runs.
    #[command(after_help = LOOKING_CODES)]
    Show(Look),

    /// Copy an SQLite lock to a new file, to move it to another machine
    ///
    /// Copies the newest commits, too, which are in another file (-wal). Refuses while a log of the
    /// lock runs: the copy would be older than the lock after the next round.
    Copy(Copy),

    /// Rebuild a lost lock from the log's own data
    ///
    /// Writes the newest checkpoint of data and journal to a lock that has no checkpoint of this
    /// log. Creates a missing lock first.
    ///
    /// Safe only if the data are the newest that ever existed: not restored from a backup, and not
    /// a copy. Refuses if the tiles, the journal, the index in the cache or an outside checkpoint
    /// are newer. Never overwrites a checkpoint, except with --replace-older or --never-published.
    Rebuild(Box<Rebuild>),
}

/// Options of `lucarne lock copy`.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// File to create
    #[arg(value_name = "FILE")]
    pub to: PathBuf,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,
}

/// Options of `lucarne lock rebuild`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Rebuild {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Also compare with the checkpoint in this file or at this URL, in addition to the log's
    /// `known_checkpoints`. May be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub known: Vec<String>,

    /// Replace the lock's checkpoint if it is damaged, or older than the log. A checkpoint from
    /// outside (--known) must confirm the new checkpoint
    #[arg(long)]
    pub replace_older: bool,

    /// Continue although this place with a known checkpoint does not respond. May be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub without: Vec<String>,

    /// Go back to the checkpoint before a round that the lock signed and that a failing disk lost
    /// before any of it was published. Refuses unless storage, journal, index and a place that
    /// follows the log prove this
    #[arg(long)]
    pub never_published: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}
