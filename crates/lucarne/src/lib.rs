//! Lucarne, a Certificate Transparency log: the command line, the
//! configuration, and the wiring of the crates that do the work.
// They panic if nobody can be told; `output` has what is used instead.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod output;

mod causes;
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
mod process_metrics;
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
mod version;

use std::process::ExitCode;

use cli::{Cli, Command, Journal, Lock};
use logging::Logging;

/// Does what the command line asks for.
pub fn run(cli: &Cli) -> ExitCode {
    process_metrics::begin();
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
    let logging = match Logging::start(cli.log_format, filter) {
        Ok(logging) => logging,
        Err(error) => return commands::failed(error),
    };
    keep_files_private(&cli.command);
    output::exit_code(execute(cli, &logging))
}

fn execute(cli: &Cli, logging: &Logging) -> ExitCode {
    match &cli.command {
        Command::Serve(options) => commands::serve::run(options, logging),
        Command::Check(options) => commands::check::run(options),
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
        Command::Demo(options) => commands::demo::run(options, logging),
        Command::Load(load) => commands::load::run(load),
        Command::Proxy(options) => commands::proxy::run(options, logging),
        Command::Lint(options) => commands::lint::run(options),
        Command::Watch(options) => commands::watch::run(options),
        Command::Ca(ca) => commands::ca::run(ca),
    }
}

/// Whatever a log's own commands make is for this user alone, also the files of its index. What is
/// published has its mode set explicitly.
fn keep_files_private(command: &Command) {
    let is_of_log = matches!(
        command,
        Command::Serve(_)
            | Command::Init(_)
            | Command::Adopt(_)
            | Command::Repair(_)
            | Command::Lock(Lock::Rebuild(_))
            | Command::Demo(_)
    );
    if is_of_log {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
}
