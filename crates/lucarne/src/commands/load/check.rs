//! `lucarne load check`: everything of a run short of running.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lucarne_load::Verdict;
use lucarne_load::plan::Plan;

use super::exit_code::exit;
use crate::commands::check::conclude;

/// The plan.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
}

/// Prints every problem and every warning of the plan at `path`.
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
