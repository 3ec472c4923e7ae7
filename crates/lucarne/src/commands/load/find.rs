//! `lucarne load find`: the highest rate that meets an objective.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lucarne_load::executor::{Rate, Stage};
use lucarne_load::plan::{Plan, PlannedScenario};
use lucarne_load::threshold::Threshold;
use lucarne_load::{ExecutorConfig, Outcome, Run, Verdict};
use serde::Serialize;

use super::exit_code::exit;
use super::judge::{Limits, failure, judge, response_time};
use super::live_metrics::Live;
use super::output::{self, place};
use super::search::{Found, Step, search};
use super::{arrivals, execute, plan, settings};
use crate::commands::duration;
use crate::runtime;
use crate::signals::{Signals, Wish};

/// Waits in seconds for a target that does not respond after a step that overloaded it.
const RETRIES: [u64; 5] = [1, 2, 4, 8, 16];

/// Options of `lucarne load find`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Plan whose scenarios start at rates; their rates keep their proportions
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Condition that a rate must meet, such as 'http_req_duration: p(99)<500', besides the
    /// thresholds of the plan. May be repeated
    #[arg(long, value_name = "METRIC: EXPRESSION", required = true, value_parser = Threshold::parse)]
    pub objective: Vec<Threshold>,

    /// Lowest rate of the search: 100, 100/s, 6000/m
    #[arg(long, value_name = "N[/UNIT]", value_parser = arrivals::rate)]
    pub from: Rate,

    /// Highest rate of the search
    #[arg(long, value_name = "N[/UNIT]", value_parser = arrivals::rate)]
    pub to: Rate,

    /// Duration of a step
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub step_duration: Duration,

    /// Pause between two steps
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub pause: Duration,

    /// Write the result and all steps as JSON to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Settings in addition to the plan.
    #[command(flatten)]
    pub settings: settings::Flags,
}

/// Step of the search, for the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Iterations per second.
    rate: f64,
    result: &'static str,
    /// Measured values of the objectives.
    observed: Vec<Option<f64>>,
    /// First threshold that was crossed.
    #[serde(skip_serializing_if = "Option::is_none")]
    crossed: Option<String>,
}

/// Result of a search, for the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Curve<'r> {
    objectives: Vec<String>,
    /// Highest rate that met the objectives.
    rate: Option<f64>,
    /// Whether a higher rate may meet the objectives, too.
    at_least: bool,
    steps: &'r [Row],
}

/// Reasons why a search ends without a result.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("--from: {}/s is above --to, {}/s", .from, .to)]
    Backwards { from: f64, to: f64 },
    #[error("--step-duration: must be greater than zero")]
    NoTime,
    #[error("--objective: {0}")]
    Objective(String),
    #[error("scenarios.{0}: `find` changes rates; use `constant-arrival-rate`")]
    ClosedLoop(String),
    #[error("scenarios.{0}: the rate is always zero")]
    NoRate(String),
    #[error("nothing was run; correct the plan first")]
    Plan,
    #[error("{message}")]
    Run { message: String, verdict: Verdict },
}

impl SearchError {
    fn verdict(&self) -> Verdict {
        match self {
            SearchError::Run { verdict, .. } => *verdict,
            _ => Verdict::Configuration,
        }
    }
}

pub(super) fn run(options: &Options) -> ExitCode {
    if let Some(path) = &options.output
        && let Err(why) = output::writable(path)
    {
        crate::commands::failed(format_args!("{why}; nothing was run"));
        return exit(Verdict::OutputFailed);
    }
    let mut rows = Vec::new();
    let result = options.search(&mut rows);
    if let Err(error) = &result {
        crate::commands::failed(error);
        if rows.is_empty() {
            return exit(error.verdict());
        }
    }
    let found = result.as_ref().ok().copied();
    if let Err(why) = options.report(&rows, found) {
        errln!("lucarne: {why}");
        return exit(Verdict::OutputFailed);
    }
    exit(match result {
        Ok(Found::Highest(_) | Found::AtLeast(_)) => Verdict::Passed,
        Ok(Found::Generator(_) | Found::Nothing) => Verdict::Crossed,
        Err(error) => error.verdict(),
    })
}

impl Options {
    fn search(&self, rows: &mut Vec<Row>) -> Result<Found, SearchError> {
        let (from, to) = (self.from.as_per_second(), self.to.as_per_second());
        if from > to {
            return Err(SearchError::Backwards { from, to });
        }
        if self.step_duration.is_zero() {
            return Err(SearchError::NoTime);
        }
        plan::read(&self.plan).ok_or(SearchError::Plan)?;
        // A rate that no executor can offer is refused before the first step.
        self.at(to)?;
        let mut usual = None;
        search(from, to, |rate| {
            if !rows.is_empty() {
                pause(self.pause)?;
            }
            let (outcome, most_users) = self.perform(rate, highest_met(rows).is_some())?;
            let limits = Limits { most_users, usual };
            let step = judge(&outcome, &limits, highest_met(rows).is_some());
            let step = step.ok_or_else(|| SearchError::Run {
                message: failure(&outcome).unwrap_or_else(|| outcome.verdict.to_string()),
                verdict: outcome.verdict,
            })?;
            if step == Step::Met {
                usual = usual.or_else(|| response_time(&outcome.summary));
            }
            let row = self.row(rate, step, &outcome);
            noteln!("{}", line(&row));
            rows.push(row);
            Ok(step)
        })
    }

    /// Runs a step. Waits for a target that an earlier step has overloaded. Returns also the
    /// largest numbers of users of the scenarios.
    fn perform(&self, rate: f64, may_wait: bool) -> Result<(Outcome, Vec<u64>), SearchError> {
        let mut waits = RETRIES.iter().filter(|_| may_wait);
        loop {
            let run = self.at(rate)?;
            let executors = run.scenarios.iter().map(|it| it.executor.arrival_rate());
            let most_users = executors.map(|options| options.map_or(0, |it| it.max_vus));
            let most_users = most_users.collect();
            let outcome = execute::perform(run, Live::default(), |_| Ok(()));
            let is_down = outcome.verdict == Verdict::Unreachable && outcome.summary.started == 0;
            match waits.next().filter(|_| is_down) {
                Some(seconds) => pause(Duration::from_secs(*seconds))?,
                None => return Ok((outcome, most_users)),
            }
        }
    }

    /// Prints the steps and the result, and writes them to the file of `--output`.
    fn report(&self, rows: &[Row], found: Option<Found>) -> Result<(), output::OutputError> {
        let stdout = self.output.as_deref() == Some(Path::new(output::STDOUT));
        output::say(&text(rows, found), stdout)?;
        match &self.output {
            Some(path) => place(path, &self.json(rows, found)),
            None => Ok(()),
        }
    }

    /// Returns the run of a step.
    fn at(&self, rate: f64) -> Result<Run, SearchError> {
        let (plan, _) = Plan::read(&self.plan, &lucarne_scenarios::scenarios());
        let mut plan = plan.ok_or(SearchError::Plan)?;
        let rates = plan.scenarios.iter().map(usual_rate);
        let rates = rates.collect::<Result<Vec<f64>, _>>()?;
        let sum: f64 = rates.iter().sum();
        let ends = plan.scenarios.iter().map(PlannedScenario::end);
        let time = self
            .step_duration
            .div_duration_f64(ends.max().unwrap_or_default());
        let time = time.min(1.0);
        for threshold in &mut plan.thresholds.0 {
            threshold.shorten(time, (time * rate / sum).min(1.0));
        }
        for (scenario, share) in plan.scenarios.iter_mut().zip(rates) {
            scenario.start = Duration::ZERO;
            scenario.executor = self.executor(&scenario.executor, rate * share / sum);
        }
        let seed = self.settings.seed(plan.seed);
        let threads = self.settings.threads(plan.threads);
        let refused = |message: String| SearchError::Run {
            message,
            verdict: Verdict::Configuration,
        };
        let mut run = plan
            .into_run(seed)
            .map_err(|error| refused(error.to_string()))?;
        run.workers = threads;
        self.settings.add_to(&mut run);
        run.check_thresholds()
            .map_err(|error| refused(error.to_string()))?;
        run.check_allowed()
            .map_err(|error| refused(error.to_string()))?;
        let of_plan = std::mem::take(&mut run.thresholds.0);
        run.thresholds.0 = [self.objective.clone(), of_plan].concat();
        let checked = run.check_thresholds();
        checked.map_err(|error| SearchError::Objective(error.to_string()))?;
        Ok(run)
    }

    fn executor(&self, planned: &ExecutorConfig, rate: f64) -> ExecutorConfig {
        let mut options = planned.arrival_rate().cloned().unwrap_or_default();
        options.iterations = None;
        // A rate whose arrivals never start is not possible.
        options.min_achieved = options.min_achieved.max(0.99);
        ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(rate),
            duration: self.step_duration,
            options,
        }
    }

    fn row(&self, rate: f64, step: Step, outcome: &Outcome) -> Row {
        let summary = &outcome.summary;
        let observed = summary.thresholds.iter().take(self.objective.len());
        let crossed = summary.thresholds.iter().find(|it| !it.passed);
        let crossed = crossed.map(|it| format!("{}: {}", it.metric, it.expression));
        Row {
            rate,
            result: match step {
                Step::Met => "met",
                Step::Missed => "missed",
                Step::Limited => "generator",
            },
            observed: observed.map(|it| it.observed).collect(),
            crossed: failure(outcome).or(crossed),
        }
    }

    fn json(&self, rows: &[Row], found: Option<Found>) -> String {
        let objective = |it: &Threshold| format!("{}: {}", it.key, it.expression);
        let curve = Curve {
            objectives: self.objective.iter().map(objective).collect(),
            rate: match found {
                Some(Found::Highest(rate) | Found::AtLeast(rate)) => Some(rate),
                Some(Found::Generator(rate)) => rate,
                Some(Found::Nothing) => None,
                None => highest_met(rows),
            },
            at_least: !matches!(found, Some(Found::Highest(_) | Found::Nothing)),
            steps: rows,
        };
        // The report contains only types that serde_json can always serialize.
        serde_json::to_string(&curve).unwrap_or_default() + "\n"
    }
}

/// Describes the steps and the result.
fn text(rows: &[Row], found: Option<Found>) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{}\n", line(row)));
    }
    let rate = |rate: f64| {
        // Three digits are more than the precision of the search.
        let step = 10_f64.powi((rate.log10().floor() as i32 - 2).min(0));
        format!("{}", Rate::per_second((rate / step).floor() * step))
    };
    text.push_str(&match found {
        None => match highest_met(rows) {
            Some(met) => format!(
                "highest rate: at least {}; the search was not completed",
                rate(met)
            ),
            None => "no result: the search was not completed".to_owned(),
        },
        Some(Found::Highest(met)) => format!("highest rate: {}, to 5 %", rate(met)),
        Some(Found::AtLeast(met)) => {
            format!("highest rate: at least {}, the value of --to", rate(met))
        }
        Some(Found::Generator(Some(met))) => format!(
            "highest rate: at least {}; beyond it, the load generator was the limit: use more \
             threads, users (maxVUs), ports or machines",
            rate(met)
        ),
        Some(Found::Generator(None)) => {
            "no result: the load generator was the limit at --from".to_owned()
        }
        Some(Found::Nothing) => "no result: --from does not meet the objective".to_owned(),
    });
    text
}

/// Returns the highest planned rate of a scenario, per second.
fn usual_rate(scenario: &PlannedScenario) -> Result<f64, SearchError> {
    let name = || scenario.name.clone();
    let rate = match &scenario.executor {
        ExecutorConfig::ConstantArrivalRate { rate, .. } => rate.as_per_second(),
        ExecutorConfig::RampingArrivalRate { start, stages, .. } => {
            let targets = stages.iter().map(|Stage { target, .. }| Rate {
                count: *target,
                per: start.per,
            });
            let rates = targets.chain([*start]).map(Rate::as_per_second);
            rates.fold(0.0, f64::max)
        }
        _ => return Err(SearchError::ClosedLoop(name())),
    };
    if rate > 0.0 {
        Ok(rate)
    } else {
        Err(SearchError::NoRate(name()))
    }
}

/// Returns the highest rate that met the objective twice.
fn highest_met(rows: &[Row]) -> Option<f64> {
    let met = |rate: f64| {
        rows.iter()
            .filter(|it| it.rate == rate && it.result == "met")
            .count()
    };
    let rates = rows.iter().map(|row| row.rate);
    rates.filter(|rate| met(*rate) > 1).reduce(f64::max)
}

/// Pauses.
///
/// # Errors
/// A signal has ended the pause, and the search.
fn pause(time: Duration) -> Result<(), SearchError> {
    let stopped = runtime::run_here(async move {
        let mut signals = Signals::listen()?;
        let end = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(false),
                wish = signals.next() => if let Wish::Stop(_) = wish {
                    return Ok(true);
                },
            }
        }
    });
    // Without handlers, a signal ends the process.
    match stopped {
        Ok(true) => Err(SearchError::Run {
            message: "stopped".into(),
            verdict: Verdict::Interrupted,
        }),
        _ => Ok(()),
    }
}

fn line(row: &Row) -> String {
    let observed = row.observed.iter().map(|value| match value {
        Some(value) => format!("{value:.2}"),
        None => "-".to_owned(),
    });
    let observed: Vec<String> = observed.collect();
    let crossed = row.crossed.as_ref().map(|it| format!("  {it}"));
    format!(
        "{:>12}  {:<9}  {}{}",
        Rate::per_second(row.rate).to_string(),
        row.result,
        observed.join("  "),
        crossed.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_before_an_error_are_a_result() {
        let row = |rate, result| Row {
            rate,
            result,
            observed: Vec::new(),
            crossed: None,
        };
        let rows = [row(0.5, "met"), row(0.5, "met"), row(1.0, "met")];
        assert_eq!(highest_met(&rows), Some(0.5));
        let last = |found| text(&rows, found).lines().next_back().map(str::to_owned);
        let said = "highest rate: at least 0.5/s; the search was not completed";
        assert_eq!(last(None).as_deref(), Some(said));
        let said = "highest rate: 123/s, to 5 %";
        assert_eq!(last(Some(Found::Highest(123.9))).as_deref(), Some(said));
    }
}
