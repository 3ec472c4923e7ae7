//! Arguments of `lucarne generate`.

use std::path::PathBuf;

use clap::Subcommand;

/// Files that are generated from the definition of the command line.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Write the manual pages to a directory: one for each command
    ///
    /// Creates the directory if it does not exist. Replaces existing pages.
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },

    /// Print the completion script of a shell
    Completions {
        /// Shell that runs the script
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
}

/// Shells with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// The Bourne Again Shell
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}
