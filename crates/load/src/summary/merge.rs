//! Merging of summaries from several processes.

use super::{Check, ErrorKind, LastingFailure, Protocol, ScenarioSummary, Series, Status, Summary};
use crate::exchange::DETAILS;
use crate::threshold::{Threshold, ThresholdResult, of_parts};
use crate::verdict::Verdict;

/// Reasons why summaries cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There are no summaries.
    #[error("there are no summaries to merge")]
    Nothing,
    /// A timeline with points has no interval, so that it cannot be aligned with others.
    #[error("the timeline of a summary has points, but its interval is not above 0")]
    Interval,
    /// A metric is a trend in one summary and a counter in another.
    #[error("metric \"{metric}\" is a {mine} in one summary and a {theirs} in another")]
    Kinds {
        /// Name of the metric.
        metric: String,
        /// Kind in one summary.
        mine: &'static str,
        /// Kind in the other summary.
        theirs: &'static str,
    },
}

impl Summary {
    /// Merges the summaries of several processes or machines that ran at the same time.
    ///
    /// Counts and histograms are merged without loss, and thresholds are evaluated again over all
    /// parts. The result has the durations of the longest part, and name, command and environment
    /// of the first part. Timelines are aligned at their beginnings.
    ///
    /// # Errors
    ///
    /// If there are no parts, if a metric has different kinds in the parts, or if a timeline has
    /// points without an interval.
    pub fn merge(parts: Vec<Summary>) -> Result<Summary, MergeError> {
        if parts.iter().any(|part| !part.timeline.is_valid()) {
            return Err(MergeError::Interval);
        }
        let lasting = parts.iter().map(Summary::lasting_verdict);
        let lasting = lasting.fold(Verdict::Passed, Verdict::worse);
        let failures = parts.iter().flat_map(Summary::known_lasting_failures);
        let failures: Vec<LastingFailure> = failures.collect();
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(MergeError::Nothing)?;
        for part in parts {
            whole.add(part)?;
        }
        for scenario in &mut whole.scenarios {
            scenario.achieved = achieved(scenario.started, scenario.asked);
        }
        whole.lasting_failures = Some(Vec::new());
        for failure in failures {
            whole.add_lasting_failure(failure);
        }
        whole
            .errors
            .sort_by_key(|error| std::cmp::Reverse(error.count));
        whole.judge();
        whole.verdict = whole.verdict.worse(lasting);
        whole.tell_connectors();
        whole.tell_metrics();
        Ok(whole)
    }

    /// Returns the verdict on a part of a merged run, if the merged figures cannot show the reason:
    /// the part was interrupted, could not begin, its work after the load failed, or it was worse
    /// than a baseline.
    fn lasting_verdict(&self) -> Verdict {
        let idle = || self.scenarios.iter().all(|scenario| scenario.started == 0);
        let lasting = || !self.known_lasting_failures().is_empty();
        match self.verdict {
            Verdict::Interrupted | Verdict::Configuration | Verdict::OutputFailed => self.verdict,
            Verdict::Unreachable if idle() => Verdict::Unreachable,
            Verdict::Crossed | Verdict::Unreachable if lasting() => Verdict::Crossed,
            Verdict::Crossed if self.held() != Verdict::Crossed => Verdict::Crossed,
            _ => Verdict::Passed,
        }
    }

    fn add(&mut self, part: Summary) -> Result<(), MergeError> {
        let rows: Vec<usize> = part
            .scenarios
            .iter()
            .map(|scenario| self.add_scenario(scenario))
            .collect();
        self.timeline.beside(&part.timeline, &rows);
        self.started = match (self.started, part.started) {
            // A part that could not begin has no start.
            (0, begun) | (begun, 0) => begun,
            (mine, theirs) => mine.min(theirs),
        };
        self.duration = self.duration.max(part.duration);
        self.attack = self.attack.max(part.attack);
        self.wait = self.wait.max(part.wait);
        self.verdict = self.verdict.worse(part.verdict);
        self.environment.process_cpu = self
            .environment
            .process_cpu
            .zip(part.environment.process_cpu)
            .map(|(a, b)| a + b);
        self.environment.threads = self
            .environment
            .threads
            .saturating_add(part.environment.threads);
        for series in part.series {
            self.add_series(series)?;
        }
        part.checks
            .into_iter()
            .for_each(|check| self.add_check(check));
        part.errors
            .into_iter()
            .for_each(|error| error.add_to(&mut self.errors));
        part.statuses
            .into_iter()
            .for_each(|status| self.add_status(status));
        part.protocols
            .into_iter()
            .for_each(|protocol| self.add_protocol(protocol));
        part.thresholds
            .into_iter()
            .for_each(|threshold| self.add_threshold(threshold));
        self.notes.extend(part.notes);
        Ok(())
    }

    fn add_scenario(&mut self, part: &ScenarioSummary) -> usize {
        let Some(index) = self
            .scenarios
            .iter()
            .position(|mine| mine.name == part.name)
        else {
            self.scenarios.push(part.clone());
            return self.scenarios.len() - 1;
        };
        let mine = &mut self.scenarios[index];
        grow(&mut mine.asked, part.asked);
        grow(&mut mine.started, part.started);
        grow(&mut mine.completed, part.completed);
        grow(&mut mine.dropped, part.dropped);
        grow(&mut mine.interrupted, part.interrupted);
        grow(&mut mine.users_max, part.users_max);
        mine.duration = mine.duration.max(part.duration);
        if mine.executor != part.executor {
            mine.executor = format!("{}, {}", mine.executor, part.executor);
        }
        index
    }

    fn add_series(&mut self, part: Series) -> Result<(), MergeError> {
        let Some(mine) = self.series.iter_mut().find(|mine| mine.tags == part.tags) else {
            self.series.push(part);
            return Ok(());
        };
        for (name, theirs) in part.metrics {
            match mine.metrics.get_mut(&name) {
                Some(metric) if metric.kind() != theirs.kind() => {
                    let (mine, theirs) = (metric.kind(), theirs.kind());
                    return Err(MergeError::Kinds {
                        metric: name,
                        mine,
                        theirs,
                    });
                }
                Some(metric) => metric.merge(&theirs),
                None => drop(mine.metrics.insert(name, theirs)),
            }
        }
        Ok(())
    }

    fn add_check(&mut self, part: Check) {
        let same = |mine: &&mut Check| mine.tags == part.tags && mine.name == part.name;
        match self.checks.iter_mut().find(same) {
            Some(mine) => {
                grow(&mut mine.passes, part.passes);
                grow(&mut mine.fails, part.fails);
                add_details(&mut mine.details, part.details);
            }
            None => self.checks.push(part),
        }
    }

    fn add_status(&mut self, part: Status) {
        let same = |mine: &&mut Status| mine.tags == part.tags && mine.code == part.code;
        match self.statuses.iter_mut().find(same) {
            Some(mine) => grow(&mut mine.count, part.count),
            None => self.statuses.push(part),
        }
    }

    fn add_protocol(&mut self, part: Protocol) {
        let same = |mine: &&mut Protocol| mine.tags == part.tags && mine.name == part.name;
        match self.protocols.iter_mut().find(same) {
            Some(mine) => grow(&mut mine.count, part.count),
            None => self.protocols.push(part),
        }
    }

    fn add_threshold(&mut self, part: ThresholdResult) {
        let same = |mine: &&mut ThresholdResult| {
            mine.metric == part.metric && mine.expression == part.expression
        };
        match self.thresholds.iter_mut().find(same) {
            Some(mine) => mine.aborted |= part.aborted,
            None => self.thresholds.push(part),
        }
    }

    /// Evaluates the thresholds and the verdict over the merged data. [`merge`](Self::merge) adds
    /// the lasting verdicts of the parts.
    fn judge(&mut self) {
        let mut thresholds = Vec::new();
        let results = std::mem::take(&mut self.thresholds);
        // The parts are judged again by the thresholds on all requests.
        let results = results.into_iter().filter(|result| !result.part);
        let judged = results.map(|result| {
            let Ok(threshold) = Threshold::new(&result.metric, &result.expression) else {
                return result;
            };
            let mut again =
                threshold.evaluate(|metric, tags| self.select(metric, tags), self.duration);
            again.aborted = result.aborted;
            again.built_in = result.built_in;
            again.passed &= !again.aborted;
            thresholds.push(threshold);
            again
        });
        self.thresholds = judged.collect();
        let parts = of_parts::crossed(self, &thresholds);
        self.thresholds.extend(parts);
        let held = self.held();
        let answered = self.statuses.iter().any(|status| status.code != 0);
        self.verdict = match self.verdict {
            Verdict::Unreachable if !answered => Verdict::Unreachable,
            _ => held,
        };
    }
}

impl ErrorKind {
    /// Adds failures to those of the same scenario and kind.
    pub(crate) fn add_to(self, errors: &mut Vec<ErrorKind>) {
        let same = |it: &&mut ErrorKind| it.scenario == self.scenario && it.kind == self.kind;
        match errors.iter_mut().find(same) {
            Some(error) => {
                grow(&mut error.count, self.count);
                add_details(&mut error.details, self.details);
            }
            None => errors.push(self),
        }
    }
}

/// Returns the share of planned iterations that began; 1 if no iterations were planned.
pub(crate) fn achieved(started: u64, asked: u64) -> f64 {
    if asked == 0 {
        1.0
    } else {
        started as f64 / asked as f64
    }
}

/// Adds to a count, which stays at the largest number instead of wrapping.
fn grow(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

fn add_details(mine: &mut Vec<String>, theirs: Vec<String>) {
    let room = DETAILS.saturating_sub(mine.len());
    mine.extend(theirs.into_iter().take(room));
}
