//! Exit codes of `lucarne load`.

use std::process::ExitCode;

use lucarne_load::Verdict;

/// Returns the exit code for a verdict.
pub(super) fn exit(verdict: Verdict) -> ExitCode {
    ExitCode::from(verdict.exit_code())
}

/// Reports an error in the plan or the options, which prevented the run.
pub(super) fn misconfigured(message: impl std::fmt::Display) -> ExitCode {
    crate::commands::failed(message);
    exit(Verdict::Configuration)
}
