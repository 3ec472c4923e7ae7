//! Collection of the workers' samples, once a second.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::interval::{Interval, Parts};
use super::scenario_state::ScenarioState;
use super::silence::Silence;
use crate::exposition::Exposition;
use crate::heat::{HEAT, heat_bounds};
use crate::histogram::Histogram;
use crate::metric::Metric;
use crate::samples::{SampleBuffer, Samples, ScenarioCounts};
use crate::snapshot::{Phase, ScenarioRow, Snapshot};
use crate::summary::ErrorKind;
use crate::tags::{TagRegistry, Tags};
use crate::threshold::{Threshold, ThresholdResult};
use crate::timeline::{Point, PointRow, TimelineBuilder};

/// Collects the samples of the workers.
pub(crate) struct Collector {
    pub(crate) scenarios: Vec<Arc<ScenarioState>>,
    pub(crate) registry: Arc<TagRegistry>,
    pub(crate) shards: Vec<Arc<SampleBuffer>>,
    pub(crate) thresholds: Vec<Threshold>,
    /// All samples so far.
    pub(crate) totals: Samples,
    pub(crate) timeline: TimelineBuilder,
    pub(crate) begin: Instant,
    pub(crate) phase: Phase,
    /// Indexes of the thresholds that have aborted the run.
    pub(crate) aborted: Vec<usize>,
    /// Silence of the targets, by scenario.
    pub(crate) silences: Vec<Silence>,
    /// Text of the samples in each snapshot, if the run exposes them.
    pub(crate) exposition: Option<Exposition>,
    spare: Samples,
    last: Instant,
    /// Counts at the end of the last interval, by scenario.
    before: Vec<Counts>,
    /// Number of failed checks so far, by scenario.
    failed_checks: Vec<u64>,
    /// Parts of each scenario.
    parts: Vec<Parts>,
    /// Owner of each tag set.
    owners: Vec<Option<Owner>>,
}

/// Indexes of the scenario and of its part that own a tag set.
#[derive(Debug, Clone, Copy)]
struct Owner {
    scenario: usize,
    part: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    started: u64,
    completed: u64,
    dropped: u64,
}

impl Collector {
    pub(crate) fn new(
        scenarios: Vec<Arc<ScenarioState>>,
        registry: Arc<TagRegistry>,
        shards: Vec<Arc<SampleBuffer>>,
        thresholds: Vec<Threshold>,
        begin: Instant,
    ) -> Self {
        let (before, failed_checks) = (
            vec![Counts::default(); scenarios.len()],
            vec![0; scenarios.len()],
        );
        let parts = scenarios.iter().map(|_| Parts::default()).collect();
        Collector {
            scenarios,
            registry,
            shards,
            thresholds,
            totals: Samples::default(),
            timeline: TimelineBuilder::default(),
            begin,
            phase: Phase::Running,
            aborted: Vec::new(),
            silences: vec![Silence::default(); before.len()],
            exposition: None,
            spare: Samples::default(),
            last: begin,
            before,
            failed_checks,
            parts,
            owners: Vec::new(),
        }
    }

    /// Collects the samples since the last call.
    pub(crate) fn collect(&mut self, now: Instant) -> Snapshot {
        let mut intervals = vec![Interval::default(); self.scenarios.len()];
        for shard in self.shards.clone() {
            shard.take(&mut self.spare);
            let samples = std::mem::take(&mut self.spare);
            for (tags, series) in samples.iter() {
                if let Some(owner) = self.owner(tags) {
                    intervals[owner.scenario].add(series);
                    if let Some(part) = owner.part {
                        self.parts[owner.scenario].add(part, series);
                    }
                }
            }
            self.totals.merge(&samples);
            self.spare = samples;
            self.spare.clear();
        }
        for (failed, interval) in self.failed_checks.iter_mut().zip(&intervals) {
            *failed += interval.failed_checks;
        }
        if matches!(self.phase, Phase::Running | Phase::Stopping) {
            self.observe_silence(now, &intervals);
        }
        self.engine();
        self.snapshot(now, &intervals)
    }

    /// Adds the interval that ends now to the silences of the targets.
    fn observe_silence(&mut self, now: Instant, intervals: &[Interval]) {
        let time = now.saturating_duration_since(self.last);
        for (index, interval) in intervals.iter().enumerate() {
            let state = &self.scenarios[index];
            let (progress, tags) = (&state.progress, [("scenario", state.config.name.as_str())]);
            let usual = || {
                let durations = self
                    .totals
                    .select(&self.registry, "http_req_duration", &tags);
                let durations = durations.as_ref().and_then(Metric::trend);
                let longest = Duration::from_nanos(progress.longest_response.load(Relaxed));
                (
                    durations.map_or(Duration::ZERO, |it| it.percentile(99.0)),
                    longest,
                )
            };
            self.silences[index].add(time, interval.answered, progress.is_waiting(), usual);
        }
    }

    /// Returns the owner of a tag set.
    fn owner(&mut self, tags: Tags) -> Option<Owner> {
        let index = tags.0 as usize;
        while self.owners.len() <= index {
            let owner = self.find_owner(Tags(self.owners.len() as u32));
            self.owners.push(owner);
        }
        self.owners[index]
    }

    fn find_owner(&mut self, tags: Tags) -> Option<Owner> {
        let set = self.registry.get(tags)?;
        let (_, name) = set.iter().find(|(name, _)| name == "scenario")?;
        let mut scenarios = self.scenarios.iter();
        let scenario = scenarios.position(|state| state.config.name == *name)?;
        let base = self.registry.get(self.scenarios[scenario].base)?;
        let part = self.parts[scenario].index(&set, &base);
        Some(Owner { scenario, part })
    }

    /// Adds the engine's own counts to the samples of the scenarios.
    fn engine(&mut self) {
        for (state, silence) in self.scenarios.iter().zip(&self.silences) {
            let progress = &state.progress;
            let started = progress.started.load(Relaxed);
            self.totals.series(state.base).engine = Some(ScenarioCounts {
                asked: state.asked().max(started),
                started,
                dropped: progress.dropped.load(Relaxed),
                interrupted: progress.interrupted.load(Relaxed),
                finished: progress.finished.load(Relaxed),
                unfinished: progress.unfinished.load(Relaxed),
                users: progress.users.load(Relaxed),
                users_max: progress.users_max.load(Relaxed),
                silent: silence.is_too_long(),
            });
        }
    }

    fn snapshot(&mut self, now: Instant, intervals: &[Interval]) -> Snapshot {
        let seconds = now
            .saturating_duration_since(self.last)
            .as_secs_f64()
            .max(1e-3);
        let at = self
            .last
            .saturating_duration_since(self.begin)
            .as_secs_f64();
        // Use the rate in the middle, because a rate may begin or end within the interval.
        let middle = self.last + now.saturating_duration_since(self.last) / 2;
        self.last = now;
        let mut point = Point {
            at,
            scenarios: Vec::new(),
        };
        let mut rows = Vec::new();
        for (index, interval) in intervals.iter().enumerate() {
            let (row, column) = self.row(index, interval, middle, seconds);
            rows.push(row);
            point.scenarios.push(column);
        }
        match self.phase {
            Phase::Running | Phase::Stopping if seconds >= 0.5 => self.timeline.push(point),
            Phase::Running | Phase::Stopping => self.timeline.push_rest(point),
            _ => {}
        }
        let thresholds = self.judge(now);
        let metrics = self.exposition.as_mut();
        let metrics = metrics.map(|it| it.render(&self.totals, &self.registry, &thresholds));
        Snapshot {
            elapsed: now.saturating_duration_since(self.begin),
            planned: planned(&self.scenarios),
            phase: self.phase,
            scenarios: rows,
            errors: self.errors(),
            thresholds,
            metrics,
            summary: None,
        }
    }

    /// Returns the counts of a scenario since the last interval, and since the start.
    fn count(&mut self, index: usize) -> (Counts, Counts) {
        let progress = &self.scenarios[index].progress;
        let total = Counts {
            started: progress.started.load(Relaxed),
            completed: progress.completed.load(Relaxed),
            dropped: progress.dropped.load(Relaxed),
        };
        let before = std::mem::replace(&mut self.before[index], total);
        let counts = Counts {
            started: total.started - before.started,
            completed: total.completed - before.completed,
            dropped: total.dropped - before.dropped,
        };
        (counts, total)
    }

    fn row(
        &mut self,
        index: usize,
        interval: &Interval,
        middle: Instant,
        seconds: f64,
    ) -> (ScenarioRow, PointRow) {
        let (counts, total) = self.count(index);
        let state = &self.scenarios[index];
        let progress = &state.progress;
        let open = state.config.executor.arrival_rate().is_some();
        let figures = interval.figures(seconds);
        let micros = |duration: Duration| duration.as_micros() as u64;
        let column = PointRow {
            asked: if open { state.offers(middle) } else { 0.0 },
            started: counts.started,
            iterations: counts.completed,
            requests: interval.requests.count(),
            failures: interval.failures,
            dropped: counts.dropped,
            users: progress.users.load(Relaxed) as u32,
            busy: progress.busy.load(Relaxed) as u32,
            p50: micros(figures.p50),
            p90: micros(figures.p90),
            p99: micros(figures.p99),
            max: micros(figures.max),
            heat: heat(interval.durations()),
        };
        let row = ScenarioRow {
            name: state.config.name.clone(),
            kind: state.config.kind.clone(),
            adjustable: state.control().adjustable,
            asked: column.asked,
            achieved: column.started as f64 / seconds,
            iterations: column.iterations as f64 / seconds,
            users: column.users.into(),
            busy: column.busy.into(),
            waiting: progress.waiting.load(Relaxed),
            started_total: total.started,
            dropped: total.dropped,
            failed_checks: self.failed_checks[index],
            start_delay: interval.start_delay.percentile(99.0),
            figures,
            heat: column.heat,
            parts: self.parts[index].rows(seconds),
        };
        (row, column)
    }

    /// Returns the failures so far, the most frequent first.
    pub(crate) fn errors(&self) -> Vec<ErrorKind> {
        let mut errors: Vec<ErrorKind> = Vec::new();
        for (tags, series) in self
            .totals
            .iter()
            .filter(|(_, series)| !series.errors.is_empty())
        {
            let owner = self.owners.get(tags.0 as usize).copied().flatten();
            let scenario = owner.map_or("", |owner| &self.scenarios[owner.scenario].config.name);
            for tally in &series.errors {
                let error = ErrorKind {
                    scenario: scenario.into(),
                    kind: tally.name.into(),
                    count: tally.bad,
                    details: tally.details.clone(),
                };
                error.add_to(&mut errors);
            }
        }
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        errors
    }

    /// Evaluates the thresholds, and records the thresholds that now abort the run.
    fn judge(&mut self, now: Instant) -> Vec<ThresholdResult> {
        let elapsed = now.saturating_duration_since(self.begin);
        let mut results = self.evaluate(elapsed.as_secs_f64());
        for (index, result) in results.iter_mut().enumerate() {
            let threshold = &self.thresholds[index];
            let may = threshold.abort_on_fail && elapsed >= threshold.delay_abort_eval;
            // Before the end, missing samples only mean that no sample has been recorded yet.
            if may && !result.passed && result.observed.is_some() && self.phase == Phase::Running {
                self.aborted.push(index);
                result.aborted = true;
            }
        }
        results
    }

    /// Evaluates the thresholds on samples of this duration.
    pub(crate) fn evaluate(&self, seconds: f64) -> Vec<ThresholdResult> {
        let select =
            |metric: &str, tags: &[(&str, &str)]| self.totals.select(&self.registry, metric, tags);
        let thresholds = self.thresholds.iter().enumerate();
        let results = thresholds.map(|(index, threshold)| {
            let mut result = threshold.evaluate(select, seconds);
            // A threshold that aborted the run stays crossed, regardless of later samples.
            result.aborted = self.aborted.contains(&index);
            result.passed &= !result.aborted;
            result
        });
        results.collect()
    }
}

/// Returns the time from the start of the run to the planned end of the last scenario.
pub(crate) fn planned(scenarios: &[Arc<ScenarioState>]) -> Duration {
    let ends = scenarios.iter().map(|state| {
        state
            .config
            .start
            .saturating_add(state.config.executor.duration())
    });
    ends.max().unwrap_or(Duration::ZERO)
}

fn heat(durations: &Histogram) -> [u32; HEAT] {
    let (mut heat, bounds) = ([0_u32; HEAT], heat_bounds());
    for (value, count) in durations.buckets() {
        let bucket = bounds.partition_point(|bound| *bound < value).min(HEAT - 1);
        heat[bucket] = heat[bucket].saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
    heat
}
