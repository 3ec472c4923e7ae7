//! Argument that names the configuration file.

use std::path::PathBuf;

/// Path of the configuration.
#[derive(Debug, clap::Args)]
pub struct File {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,
}
