//! `lucarne load check`: validates a plan without a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lucarne_load::Verdict;
use lucarne_load::plan::Plan;

use super::exit_code::exit;
use crate::commands::check::conclude;

/// Options of `lucarne load check`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Plan to check
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
}

/// Prints all problems and warnings of the plan at `path`.
pub(super) fn run(path: &Path) -> ExitCode {
    let (plan, report) = Plan::read(path, &lucarne_scenarios::scenarios());
    let scenarios = plan.iter().flat_map(|plan| &plan.scenarios);
    let summary: Vec<String> = scenarios
        .map(|scenario| {
            let (name, kind) = (&scenario.name, &scenario.kind);
            format!("scenario {name}: {kind}, {}", scenario.executor)
        })
        .collect();
    conclude(&summary, &report);
    match report.problems() {
        [] => ExitCode::SUCCESS,
        _ => exit(Verdict::Configuration),
    }
}
