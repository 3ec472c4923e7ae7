//! `lucarne check`: everything of a start short of starting.

use std::path::Path;
use std::process::ExitCode;

use super::failed;
use crate::config::{Config, Report};
use crate::roots::{self, Remember};
use crate::{runtime, survey};

/// Prints every problem and every warning of the configuration at `path`.
pub(crate) fn run(path: &Path) -> ExitCode {
    let (config, mut report) = Config::read(path);
    let mut summary = Vec::new();
    if let Some(config) = &config {
        summary = look_at(config, &mut report);
        survey::places(config, &mut report);
        let looked = runtime::run(async {
            survey::stores(config, &mut report).await;
            Ok(())
        });
        if let Err(error) = looked {
            return failed(error);
        }
    }
    conclude(&summary, &report);
    match report.problems() {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Looks at each log, and describes it in a line.
fn look_at(config: &Config, report: &mut Report) -> Vec<String> {
    let now_ms = lucarne_mint::now_ms();
    let mut summary = Vec::new();
    for log in &config.logs {
        let roots = roots::load(log, Remember::No, report);
        survey::log(log, &roots, now_ms, report);
        summary.push(format!(
            "log {}: {}, {} roots, {}",
            log.shortname.value,
            log.submission.value.url,
            roots.len(),
            window(log.policy.not_after_start, log.policy.not_after_limit)
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

/// Prints what was found, and how much of it.
pub(crate) fn conclude(summary: &[String], report: &Report) {
    for line in summary {
        println!("{line}");
    }
    for line in report.problem_lines() {
        println!("problem: {line}");
    }
    for line in report.warning_lines() {
        println!("warning: {line}");
    }
    let count = |number: usize, what: &str| match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    println!(
        "{}, {}",
        count(report.problems().len(), "problem"),
        count(report.warnings().len(), "warning")
    );
}
