//! `lucarne check`: performs every step of `serve` up to the start itself.

use std::process::ExitCode;

use lucarne_net::counted;

use super::config_file::File;
use super::failed;
use crate::config::{Config, Report, Severity};
use crate::roots::{self, Purpose};
use crate::{runtime, survey};

const CODES: &str = "Exit codes:
  0  every log starts
  1  `serve` does not start (problem)
  3  `serve` starts, but at least one log does not (log problem)
  4  `serve` starts, and logs wait for a store or a server that does not respond (unavailable)";

/// Options of `lucarne check`.
#[derive(Debug, clap::Args)]
#[command(after_help = CODES)]
#[group(skip)]
pub struct Options {
    /// Configuration file.
    #[command(flatten)]
    pub file: File,

    /// Exit with 0 whenever `serve` starts, even without some logs. For `ExecStartPre=` of a unit,
    /// so that a failing log does not stop the others
    #[arg(long)]
    pub before_start: bool,
}

/// Exit code if `serve` starts, but at least one log does not.
const A_LOG_STOPS: u8 = 3;
/// Exit code if `serve` starts, and logs wait for a store or a server.
const UNAVAILABLE: u8 = 4;

/// Prints every finding about the configuration. The worst finding decides the exit code.
pub(crate) fn run(options: &Options) -> ExitCode {
    let (config, mut report) = Config::read(&options.file.config);
    let mut summary = Vec::new();
    if let Some(config) = &config {
        let purpose = if options.before_start {
            Purpose::LookBeforeStart
        } else {
            Purpose::Look
        };
        summary = look_at(config, purpose, &mut report);
        survey::certificate(config, lucarne_mint::now_ms(), &mut report);
        survey::places(config, &mut report);
        let looked = runtime::run(async {
            survey::stores(config, &mut report).await;
            if let Some(witness) = &config.witness {
                crate::witness_service::look(witness, &mut report).await;
            }
            Ok(())
        });
        if let Err(error) = looked {
            return failed(error);
        }
    }
    conclude(&summary, &report);
    exit_code(&report, options.before_start)
}

fn exit_code(report: &Report, before_start: bool) -> ExitCode {
    let found = |severity| !report.findings(severity).is_empty();
    if found(Severity::Problem) {
        return ExitCode::FAILURE;
    }
    if before_start {
        return ExitCode::SUCCESS;
    }
    if found(Severity::LogProblem) {
        return ExitCode::from(A_LOG_STOPS);
    }
    if found(Severity::Unavailable) {
        return ExitCode::from(UNAVAILABLE);
    }
    ExitCode::SUCCESS
}

/// Checks each log, and returns a line of description for each.
fn look_at(config: &Config, purpose: Purpose, report: &mut Report) -> Vec<String> {
    let now_ms = lucarne_mint::now_ms();
    let mut summary = Vec::new();
    // Problems on this machine are reported without a wait for the network.
    let sound = report.problems().is_empty() && config.logs.iter().all(roots::has_files);
    let purpose = match purpose {
        Purpose::Look if !sound => Purpose::LookHere,
        other => other,
    };
    for log in &config.logs {
        let roots = roots::load(log, purpose, report);
        survey::log(log, &roots, now_ms, report);
        summary.push(format!(
            "log {}: {}, {}, {}",
            log.shortname.value,
            log.submission.value.url,
            counted(roots.len(), "root"),
            window(log.policy.not_after_start, log.policy.not_after_limit)
        ));
    }
    if let Some(witness) = &config.witness {
        summary.push(format!(
            "witness {}: {}, {}",
            witness.name(),
            witness.submission.value.url,
            counted(witness.logs.origins().len(), "configured log"),
        ));
    }
    if let Some(mirror) = &config.mirror {
        summary.push(format!(
            "mirror {}: {}, {}",
            mirror.name(),
            mirror.submission.value.url,
            counted(mirror.logs.len(), "log"),
        ));
    }
    summary
}

fn window(start: Option<u64>, limit: Option<u64>) -> String {
    let time = |time: Option<u64>| time.map_or("…".to_owned(), crate::config::rfc3339);
    match (start, limit) {
        (None, None) => "any notAfter".to_owned(),
        (start, limit) => format!("notAfter from {} to {}", time(start), time(limit)),
    }
}

/// Printed names of the severities, the worst first.
const LABELS: [(Severity, &str); 4] = [
    (Severity::Problem, "problem"),
    (Severity::LogProblem, "log problem"),
    (Severity::Unavailable, "unavailable"),
    (Severity::Warning, "warning"),
];

/// Prints all findings, and their number per severity.
pub(crate) fn conclude(summary: &[String], report: &Report) {
    for line in summary {
        outln!("{line}");
    }
    for (severity, label) in LABELS {
        for line in report.lines(severity) {
            outln!("{label}: {line}");
        }
    }
    let counts = LABELS.iter().filter_map(|(severity, label)| {
        let number = report.findings(*severity).len();
        match (severity, number) {
            (Severity::Problem | Severity::Warning, 0) => Some(format!("no {label}s")),
            (_, 0) => None,
            (Severity::Unavailable, number) => Some(format!("{number} {label}")),
            (_, 1) => Some(format!("1 {label}")),
            (_, number) => Some(format!("{number} {label}s")),
        }
    });
    outln!("{}", counts.collect::<Vec<_>>().join(", "));
}
