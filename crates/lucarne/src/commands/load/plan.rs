//! `lucarne load run` and `lucarne load quick`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lucarne_load::plan::Plan;

use super::exit_code::misconfigured;
use super::{execute, output, settings};

/// A plan, and what is told of its run.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// The plan; `lucarne load check` explains what is wrong with one
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// The settings that are added to it.
    #[command(flatten)]
    pub settings: settings::Flags,
    /// The output.
    #[command(flatten)]
    pub output: output::Flags,
}

/// The time that a quick run takes.
const QUICK: Duration = Duration::from_secs(20);

/// Runs the plan.
pub(super) fn run(options: &Options) -> ExitCode {
    start(options, None)
}

/// Runs it in [`QUICK`] time.
pub(super) fn quick(options: &Options) -> ExitCode {
    start(options, Some(QUICK))
}

fn start(options: &Options, length: Option<Duration>) -> ExitCode {
    let (plan, report) = Plan::read(&options.plan, &lucarne_scenarios::scenarios());
    for line in report.warning_lines() {
        errln!("warning: {line}");
    }
    let Some(mut plan) = plan else {
        for line in report.problem_lines() {
            errln!("problem: {line}");
        }
        return misconfigured("nothing was run; correct the plan first");
    };
    if let Some(length) = length {
        for raised in plan.quicken(length) {
            errln!("quick: {raised}");
        }
    }
    let seed = options.settings.seed(plan.seed);
    let threads = options.settings.threads(plan.threads);
    let name = match plan.name.is_empty() {
        true => name_of(&options.plan),
        false => plan.name.clone(),
    };
    let mut run = match plan.into_run(seed) {
        Ok(run) => run,
        Err(error) => return misconfigured(error),
    };
    run.name = name;
    run.workers = threads;
    run.allow.clone_from(&options.settings.allow);
    options.settings.add_thresholds(&mut run.thresholds);
    for planned in &mut run.scenarios {
        options.settings.add_tags(planned);
    }
    execute::execute(run, &options.output)
}

/// A plan without a name is called like its file.
fn name_of(plan: &Path) -> String {
    let stem = plan.file_stem().unwrap_or(plan.as_os_str());
    stem.to_string_lossy().into_owned()
}
