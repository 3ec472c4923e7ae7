//! Commands, one module for each. Commands that this build leaves out have stand-ins that report
//! the missing feature.

#[cfg(not(all(feature = "load", feature = "proxy")))]
mod absent;
pub(crate) mod adopt;
pub(crate) mod archive;
mod atomic;
pub(crate) mod ca;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod config_file;
#[cfg(feature = "load")]
pub(crate) mod demo;
pub(crate) mod fsck;
pub(crate) mod generate;
pub(crate) mod give_back;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod keygen;
pub(crate) mod lint;
#[cfg(feature = "load")]
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod looking;
#[cfg(feature = "proxy")]
pub(crate) mod proxy;
pub(crate) mod serve;
pub(crate) mod signer;
#[cfg(feature = "load")]
pub(crate) mod watch;
#[cfg(not(feature = "load"))]
mod without_load;
#[cfg(not(feature = "proxy"))]
mod without_proxy;

use std::process::ExitCode;
#[cfg(any(feature = "load", feature = "proxy"))]
use std::time::Duration;

use lucarne_settings::Report;
#[cfg(any(feature = "load", feature = "proxy"))]
use lucarne_settings::values::{self, ValueError};
#[cfg(not(feature = "load"))]
pub(crate) use without_load::{demo, load, watch};
#[cfg(not(feature = "proxy"))]
pub(crate) use without_proxy::proxy;

/// Prints the final error of a command on standard error.
pub(crate) fn failed(message: impl std::fmt::Display) -> ExitCode {
    errln!("lucarne: {message}");
    ExitCode::FAILURE
}

/// Returns the configuration if it has no problems, and otherwise prints its problems.
pub(crate) fn sound<T>(config: Option<T>, report: &Report) -> Option<T> {
    let is_sound = config.is_some() && report.problems().is_empty();
    if !is_sound {
        for line in report.problem_lines() {
            errln!("problem: {line}");
        }
    }
    config.filter(|_| is_sound)
}

/// Reason why the value of a flag is refused. The flag and its value precede the text.
#[cfg(any(feature = "load", feature = "proxy"))]
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it {0}")]
pub(crate) struct FlagError(#[from] pub(crate) ValueError);

/// Parses the duration of a flag.
#[cfg(any(feature = "load", feature = "proxy"))]
pub(crate) fn duration(text: &str) -> Result<Duration, FlagError> {
    Ok(values::duration(text)?)
}
