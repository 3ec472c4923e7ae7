//! Arguments of `lucarne signer`.

use std::path::PathBuf;

use clap::Subcommand;

/// Options of `lucarne signer`.
#[derive(Debug, clap::Args)]
pub struct Signer {
    /// Configuration file of the signer
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "signer.yaml",
        global = true
    )]
    pub config: PathBuf,

    /// Task to perform instead of signing.
    #[command(subcommand)]
    pub task: Option<SignerTask>,
}

/// Tasks that require a stopped signer.
#[derive(Debug, Subcommand)]
pub enum SignerTask {
    /// Allow the key of a new log to sign: the key must never have signed anything
    ///
    /// The first checkpoint has no entries. For an existing log, use `adopt`: the signer refuses
    /// its checkpoints otherwise.
    FirstUse {
        /// Origin of the log
        #[arg(value_name = "ORIGIN")]
        origin: String,
    },

    /// Allow the key of an existing log to sign from its newest checkpoint onwards
    ///
    /// Needed once, when the key of a running log moves to a signer, and after the signer's memory
    /// is lost. The checkpoint must be the newest that was ever published: stop the log, and use
    /// the checkpoint of the lock from `lucarne lock show`, or the published one.
    Adopt {
        /// File with the checkpoint
        #[arg(value_name = "FILE")]
        checkpoint: PathBuf,
    },
}
