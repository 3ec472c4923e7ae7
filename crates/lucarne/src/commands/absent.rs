//! A command that this build was made without.

use std::ffi::OsString;
use std::process::ExitCode;

use lucarne_storage::NotBuilt;

use super::failed;

/// Whatever arguments it has.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Anything {
    /// All of them.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Reports what is missing.
pub(super) fn left_out(what: &'static str, feature: &'static str) -> ExitCode {
    failed(NotBuilt { what, feature })
}
