//! The exit codes of `lucarne load`.

use std::process::ExitCode;

use lucarne_load::Verdict;

/// The process' exit code for a verdict.
pub(super) fn exit(verdict: Verdict) -> ExitCode {
    ExitCode::from(verdict.exit_code())
}

/// Reports why nothing was run: something the user wrote is wrong.
pub(super) fn misconfigured(message: impl std::fmt::Display) -> ExitCode {
    crate::commands::failed(message);
    exit(Verdict::Configuration)
}
