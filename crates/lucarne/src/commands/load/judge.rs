//! Result of one step of a search for the highest rate.

use std::time::Duration;

use lucarne_load::http::kind;
use lucarne_load::snapshot::LATE;
use lucarne_load::{Note, Outcome, Summary, Verdict};

use super::search::Step;

/// Conditions under which the load generator limits a step.
pub(super) struct Limits {
    /// Largest number of users of each scenario.
    pub(super) most_users: Vec<u64>,
    /// Response time at a lower rate.
    pub(super) usual: Option<Duration>,
}

/// Returns the result of a step. `has_met` states whether a lower rate met the objective: before
/// that, a failure that no threshold describes has another cause than the rate, and gives none.
pub(super) fn judge(outcome: &Outcome, limits: &Limits, has_met: bool) -> Option<Step> {
    let summary = &outcome.summary;
    let has_cause = failure(outcome).is_none() && summary.thresholds.iter().any(|it| !it.passed);
    match outcome.verdict {
        Verdict::Passed | Verdict::Unjudged => Some(Step::Met),
        Verdict::Crossed | Verdict::Unreachable if limits.are_reached(summary) => {
            Some(Step::Limited)
        }
        Verdict::Crossed if has_cause => Some(Step::Missed),
        // A run that did not begin has no start.
        Verdict::Crossed | Verdict::Unreachable if has_met && summary.started > 0 => {
            Some(Step::Missed)
        }
        _ => None,
    }
}

/// Returns the failure of a step that is not a crossed threshold.
pub(super) fn failure(outcome: &Outcome) -> Option<String> {
    let notes = &outcome.summary.notes;
    let note = notes.iter().find(|note| note.title == Note::NOT_TORN_DOWN);
    let note = note.map(|note| format!("{}: {}", note.title, note.lines.join("; ")));
    outcome.error.clone().or(note)
}

impl Limits {
    /// Returns whether the load generator, and not the target, limited the rate: it was late, it
    /// had no free ports or files, or all users were busy although responses were not slower.
    fn are_reached(&self, summary: &Summary) -> bool {
        let mut users = summary.scenarios.iter().zip(&self.most_users);
        let busy = users.any(|(scenario, most)| scenario.users_max >= *most);
        let slower = match (self.usual, response_time(summary)) {
            (Some(usual), Some(now)) => now > 2 * usual,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        let lost = [kind::TIMEOUT, "unanswered"];
        let mut errors = summary.errors.iter();
        let slower = slower || errors.any(|it| lost.contains(&it.kind.as_str()));
        let exhausted = ["every local port is in use", "open files"];
        let mut connect = summary.errors.iter().filter(|it| it.kind == kind::CONNECT);
        let lacks = |detail: &String| exhausted.iter().any(|part| detail.contains(part));
        is_late(summary) || busy && !slower || connect.any(|it| it.details.iter().any(lacks))
    }
}

/// Returns the median time from a request to its response, without waits of the load generator.
pub(super) fn response_time(summary: &Summary) -> Option<Duration> {
    let waiting = summary.select("http_req_waiting", &[])?;
    Some(waiting.trend()?.percentile(50.0))
}

/// Returns whether the load generator delayed iterations.
fn is_late(summary: &Summary) -> bool {
    let delay = summary.select("iteration_start_delay", &[]);
    let p99 = delay
        .as_ref()
        .and_then(|delay| Some(delay.trend()?.percentile(99.0)));
    p99.is_some_and(|p99| p99 >= LATE)
}

#[cfg(test)]
mod tests {
    use lucarne_load::summary::{ErrorKind, ScenarioSummary, Series};
    use lucarne_load::threshold::ThresholdResult;
    use lucarne_load::{Histogram, Metric};

    use super::*;

    fn outcome(verdict: Verdict, started: u64, crossed: bool) -> Outcome {
        let result = ThresholdResult {
            passed: !crossed,
            ..ThresholdResult::default()
        };
        Outcome {
            summary: Summary {
                started,
                scenarios: vec![ScenarioSummary::default()],
                thresholds: vec![result],
                ..Summary::default()
            },
            verdict,
            error: None,
        }
    }

    fn judged(outcome: &Outcome, has_met: bool) -> Option<Step> {
        let limits = Limits {
            most_users: vec![50],
            usual: None,
        };
        judge(outcome, &limits, has_met)
    }

    #[test]
    fn a_target_that_collapses_after_a_met_rate_has_missed_the_objective() {
        for (verdict, started, has_met, expected) in [
            (Verdict::Passed, 5, false, Some(Step::Met)),
            (Verdict::Unreachable, 5, true, Some(Step::Missed)),
            (Verdict::Unreachable, 5, false, None),
            (Verdict::Unreachable, 0, true, None),
            (Verdict::Interrupted, 5, true, None),
        ] {
            let outcome = outcome(verdict, started, false);
            assert_eq!(judged(&outcome, has_met), expected, "{verdict:?}");
        }
    }

    #[test]
    fn a_failure_that_no_threshold_describes_is_reported() {
        let mut failed = outcome(Verdict::Crossed, 5, true);
        assert_eq!(judged(&failed, false), Some(Step::Missed));
        failed.error = Some("userSetup: refused".into());
        assert_eq!(judged(&failed, false), None);
        assert_eq!(judged(&failed, true), Some(Step::Missed));
        failed.error = None;
        failed.summary.notes = vec![Note {
            title: Note::NOT_TORN_DOWN.into(),
            lines: vec!["refused".into()],
        }];
        assert_eq!(judged(&failed, false), None);
        assert_eq!(
            failure(&failed).as_deref(),
            Some("Teardown failed: refused")
        );
        assert_eq!(judged(&outcome(Verdict::Crossed, 5, false), false), None);
    }

    #[test]
    fn limits_of_the_generator_are_no_result_about_the_target() {
        let mut busy = outcome(Verdict::Crossed, 5, true);
        busy.summary.scenarios[0].users_max = 49;
        assert_eq!(judged(&busy, true), Some(Step::Missed));
        busy.summary.scenarios[0].users_max = 50;
        assert_eq!(judged(&busy, true), Some(Step::Missed), "no response");
        let mut waiting = Histogram::new();
        waiting.record(Duration::from_millis(100));
        let metrics = [("http_req_waiting".to_owned(), Metric::Trend(waiting))];
        busy.summary.series = vec![Series {
            metrics: metrics.into(),
            ..Series::default()
        }];
        assert_eq!(judged(&busy, true), Some(Step::Limited));
        for (usual, expected) in [(60, Step::Limited), (40, Step::Missed)] {
            let limits = Limits {
                most_users: vec![50],
                usual: Some(Duration::from_millis(usual)),
            };
            assert_eq!(judge(&busy, &limits, true), Some(expected), "{usual}");
        }
        busy.summary.errors = vec![ErrorKind {
            kind: kind::TIMEOUT.into(),
            ..ErrorKind::default()
        }];
        assert_eq!(judged(&busy, true), Some(Step::Missed), "lost responses");
        let mut no_ports = outcome(Verdict::Crossed, 5, true);
        no_ports.summary.errors = vec![ErrorKind {
            kind: kind::CONNECT.into(),
            details: vec!["cannot connect: every local port is in use: keep".into()],
            ..ErrorKind::default()
        }];
        assert_eq!(judged(&no_ports, true), Some(Step::Limited));
    }
}
