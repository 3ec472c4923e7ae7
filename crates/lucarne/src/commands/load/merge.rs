//! `lucarne load merge`: merges several summaries.

use std::path::PathBuf;
use std::process::ExitCode;

use lucarne_load::{Summary, Verdict};

use super::exit_code::{exit, misconfigured};
use super::output;

/// Options of `lucarne load merge`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Summaries of runs at the same time
    #[arg(value_name = "SUMMARY", required = true, num_args = 1..)]
    pub summaries: Vec<PathBuf>,

    /// Write the merged summary; same as --summary
    #[arg(short, long, value_name = "FILE", conflicts_with = "summary")]
    pub output: Option<PathBuf>,

    /// Flags of the reports.
    #[command(flatten)]
    pub report: output::Report,
}

/// Merges the summaries, and evaluates the result with their thresholds.
pub(super) fn run(options: &Options) -> ExitCode {
    let mut report = options.report.clone();
    report.summary = report.summary.or_else(|| options.output.clone());
    let parts: Result<Vec<Summary>, output::SummaryError> = options
        .summaries
        .iter()
        .map(|path| output::read(path))
        .collect();
    let (baseline, parts) = match (report.baseline(), parts) {
        (Ok(baseline), Ok(parts)) => (baseline, parts),
        (Err(why), _) | (_, Err(why)) => return misconfigured(why),
    };
    if let Some((first, second)) = repeated(&parts) {
        let (first, second) = (&options.summaries[first], &options.summaries[second]);
        return misconfigured(format_args!(
            "cannot merge the summaries: {} has the same run as {}: name each run once",
            second.display(),
            first.display()
        ));
    }
    let mut whole = match Summary::merge(parts) {
        Ok(whole) => whole,
        Err(error) => return misconfigured(format_args!("cannot merge the summaries: {error}")),
    };
    let verdict: Verdict = whole.verdict;
    let verdict = report.write(&mut whole, baseline.as_ref(), verdict, true);
    exit(verdict)
}

/// Returns the indices of two summaries of the same run, whose figures would count twice. One of
/// both can also be the result of an earlier merge that began with this run.
fn repeated(parts: &[Summary]) -> Option<(usize, usize)> {
    let same = |one: &Summary, other: &Summary| {
        // A run that could not begin has no start.
        one.started != 0
            && one.started == other.started
            && one.command == other.command
            && one.environment.host == other.environment.host
            && one.environment.peak_memory == other.environment.peak_memory
    };
    parts.iter().enumerate().find_map(|(index, part)| {
        let earlier = parts[..index].iter().position(|other| same(other, part))?;
        Some((earlier, index))
    })
}
