//! `lucarne load find`: the highest rate that meets an objective.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lucarne_load::executor::{Rate, Stage};
use lucarne_load::plan::{Plan, PlannedScenario};
use lucarne_load::snapshot::LATE;
use lucarne_load::threshold::Threshold;
use lucarne_load::{ExecutorConfig, Outcome, Run, Summary, Verdict};
use serde::Serialize;

use super::exit_code::{exit, misconfigured};
use super::output::{self, place};
use super::search::{Found, Step, search};
use super::{arrivals, execute, plan, settings};
use crate::commands::duration;
use crate::runtime;
use crate::signals::{Signals, Wish};

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

/// One step of the search, for the report.
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
    let found = options.search(&mut rows);
    let result = match found {
        Ok(found) => found,
        Err(error) if rows.is_empty() => {
            crate::commands::failed(&error);
            return exit(error.verdict());
        }
        Err(error) => {
            crate::commands::failed(&error);
            outln!("{}", text(&rows, None));
            return exit(error.verdict());
        }
    };
    outln!("{}", text(&rows, Some(result)));
    if let Some(path) = &options.output
        && let Err(why) = place(path, &options.json(&rows, result))
    {
        errln!("lucarne: {why}");
        return exit(Verdict::OutputFailed);
    }
    exit(match result {
        Found::Highest(_) | Found::AtLeast(_) => Verdict::Passed,
        Found::Generator(_) | Found::Nothing => Verdict::Crossed,
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
        search(from, to, |rate| {
            if !rows.is_empty() && !pause(self.pause) {
                return Err(SearchError::Run {
                    message: "stopped".into(),
                    verdict: Verdict::Interrupted,
                });
            }
            let outcome = execute::perform(self.at(rate)?, None, |_| Ok(()));
            let (step, row) = self.judge(rate, &outcome)?;
            noteln!("{}", line(&row));
            rows.push(row);
            Ok(step)
        })
    }

    /// Returns the run of a step.
    fn at(&self, rate: f64) -> Result<Run, SearchError> {
        let (plan, _) = Plan::read(&self.plan, &lucarne_scenarios::scenarios());
        let mut plan = plan.ok_or(SearchError::Plan)?;
        let rates = plan.scenarios.iter().map(usual_rate);
        let rates = rates.collect::<Result<Vec<f64>, _>>()?;
        let sum: f64 = rates.iter().sum();
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
        ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(rate),
            duration: self.step_duration,
            options,
        }
    }

    /// Returns the result of a step.
    fn judge(&self, rate: f64, outcome: &Outcome) -> Result<(Step, Row), SearchError> {
        let summary = &outcome.summary;
        let step = match outcome.verdict {
            Verdict::Passed | Verdict::Unjudged => Step::Met,
            Verdict::Crossed if summary.started == 0 => return Err(failed(outcome)),
            Verdict::Crossed if is_late(summary) => Step::Limited,
            Verdict::Crossed => Step::Missed,
            _ => return Err(failed(outcome)),
        };
        let observed = summary.thresholds.iter().take(self.objective.len());
        let crossed = summary.thresholds.iter().find(|it| !it.passed);
        let row = Row {
            rate,
            result: match step {
                Step::Met => "met",
                Step::Missed => "missed",
                Step::Limited => "generator",
            },
            observed: observed.map(|it| it.observed).collect(),
            crossed: crossed.map(|it| format!("{}: {}", it.metric, it.expression)),
        };
        Ok((step, row))
    }

    fn json(&self, rows: &[Row], found: Found) -> String {
        let objective = |it: &Threshold| format!("{}: {}", it.key, it.expression);
        let curve = Curve {
            objectives: self.objective.iter().map(objective).collect(),
            rate: match found {
                Found::Highest(rate) | Found::AtLeast(rate) => Some(rate),
                Found::Generator(rate) => rate,
                Found::Nothing => None,
            },
            at_least: matches!(found, Found::AtLeast(_) | Found::Generator(_)),
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
    let rate = |rate: f64| format!("{}", Rate::per_second(rate.floor()));
    text.push_str(&match found {
        None => "no result: the search was not completed".to_owned(),
        Some(Found::Highest(met)) => format!("highest rate: {}, to 5 %", rate(met)),
        Some(Found::AtLeast(met)) => {
            format!("highest rate: at least {}, the value of --to", rate(met))
        }
        Some(Found::Generator(Some(met))) => format!(
            "highest rate: at least {}; beyond it, the load generator was late: use more \
             threads or machines",
            rate(met)
        ),
        Some(Found::Generator(None)) => {
            "no result: the load generator was late at --from".to_owned()
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

fn failed(outcome: &Outcome) -> SearchError {
    let error = outcome.error.clone();
    SearchError::Run {
        message: error.unwrap_or_else(|| outcome.verdict.to_string()),
        verdict: outcome.verdict,
    }
}

/// Returns whether the load generator delayed iterations.
fn is_late(summary: &Summary) -> bool {
    let delay = summary.select("iteration_start_delay", &[]);
    let p99 = delay
        .as_ref()
        .and_then(|delay| Some(delay.trend()?.percentile(99.0)));
    p99.is_some_and(|p99| p99 >= LATE)
}

/// Pauses, and returns whether the search continues after the pause.
fn pause(time: Duration) -> bool {
    let stopped = runtime::run_here(async move {
        let mut signals = Signals::listen()?;
        let end = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(true),
                wish = signals.next() => if let Wish::Stop(_) = wish {
                    return Ok(false);
                },
            }
        }
    });
    // Without handlers, a signal ends the process.
    stopped.unwrap_or(true)
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
