//! `lucarne load run` and `lucarne load quick`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lucarne_load::plan::Plan;
use lucarne_load::{PrepareError, Run};

use super::exit_code::misconfigured;
use super::{execute, output, settings};

/// Options of `lucarne load run` and `lucarne load quick`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Plan to run; `lucarne load check` prints its problems
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Settings in addition to the plan.
    #[command(flatten)]
    pub settings: settings::Flags,
    /// Part of the load.
    #[command(flatten)]
    pub part: settings::PartFlags,
    /// Flags of the reports.
    #[command(flatten)]
    pub output: output::Flags,
}

/// Maximum duration of a quick run.
const QUICK: Duration = Duration::from_secs(20);

pub(super) fn run(options: &Options) -> ExitCode {
    start(options, None)
}

/// Runs the plan within [`QUICK`].
pub(super) fn quick(options: &Options) -> ExitCode {
    start(options, Some(QUICK))
}

fn start(options: &Options, length: Option<Duration>) -> ExitCode {
    let Some(mut plan) = read(&options.plan) else {
        return misconfigured("nothing was run; correct the plan first");
    };
    if let Some(length) = length {
        for raised in plan.quicken(length) {
            noteln!("quick: {raised}");
        }
    }
    let seed = options.settings.seed(plan.seed);
    let mut run = match into_run(plan, &options.plan, &options.settings, seed) {
        Ok(run) => run,
        Err(error) => return misconfigured(error),
    };
    if let Err(why) = options.part.add_to(&mut run) {
        return misconfigured(why);
    }
    execute::execute(run, &options.output)
}

/// Returns the run of the plan at `path`, with the settings of flags.
pub(super) fn into_run(
    plan: Plan,
    path: &Path,
    flags: &settings::Flags,
    seed: u64,
) -> Result<Run, PrepareError> {
    let threads = flags.threads(plan.threads);
    let mut run = plan.into_run(seed)?;
    if run.name.is_empty() {
        run.name = name_of(path);
    }
    run.workers = threads;
    flags.add_to(&mut run);
    Ok(run)
}

/// Reads a plan, and prints its warnings and problems. Returns `None` if there are problems.
pub(super) fn read(path: &Path) -> Option<Plan> {
    read_with(path, &|name| std::env::var(name).ok())
}

/// Reads a plan like [`read`], with the values of variables that `lookup` returns.
pub(super) fn read_with(path: &Path, lookup: &impl Fn(&str) -> Option<String>) -> Option<Plan> {
    let (plan, report) = Plan::read_with(path, &lucarne_scenarios::scenarios(), lookup);
    for line in report.warning_lines() {
        warnln!("warning: {line}");
    }
    for line in report.problem_lines() {
        errln!("problem: {line}");
    }
    plan
}

/// Returns the name of a plan's file, for a plan without a name.
fn name_of(plan: &Path) -> String {
    let stem = plan.file_stem().unwrap_or(plan.as_os_str());
    stem.to_string_lossy().into_owned()
}
