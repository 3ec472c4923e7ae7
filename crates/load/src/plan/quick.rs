//! Shortened plans, which check in a few seconds that everything works together.

use std::time::Duration;

use super::{Plan, PlannedScenario};
use crate::ExecutorConfig;
use crate::executor::{Rate, Stage};

/// Minimum of iterations of a scenario, so that there are figures.
const LEAST: f64 = 10.0;
/// Time for iterations to finish after a quick run.
const GRACEFUL_STOP: Duration = Duration::from_secs(5);

impl Plan {
    /// Shortens the plan to `length`. Starts, durations, stages and minimum counts in thresholds
    /// shrink in proportion. Rates stay the same, unless a scenario would have fewer than ten
    /// iterations. Returns a line for each raised rate. A plan that is short enough is not changed.
    pub fn quicken(&mut self, length: Duration) -> Vec<String> {
        let ends = self.scenarios.iter().map(PlannedScenario::end);
        let whole = ends.max().unwrap_or_default();
        if whole <= length || whole.is_zero() {
            return Vec::new();
        }
        let factor = length.as_secs_f64() / whole.as_secs_f64();
        for threshold in &mut self.thresholds.0 {
            threshold.shorten(factor, factor);
        }
        let scenarios = self.scenarios.iter_mut();
        scenarios
            .filter_map(|scenario| scenario.shorten(factor))
            .collect()
    }
}

impl PlannedScenario {
    /// Returns the end of the planned arrivals, relative to the start of the run.
    pub fn end(&self) -> Duration {
        self.start.saturating_add(self.executor.duration())
    }

    fn shorten(&mut self, factor: f64) -> Option<String> {
        self.start = self.start.mul_f64(factor);
        self.graceful_stop = self.graceful_stop.min(GRACEFUL_STOP);
        let raised = shorten(&mut self.executor, factor)?;
        Some(format!(
            "scenario {}: raised to {raised}, to reach {LEAST} iterations in the shortened time",
            self.name
        ))
    }
}

/// Shortens the executor. Returns a description of the new executor if its rate was raised.
fn shorten(executor: &mut ExecutorConfig, factor: f64) -> Option<String> {
    match executor {
        ExecutorConfig::ConstantArrivalRate {
            rate,
            duration,
            options,
        } => {
            *duration = duration.mul_f64(factor);
            options.iterations = options.iterations.map(|goal| scaled(goal, factor));
            let least = LEAST / duration.as_secs_f64();
            if rate.as_per_second() >= least {
                return None;
            }
            *rate = Rate::per_second(least);
        }
        ExecutorConfig::RampingArrivalRate {
            start,
            stages,
            options,
        } => {
            shorten_stages(stages, factor);
            options.iterations = options.iterations.map(|goal| scaled(goal, factor));
            let begun = begun(start.count, stages) / start.per.as_secs_f64();
            if begun >= LEAST || begun <= 0.0 {
                return None;
            }
            let raise = LEAST / begun;
            start.count *= raise;
            stages.iter_mut().for_each(|stage| stage.target *= raise);
        }
        ExecutorConfig::ConstantVus {
            duration,
            iterations,
            ..
        } => {
            *duration = duration.mul_f64(factor);
            *iterations = iterations.map(|goal| scaled(goal, factor));
            return None;
        }
        ExecutorConfig::RampingVus {
            stages, iterations, ..
        } => {
            shorten_stages(stages, factor);
            *iterations = iterations.map(|goal| scaled(goal, factor));
            return None;
        }
    }
    Some(executor.to_string())
}

fn shorten_stages(stages: &mut [Stage], factor: f64) {
    for stage in stages {
        stage.duration = stage.duration.mul_f64(factor);
    }
}

/// Returns the area of a ramp from `from` through `stages`, in units times seconds.
fn begun(from: f64, stages: &[Stage]) -> f64 {
    let mut at = from;
    let area = |stage: &Stage| {
        let mean = (at + stage.target) / 2.0;
        at = stage.target;
        mean * stage.duration.as_secs_f64()
    };
    stages.iter().map(area).sum()
}

fn scaled(goal: u64, factor: f64) -> u64 {
    ((goal as f64 * factor) as u64).max(LEAST as u64).min(goal)
}
