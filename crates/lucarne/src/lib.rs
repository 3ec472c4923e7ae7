//! Lucarne, a Certificate Transparency log: the command line, the
//! configuration, and the wiring of the crates that do the work.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ccadb;
pub mod cli;
mod closing;
mod commands;
pub mod config;
mod creation;
mod describe;
mod descriptors;
mod handover;
mod inception;
mod instances;
mod known;
mod late;
mod line_writer;
mod listen;
mod logging;
mod metering;
mod notify;
mod open;
mod roots;
mod runtime;
mod server;
mod signals;
pub mod single_dash;
mod successor;
mod survey;
mod testcert;
mod tls;
mod upkeep;
mod verification;

use std::process::ExitCode;

use cli::{Cli, Command, Journal, Lock};

/// Does what the command line asks for.
pub fn run(cli: &Cli) -> ExitCode {
    let level = match &cli.command {
        Command::Demo(_) | Command::Load(_) | Command::Watch(_) => "warn",
        // What they find is printed by themselves.
        Command::Lock(Lock::Show(_)) | Command::Journal(_) => "error",
        // Lines would be drawn into the picture.
        Command::Proxy(options) if options.live() => "off",
        // What object_store says of each repetition, the metrics and /health say better.
        _ => "info,object_store=warn",
    };
    let asked = match &cli.command {
        Command::Serve(options) => options.flags.level(),
        _ => None,
    };
    let filter = cli.log_filter.as_deref().or(asked).unwrap_or(level);
    let logging = match logging::Logging::start(cli.log_format, filter) {
        Ok(logging) => logging,
        Err(error) => return commands::failed(error),
    };
    match &cli.command {
        Command::Serve(options) => commands::serve::run(options, &logging),
        Command::Check(file) => commands::check::run(&file.config),
        Command::Init(file) => commands::init::run(&file.config),
        Command::Adopt(options) => commands::adopt::run(options),
        Command::GiveBack(options) => commands::give_back::run(options),
        Command::Lock(Lock::Show(options)) => commands::lock::show::run(options),
        Command::Lock(Lock::Rebuild(options)) => commands::lock::rebuild::run(options),
        Command::Journal(Journal::List(options)) => commands::journal::list(options),
        Command::Fsck(options) => commands::fsck::run(options),
        Command::Repair(options) => commands::fsck::repair(options),
        Command::Keygen(keygen) => commands::keygen::run(&keygen.file),
        Command::Signer(options) => commands::signer::run(options),
        Command::Demo(options) => commands::demo::run(options, &logging),
        Command::Load(load) => commands::load::run(load),
        Command::Proxy(options) => commands::proxy::run(options, &logging),
        Command::Lint(options) => commands::lint::run(options),
        Command::Watch(options) => commands::watch::run(options),
        Command::Ca(ca) => commands::ca::run(ca),
    }
}
