//! Stand-in for a command that is not part of this build.

use std::ffi::OsString;
use std::process::ExitCode;

use lucarne_storage::NotBuilt;

use super::failed;

/// Any arguments.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Anything {
    /// All arguments, ignored.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Reports the missing feature of this build.
pub(super) fn left_out(what: &'static str, feature: &'static str) -> ExitCode {
    failed(NotBuilt { what, feature })
}
