//! Outcomes of a run that ended, and of a run that did not begin.

use std::sync::Arc;
use std::time::Instant;

use super::Execution;
use super::collector::Collector;
use super::finish::{Finish, cut_short};
use super::run_state::StopReason;
use super::scenario_state::ScenarioState;
use super::summarise::{self, RunTimes, summarise};
use crate::environment::{Environment, peak_memory};
use crate::http::kind;
use crate::metric::Metric;
use crate::note::Note;
use crate::outcome::Outcome;
use crate::run::MAY_BE_ALLOWED;
use crate::scenario::PrepareError;
use crate::snapshot::Phase;
use crate::summary::{Check, ErrorKind, LastingFailure, Series, Summary};
use crate::verdict::Verdict;

impl Execution {
    /// Returns the outcome of a run that has ended.
    pub(super) fn sum_up(
        &self,
        collected: Option<Collector>,
        times: &RunTimes,
        finish: Finish,
        broken: Option<String>,
    ) -> Outcome {
        let Some(mut collector) = collected else {
            return self.refused(
                Verdict::Configuration,
                "the sample collector panicked".into(),
            );
        };
        collector.phase = Phase::Over;
        let snapshot = collector.collect(Instant::now());
        let mut summary = summarise(&collector, times, self.empty());
        summary.notes.extend(finish.notes);
        summary.notes.extend(self.unknown_checks(&summary));
        let given_up = self.run_state.given_up();
        let notes = broken.iter().chain(&given_up).map(|error| cut_short(error));
        summary.notes.extend(notes);
        if broken.is_some() || given_up.is_some() || finish.failed {
            summary.add_lasting_failure(LastingFailure::NotFinished);
        }
        summary.verdict = match self.run_state.reason() {
            Some(StopReason::Asked) => Verdict::Interrupted,
            Some(StopReason::GivenUp) => Verdict::Crossed,
            _ if never_answered(&summary) => Verdict::Unreachable,
            _ if broken.is_some() => Verdict::Interrupted,
            _ if finish.failed => Verdict::Crossed,
            _ => summary.held(),
        };
        // `lucarne load merge` refuses a summary that contradicts itself.
        debug_assert_eq!(summary.check(), Ok(()));
        self.snapshots.send_replace(Arc::new(snapshot));
        Outcome {
            verdict: summary.verdict,
            summary,
            error: broken.or(given_up),
        }
    }

    /// Returns a warning about permitted checks that no scenario ran.
    fn unknown_checks(&self, summary: &Summary) -> Option<Note> {
        let made = |name: &String| {
            let mut checks = summary.checks.iter();
            MAY_BE_ALLOWED.contains(&name.as_str()) || checks.any(|check| check.name == *name)
        };
        let unknown = self.options.allow.iter().filter(|name| !made(name));
        let lines: Vec<_> = unknown
            .map(|name| format!("no check has the name \"{name}\""))
            .collect();
        (!lines.is_empty()).then(|| Note {
            title: "Warning: --allow names checks that did not run".into(),
            lines,
        })
    }

    /// Returns the outcome of a run that did not begin.
    pub(super) fn refused(&self, verdict: Verdict, error: String) -> Outcome {
        let note = Note {
            title: Note::NOT_BEGUN.into(),
            lines: vec![error.clone()],
        };
        let scenarios = self
            .run_state
            .scenarios
            .iter()
            .map(|state| summarise::scenario(state));
        let summary = Summary {
            verdict,
            notes: vec![note],
            lasting_failures: Some(vec![LastingFailure::NotBegun]),
            scenarios: scenarios.collect(),
            ..self.empty()
        };
        Outcome {
            summary,
            verdict,
            error: Some(error),
        }
    }

    /// Returns the outcome of a run that did not begin, because a check failed during preparation.
    pub(super) fn faulty(
        &self,
        state: &ScenarioState,
        check: &'static str,
        detail: String,
        error: String,
    ) -> Outcome {
        let mut outcome = self.refused(Verdict::Crossed, error);
        let summary = &mut outcome.summary;
        let tags = self.registry.get(state.base);
        let tags = tags.map_or_else(Vec::new, |tags| tags.to_vec());
        let checks = Metric::Rate { good: 0, total: 1 };
        summary.series.push(Series {
            tags: tags.clone(),
            metrics: [("checks".to_owned(), checks)].into(),
        });
        summary.checks.push(Check {
            tags,
            name: check.into(),
            passes: 0,
            fails: 1,
            excused: None,
            details: vec![detail.clone()],
        });
        summary.errors.push(ErrorKind {
            scenario: state.config.name.clone(),
            kind: check.into(),
            count: 1,
            details: vec![detail],
        });
        let select = |metric: &str, tags: &[(&str, &str)]| summary.select(metric, tags);
        // There was no load, so the built-in thresholds have no meaning.
        let judged = self.options.thresholds.iter();
        summary.thresholds = judged
            .filter(|threshold| !threshold.is_built_in())
            .map(|threshold| threshold.evaluate(select, 0.0))
            .collect();
        summary.tell_metrics();
        outcome
    }

    /// Formats an error, with the scenario's name if there are several.
    pub(super) fn of_scenario(&self, name: &str, error: &PrepareError) -> String {
        match self.run_state.scenarios.len() {
            1 => error.to_string(),
            _ => format!("scenario \"{name}\": {error}"),
        }
    }

    /// Returns a summary of the options, without any results.
    pub(super) fn empty(&self) -> Summary {
        let options = &self.options;
        Summary {
            schema: crate::summary::SCHEMA.into(),
            name: options.name.clone(),
            description: options.description.clone(),
            command: options.command.clone(),
            lasting_failures: Some(Vec::new()),
            environment: Environment {
                peak_memory: peak_memory(),
                ..Environment::here(&options.version, options.workers)
            },
            ..Summary::default()
        }
    }
}

/// Returns whether requests were sent, and none received a response.
fn never_answered(summary: &Summary) -> bool {
    let (failed, requests) = match summary.total("http_req_failed") {
        Some(Metric::Rate { good, total }) => (good, total),
        _ => (0, 0),
    };
    // A server that presents a certificate or sends a response was reached, even if the certificate
    // or the response is invalid.
    let shown = summary
        .errors
        .iter()
        .any(|error| [kind::CERTIFICATE, kind::PROTOCOL].contains(&error.kind.as_str()));
    let silent = summary.statuses.iter().all(|status| status.code == 0);
    requests > 0 && failed == requests && silent && !shown
}
