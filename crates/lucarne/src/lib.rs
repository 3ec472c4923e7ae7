//! Lucarne, a Certificate Transparency log: the command line, the configuration, and the
//! integration of the other crates.
//!
//! ```text
//! arguments → cli → commands → config → open → hosting → server ← listen ← clients
//!                                                 ↑        │
//!                                              reload ← upkeep ← signals
//!                                                          └→ successor → handover
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`run`] | runs a command |
//! | [`cli`], [`examples`], [`single_dash`], [`usage`] | the command line, also with the flags of Go programs |
//! | `commands` | one module for each command |
//! | [`config`] | the settings from a YAML file or from flags |
//! | `open`, `late` | data, locks and keys, opened when a log needs them |
//! | `creation`, `inception`, `survey` | missing logs, the day of creation, warnings |
//! | `hosting`, `server`, `closing` | the logs of a process, their server, and its shutdown |
//! | `listen`, `tls`, `testcert` | listening sockets, and the certificates of the HTTP server |
//! | `instances`, `known` | listeners for other instances, and places with checkpoints |
//! | `prefix` | the URLs of logs |
//! | `roots`, `ccadb` | the roots that a log accepts |
//! | `describe` | `log.v3.json` in the directory of a log |
//! | [`documentation`] | the generated tables of the documentation |
//! | `witness_service`, `mirror` | the witness with its log lists, and the mirror |
//! | `witness_client` | requests of a log to its witnesses |
//! | `upkeep`, `signals`, `reload` | signals, and the settings that reload |
//! | `successor`, `handover` | an upgrade without refused connections |
//! | `notify`, `runtime`, `descriptors` | service manager, threads, and limits of the process |
//! | `metering`, `process_metrics`, `verification` | metrics of stores, process, signatures |
//! | `otlp` | traces of submissions, and metrics, for an OpenTelemetry collector |
//! | `logging`, `journald`, `line_writer`, `output`, `causes` | log lines, output, and causes of errors |
//! | `version` | version of the program and of its build |
// These macros panic if the output is closed. `output` has the replacements.
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
pub mod documentation;
pub mod examples;
mod files;
mod handover;
mod hosting;
mod inception;
mod instances;
mod journald;
mod known;
mod late;
mod line_writer;
mod listen;
mod logging;
mod metering;
mod mirror;
mod notify;
mod open;
#[cfg(feature = "otlp")]
mod otlp;
mod prefix;
mod process_metrics;
mod reload;
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
pub mod usage;
mod verification;
mod version;
#[cfg(not(feature = "otlp"))]
mod without_otlp;
mod witness_client;
mod witness_service;

use std::process::ExitCode;

use cli::{Cli, Command};
use commands::journal::Journal;
use commands::lock::options::Lock;
use logging::Logging;
#[cfg(not(feature = "otlp"))]
use without_otlp as otlp;

/// Runs the command of the command line.
pub fn run(cli: &Cli) -> ExitCode {
    process_metrics::begin();
    let level = match &cli.command {
        Command::Demo(_) | Command::Load(_) | Command::Watch(_) => "warn",
        // These commands print their findings themselves.
        Command::Lock(Lock::Show(_)) | Command::Journal(_) => "error",
        // Log lines would disturb the live view.
        Command::Proxy(options) if options.live() => "off",
        // The metrics and /health already report repeated requests, so object_store logs only
        // warnings.
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
        Command::Config(task) => commands::config::run(task),
        Command::Init(file) => commands::init::run(&file.config),
        Command::Adopt(options) => commands::adopt::run(options),
        Command::GiveBack(options) => commands::give_back::run(options),
        Command::Lock(Lock::Show(options)) => commands::lock::show::run(options),
        Command::Lock(Lock::Copy(options)) => commands::lock::copy::run(options),
        Command::Lock(Lock::Rebuild(options)) => commands::lock::rebuild::run(options),
        Command::Journal(Journal::List(options)) => commands::journal::list(options),
        Command::Fsck(options) => commands::fsck::run(options),
        Command::Repair(options) => commands::fsck::repair(options),
        Command::Archive(options) => commands::archive::run(options),
        Command::Witness(file) => commands::serve::witness(&file.config, logging),
        Command::Mirror(file) => commands::serve::mirror(&file.config, logging),
        Command::Keygen(keygen) => commands::keygen::run(keygen),
        Command::Signer(options) => commands::signer::run(options),
        Command::Demo(options) => commands::demo::run(options, logging),
        Command::Load(load) => commands::load::run(load),
        Command::Proxy(options) => commands::proxy::run(options, logging),
        Command::Lint(options) => commands::lint::run(options),
        Command::Watch(options) => commands::watch::run(options),
        Command::Ca(ca) => commands::ca::run(ca),
        Command::Generate(generate) => commands::generate::run(generate, examples::command_line()),
    }
}

/// Sets the umask of commands that write a log, so that only this user can read new files,
/// including the files of the index. Published files get an explicit mode.
fn keep_files_private(command: &Command) {
    let is_of_log = matches!(
        command,
        Command::Serve(_)
            | Command::Witness(_)
            | Command::Mirror(_)
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
