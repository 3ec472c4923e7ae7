//! One file for each command. Those that a build leaves out have stand-ins,
//! which say so.

#[cfg(not(all(feature = "load", feature = "proxy")))]
mod absent;
pub(crate) mod adopt;
mod atomic;
pub(crate) mod ca;
pub(crate) mod check;
#[cfg(feature = "load")]
pub(crate) mod demo;
pub(crate) mod fsck;
pub(crate) mod give_back;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod keygen;
pub(crate) mod lint;
#[cfg(feature = "load")]
pub(crate) mod load;
pub(crate) mod lock;
mod looking;
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

#[cfg(not(feature = "load"))]
pub(crate) use without_load::{demo, load, watch};
#[cfg(not(feature = "proxy"))]
pub(crate) use without_proxy::proxy;

/// Prints, on standard error, the problem that a command ends with.
pub(crate) fn failed(message: impl std::fmt::Display) -> ExitCode {
    errln!("lucarne: {message}");
    ExitCode::FAILURE
}

/// A duration, as a flag has it.
#[cfg(any(feature = "load", feature = "proxy"))]
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    lucarne_settings::values::duration(text).map_err(|why| format!("it {why}"))
}
