//! `lucarne serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::failed;
use crate::cli::Serve;
use crate::config::{Config, Report};
use crate::logging::Logging;
use crate::runtime;
use crate::server::{Creation, Server};

/// Runs until a signal asks to stop.
pub(crate) fn run(options: &Serve, logging: &Logging) -> ExitCode {
    let (config, mut report, creation) = read(options);
    let roots = config
        .as_ref()
        .map(|config| crate::server::read_roots(config, &mut report));
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    let (Some(config), Some(roots), []) = (config, roots, report.problems()) else {
        for line in report.problem_lines() {
            eprintln!("problem: {line}");
        }
        return failed("not started");
    };
    let served = runtime::run(async {
        let server = Server::start(config, roots, creation, logging).await?;
        server.run().await
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("{error:#}")),
    }
}

fn read(options: &Serve) -> (Option<Config>, Report, Creation) {
    if options.flags.given() {
        let (config, report) = options.flags.read();
        return (config, report, Creation::InFreshDirectory);
    }
    let default = PathBuf::from("lucarne.yaml");
    let path = options.config.as_ref().unwrap_or(&default);
    let (config, report) = Config::read(path);
    (config, report, Creation::OnInception)
}
