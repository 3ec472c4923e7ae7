//! One file for each command.

pub(crate) mod ca;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod keygen;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod proxy;
pub(crate) mod serve;
pub(crate) mod watch;

use std::process::ExitCode;
use std::time::Duration;

/// What a command prints on standard error when it ends with a problem.
pub(crate) fn failed(message: impl std::fmt::Display) -> ExitCode {
    eprintln!("lucarne: {message}");
    ExitCode::FAILURE
}

/// A duration, as a flag has it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    lucarne_settings::values::duration(text).map_err(|why| format!("it {why}"))
}
