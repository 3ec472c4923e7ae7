//! Conversion of samples into a summary.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::collector::Collector;
use super::scenario_state::ScenarioState;
use crate::environment::process_cpu;
use crate::excuse::Excuses;
use crate::note::Note;
use crate::samples::{Series as Sampled, UNANNOUNCED_ENDS};
use crate::snapshot::LATE;
use crate::summary::merge::achieved;
use crate::summary::{Check, Protocol, ScenarioSummary, Series, Status, Summary, TagList};
use crate::threshold::of_parts;

/// Fills in all figures of a finished run.
pub(crate) fn summarise(collector: &Collector, times: &RunTimes, mut summary: Summary) -> Summary {
    let seconds = |from: Option<Instant>, to: Option<Instant>| {
        let both = from
            .zip(to)
            .map(|(from, to)| to.saturating_duration_since(from));
        both.map_or(0.0, |duration| duration.as_secs_f64())
    };
    let span = collector.totals.span;
    summary.started = times.started;
    summary.duration = times
        .end
        .saturating_duration_since(times.begin)
        .as_secs_f64();
    summary.attack = seconds(span.first_sent, span.last_sent);
    summary.wait = seconds(span.last_sent, span.last_done);
    summary.environment.process_cpu = Some(times.process_cpu.as_secs_f64());
    summary.scenarios = collector
        .scenarios
        .iter()
        .map(|state| scenario(state))
        .collect();
    for (tags, series) in collector.totals.iter() {
        let tags = collector
            .registry
            .get(tags)
            .map_or_else(Vec::new, |tags| tags.to_vec());
        let excuses = excuses(&collector.scenarios, &tags);
        add(&mut summary, tags, series, excuses);
    }
    summary.tell_connectors();
    summary.errors = collector.errors();
    summary.timeline = collector.timeline.timeline(1.0);
    summary.thresholds = collector.evaluate(summary.duration);
    let parts = of_parts::crossed(&summary, &collector.thresholds);
    summary.thresholds.extend(parts);
    summary.tell_metrics();
    summary.notes.extend(silence(collector));
    summary.notes.extend(lateness(&summary));
    summary.notes.extend(unannounced_ends(&summary));
    summary.notes.extend(excused(&summary));
    summary
}

/// Returns a warning if responses ended with a TLS connection without `close_notify`.
fn unannounced_ends(summary: &Summary) -> Option<Note> {
    let count = summary.select(UNANNOUNCED_ENDS, &[])?.samples();
    Some(Note {
        title: format!("Warning: {count} responses ended without close_notify"),
        lines: vec![
            "the server closed the connection without ending TLS, and nothing else marked the end \
             of the response: part of it may be missing"
                .into(),
        ],
    })
}

/// Returns a note about targets that did not respond at the end of the load.
fn silence(collector: &Collector) -> Option<Note> {
    let scenarios = collector.scenarios.iter().zip(&collector.silences);
    let silent = scenarios.filter(|(_, silence)| silence.is_too_long());
    let lines: Vec<String> = silent
        .map(|(state, silence)| {
            let (name, lasted, limit) = (&state.config.name, silence.lasted, silence.limit);
            format!(
                "{name}: no response in the last {lasted:.0?} in which users waited; the limit is \
                 {limit:.1?}"
            )
        })
        .collect();
    (!lines.is_empty()).then(|| Note {
        title: "The target stopped responding (target_silent)".into(),
        lines,
    })
}

/// Returns the excuses of the scenario with these tags.
fn excuses<'s>(scenarios: &'s [Arc<ScenarioState>], tags: &TagList) -> Option<&'s Excuses> {
    let (_, scenario) = tags.iter().find(|(name, _)| name == "scenario")?;
    let state = scenarios
        .iter()
        .find(|state| state.config.name == *scenario);
    state.map(|state| &state.excuses)
}

/// Returns a warning about failed checks that do not count.
fn excused(summary: &Summary) -> Option<Note> {
    let mut counts = BTreeMap::new();
    for check in &summary.checks {
        if let Some(excuse) = check.excused {
            let (fails, total) = counts
                .entry((&check.name, excuse.words()))
                .or_insert((0, 0));
            *fails += check.fails;
            *total += check.fails + check.passes;
        }
    }
    let failed = counts.into_iter().filter(|(_, (fails, _))| *fails > 0);
    let lines: Vec<String> = failed
        .map(|((name, why), (fails, total))| {
            format!("{name} failed {fails} of {total} times: {why}")
        })
        .collect();
    (!lines.is_empty()).then(|| Note {
        title: "Warning: failed checks that do not count".into(),
        lines,
    })
}

/// Returns a warning if this machine, and not the target, delayed iterations.
fn lateness(summary: &Summary) -> Option<Note> {
    let late = |scenario: &ScenarioSummary| {
        let tags = [("scenario", scenario.name.as_str())];
        let metric = summary.select("iteration_start_delay", &tags)?;
        let p99 = metric.trend()?.percentile(99.0);
        let name = &scenario.name;
        (p99 >= LATE).then(|| format!("{name}: p(99)={p99:.1?}, max={:.1?}", metric_max(&metric)))
    };
    let mut lines: Vec<String> = summary.scenarios.iter().filter_map(late).collect();
    if lines.is_empty() {
        return None;
    }
    lines.push(
        "durations count from the due time of iterations, and include this delay: stop other \
        processes on this machine, or use more threads or a second machine"
            .into(),
    );
    Some(Note {
        title: "Warning: the load generator itself was late (iteration_start_delay)".into(),
        lines,
    })
}

fn metric_max(metric: &crate::Metric) -> Duration {
    metric.trend().map_or(Duration::ZERO, crate::Histogram::max)
}

/// Returns the counts of one scenario.
pub(crate) fn scenario(state: &ScenarioState) -> ScenarioSummary {
    let progress = &state.progress;
    // During the load, all counts grow: later ones are read first, so that none exceeds its cause.
    let completed = progress.completed.load(Relaxed);
    let interrupted = progress.interrupted.load(Relaxed);
    let dropped = progress.dropped.load(Relaxed);
    let started = progress.started.load(Relaxed);
    // A closed loop has a target number only with a goal.
    let asked = match state.config.executor.arrival_rate() {
        Some(_) => state.asked().max(started + dropped),
        None => {
            let goal = state.config.executor.iterations();
            goal.map_or(started, |goal| state.part.share(goal))
        }
    };
    ScenarioSummary {
        name: state.config.name.clone(),
        kind: state.config.kind.clone(),
        executor: state.config.executor.to_string(),
        tags: state.config.tags.clone(),
        asked,
        started,
        completed,
        dropped,
        interrupted,
        achieved: achieved(started, asked),
        users_max: progress.users_max.load(Relaxed),
        duration: state.lasted(),
    }
}

/// Adds the samples of one set of tags.
fn add(summary: &mut Summary, tags: TagList, series: &Sampled, excuses: Option<&Excuses>) {
    for check in &series.checks {
        summary.checks.push(Check {
            tags: tags.clone(),
            name: check.name.into(),
            passes: check.good,
            fails: check.bad,
            excused: excuses.and_then(|excuses| excuses.of_check(check.name)),
            details: check.details.clone(),
        });
    }
    for (code, count) in &series.requests.statuses {
        summary.statuses.push(Status {
            tags: tags.clone(),
            code: *code,
            count: *count,
        });
    }
    for (name, count) in &series.requests.protocols {
        let name = (*name).into();
        summary.protocols.push(Protocol {
            tags: tags.clone(),
            name,
            count: *count,
        });
    }
    let metrics = series.metrics();
    // Checks that do not count have no metrics.
    if !metrics.is_empty() {
        summary.series.push(Series { tags, metrics });
    }
}

/// Times of a run, and its processor time.
#[derive(Clone, Copy)]
pub(crate) struct RunTimes {
    pub(crate) begin: Instant,
    /// Start in Unix milliseconds.
    pub(crate) started: u64,
    pub(crate) end: Instant,
    /// Processor time of the process before the load.
    pub(crate) cpu_before: Duration,
    pub(crate) process_cpu: Duration,
}

impl RunTimes {
    pub(crate) fn end_now(&mut self) {
        self.end = Instant::now();
        self.process_cpu = process_cpu().saturating_sub(self.cpu_before);
    }
}
