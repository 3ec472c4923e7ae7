//! One file for each command.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod keygen;
pub(crate) mod serve;

use std::process::ExitCode;

/// What a command prints on standard error when it ends with a problem.
pub(crate) fn failed(message: impl std::fmt::Display) -> ExitCode {
    eprintln!("lucarne: {message}");
    ExitCode::FAILURE
}
