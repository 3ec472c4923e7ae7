//! `lucarne proxy`: a forward proxy that can intercept TLS.

mod config;
mod file;
mod flags;
mod keys;
#[cfg(feature = "tui")]
mod live;
mod open;
mod pairs;
mod recording;
mod running;
#[cfg(not(feature = "tui"))]
mod unseen;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use lucarne_settings::Report;

use self::config::Config;
use self::flags::Flags;
pub(crate) use self::keys::{documented, schema};
#[cfg(not(feature = "tui"))]
use self::unseen as live;
use super::failed;
use crate::causes::causes;
use crate::logging::Logging;
use crate::runtime;

/// Options of `lucarne proxy`. Flags override the configuration file.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Flags, which override the settings of the file.
    #[command(flatten)]
    pub flags: Flags,
}

impl Options {
    /// Returns whether the live view uses the terminal, so that log lines would disturb it.
    pub(crate) fn live(&self) -> bool {
        live::BUILT && !self.flags.no_ui && std::io::stdout().is_terminal()
    }
}

/// Runs the proxy until a signal stops it.
pub(crate) fn run(options: &Options, logging: &Logging) -> ExitCode {
    let config = match read(options) {
        Ok(config) => config,
        Err(report) => {
            for line in report.problem_lines() {
                errln!("problem: {line}");
            }
            return failed("nothing was started; correct the configuration first");
        }
    };
    runtime::raise_open_files();
    match runtime::run(running::run(config, options, logging)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(causes(&error)),
    }
}

/// Reads the configuration from the file and the flags.
fn read(options: &Options) -> Result<Config, Report> {
    let mut report = Report::on(options.config.as_deref());
    let mut config = match &options.config {
        Some(path) => file::read(path, &mut report),
        None => Config::default(),
    };
    if !report.problems().is_empty() {
        return Err(report);
    }
    let mut of_flags = Report::on(None);
    options.flags.apply(&mut config, &mut of_flags);
    if !of_flags.problems().is_empty() {
        return Err(of_flags);
    }
    for line in report.warning_lines() {
        warnln!("warning: {line}");
    }
    if config.listen.is_empty() {
        config
            .listen
            .extend(crate::config::listen("127.0.0.1:3128"));
    }
    Ok(config)
}

#[cfg(test)]
mod tests;
