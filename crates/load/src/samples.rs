//! Samples by tag set.

mod metrics;

pub(crate) use metrics::Figure;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::exchange::{DETAILS, Exchange, Failure, Resent};
use crate::histogram::Histogram;
use crate::http::kind;
use crate::metric::Metric;
use crate::tags::Tags;
use crate::user_time::UserTime;

/// Counter of responses that ended with a TLS connection without `close_notify`.
pub(crate) const UNANNOUNCED_ENDS: &str = "http_res_without_close_notify";

/// Detail of a request that was repeated although its connection was in use.
const RESENT: &str =
    "a connection in use was reset before any byte of the response; the request was sent again";

/// Samples of one worker since the last collection. Only the worker and, once a second, the
/// collector take the lock.
#[derive(Debug, Default)]
pub(crate) struct SampleBuffer(Mutex<Samples>);

impl SampleBuffer {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock()
    }

    /// Swaps the samples with `other`.
    pub(crate) fn take(&self, other: &mut Samples) {
        std::mem::swap(&mut *self.0.lock(), other);
    }
}

/// Samples by tag set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples {
    series: Vec<Option<Box<Series>>>,
    pub(crate) span: Span,
}

/// Times of the first request sent, the last request sent, and the last request completed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first_sent: Option<Instant>,
    pub(crate) last_sent: Option<Instant>,
    pub(crate) last_done: Option<Instant>,
}

/// Samples of one tag set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Series {
    pub(crate) requests: Requests,
    pub(crate) iterations: Histogram,
    pub(crate) iterations_failed: u64,
    /// Results of the target in iterations: responses, and iterations without requests.
    pub(crate) answered: u64,
    pub(crate) user_time: UserTime,
    /// Delay by the load generator before each iteration.
    pub(crate) start_delay: Histogram,
    pub(crate) custom: Vec<(&'static str, Metric)>,
    pub(crate) checks: Vec<Tally>,
    pub(crate) errors: Vec<Tally>,
    /// The engine's own counts of a scenario; only in its base tag set.
    pub(crate) engine: Option<ScenarioCounts>,
}

/// The engine's own counts of a scenario.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ScenarioCounts {
    pub(crate) asked: u64,
    pub(crate) started: u64,
    pub(crate) dropped: u64,
    pub(crate) interrupted: u64,
    pub(crate) finished: u64,
    pub(crate) unfinished: u64,
    pub(crate) users: u64,
    pub(crate) users_max: u64,
    /// Whether the target does not respond any more.
    pub(crate) silent: bool,
}

/// Requests of one tag set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Requests {
    pub(crate) total: Histogram,
    pub(crate) connect: Histogram,
    pub(crate) tls: Histogram,
    pub(crate) sending: Histogram,
    pub(crate) first_byte: Histogram,
    pub(crate) body: Histogram,
    pub(crate) failed: u64,
    /// Requests that were repeated because an idle connection, or a connection in use, had ended.
    pub(crate) resent_idle: u64,
    pub(crate) resent_busy: u64,
    /// New connections over IPv4 and IPv6.
    pub(crate) connections: [u64; 2],
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) body_in: u64,
    pub(crate) body_out: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) protocols: BTreeMap<&'static str, u64>,
}

/// Counts of successes and failures, with details of the first failures.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) name: &'static str,
    pub(crate) good: u64,
    pub(crate) bad: u64,
    /// Whether failures of this check are excluded from the failures of all checks.
    pub(crate) excused: bool,
    pub(crate) details: Vec<String>,
}

impl Samples {
    pub(crate) fn series(&mut self, tags: Tags) -> &mut Series {
        let index = tags.0 as usize;
        if index >= self.series.len() {
            self.series.resize_with(index + 1, || None);
        }
        self.series[index].get_or_insert_default()
    }

    /// Returns all series that have samples.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tags, &Series)> {
        let numbered = self.series.iter().enumerate();
        numbered.filter_map(|(index, series)| Some((Tags(index as u32), series.as_deref()?)))
    }

    pub(crate) fn request(&mut self, tags: Tags, exchange: &Exchange, since: Instant) {
        self.span.widen(exchange);
        let series = self.series(tags);
        series.requests.add(exchange, since);
        if let Err(failure) = &exchange.outcome {
            tally(&mut series.errors, failure.kind).bad(&failure.detail);
        }
        if exchange.resent == Some(Resent::Busy) {
            tally(&mut series.errors, kind::RESET).bad(&RESENT);
        }
        if exchange.unannounced_end {
            self.count(tags, UNANNOUNCED_ENDS, 1);
        }
    }

    /// Records that the target responded to an iteration.
    pub(crate) fn answered(&mut self, tags: Tags) {
        self.series(tags).answered += 1;
    }

    pub(crate) fn failure(&mut self, tags: Tags, failure: &Failure) {
        tally(&mut self.series(tags).errors, failure.kind).bad(&failure.detail);
    }

    /// Records a check. Its failures count among `checks` only if `counts` is `true`.
    pub(crate) fn check<E: Display>(
        &mut self,
        tags: Tags,
        name: &'static str,
        outcome: Result<(), E>,
        counts: bool,
    ) {
        let tally = tally(&mut self.series(tags).checks, name);
        tally.excused = !counts;
        match outcome {
            Ok(()) => tally.good += 1,
            Err(error) => tally.bad(&error),
        }
    }

    pub(crate) fn iterated(&mut self, tags: Tags, result: &IterationResult) {
        let series = self.series(tags);
        series.iterations.record(result.duration);
        if let Some(delay) = result.start_delay {
            series.start_delay.record(delay);
        }
        series.iterations_failed += u64::from(result.failed);
        series.answered += u64::from(result.answered);
        series.user_time.merge(&result.time);
    }

    pub(crate) fn count(&mut self, tags: Tags, metric: &'static str, n: u64) {
        self.custom(tags, metric, Metric::Counter { count: n });
    }

    pub(crate) fn trend(&mut self, tags: Tags, metric: &'static str, value: Duration) {
        let custom = &mut self.series(tags).custom;
        match custom.iter_mut().find(|(name, _)| *name == metric) {
            Some((_, Metric::Trend(histogram))) => histogram.record(value),
            Some(_) => {}
            None => custom.push((metric, Metric::one_duration(value))),
        }
    }

    pub(crate) fn rate(&mut self, tags: Tags, metric: &'static str, good: bool) {
        self.custom(
            tags,
            metric,
            Metric::Rate {
                good: good.into(),
                total: 1,
            },
        );
    }

    pub(crate) fn gauge(&mut self, tags: Tags, metric: &'static str, value: f64) {
        // JSON cannot represent NaN and infinities.
        if value.is_finite() {
            self.custom(tags, metric, Metric::one_gauge(value));
        }
    }

    fn custom(&mut self, tags: Tags, metric: &'static str, sample: Metric) {
        let custom = &mut self.series(tags).custom;
        match custom.iter_mut().find(|(name, _)| *name == metric) {
            Some((_, known)) => known.merge(&sample),
            None => custom.push((metric, sample)),
        }
    }

    /// Merges other samples into these samples.
    pub(crate) fn merge(&mut self, other: &Samples) {
        self.span.merge(&other.span);
        for (tags, series) in other.iter() {
            self.series(tags).merge(series);
        }
    }

    /// Removes all samples but keeps the memory of the histograms.
    pub(crate) fn clear(&mut self) {
        self.span = Span::default();
        self.series
            .iter_mut()
            .flatten()
            .for_each(|series| series.clear());
    }
}

impl Span {
    fn widen(&mut self, exchange: &Exchange) {
        self.merge(&Span {
            first_sent: Some(exchange.started),
            last_sent: Some(exchange.started),
            last_done: Some(exchange.finished),
        });
    }

    fn merge(&mut self, other: &Span) {
        // `None` is less than any instant.
        self.last_sent = self.last_sent.max(other.last_sent);
        self.last_done = self.last_done.max(other.last_done);
        self.first_sent = match (self.first_sent, other.first_sent) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

impl Series {
    fn merge(&mut self, other: &Series) {
        self.requests.merge(&other.requests);
        self.iterations.merge(&other.iterations);
        self.iterations_failed += other.iterations_failed;
        self.answered += other.answered;
        self.user_time.merge(&other.user_time);
        self.start_delay.merge(&other.start_delay);
        for (name, metric) in &other.custom {
            match self.custom.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.merge(metric),
                None => self.custom.push((name, metric.clone())),
            }
        }
        other
            .checks
            .iter()
            .for_each(|check| tally(&mut self.checks, check.name).merge(check));
        other
            .errors
            .iter()
            .for_each(|error| tally(&mut self.errors, error.name).merge(error));
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.iterations.clear();
        self.iterations_failed = 0;
        self.answered = 0;
        self.user_time = UserTime::default();
        self.start_delay.clear();
        self.custom.clear();
        self.checks.clear();
        self.errors.clear();
        self.engine = None;
    }
}

impl Requests {
    fn add(&mut self, exchange: &Exchange, since: Instant) {
        self.total
            .record(exchange.finished.saturating_duration_since(since));
        let phases = [
            (&mut self.connect, exchange.connect),
            (&mut self.tls, exchange.tls),
            (&mut self.sending, exchange.sending),
            (&mut self.first_byte, exchange.first_byte),
            (&mut self.body, exchange.body),
        ];
        for (histogram, phase) in phases {
            if let Some(phase) = phase {
                histogram.record(phase);
            }
        }
        self.failed += u64::from(exchange.outcome.is_err());
        self.resent_idle += u64::from(exchange.resent == Some(Resent::Idle));
        self.resent_busy += u64::from(exchange.resent == Some(Resent::Busy));
        if let Some(family) = exchange.family {
            self.connections[family as usize] += 1;
        }
        self.bytes_in += exchange.bytes_in;
        self.bytes_out += exchange.bytes_out;
        self.body_in += exchange.body_in;
        self.body_out += exchange.body_out;
        // A handshake without a request has no status.
        if exchange.status > 0 || exchange.outcome.is_err() {
            *self.statuses.entry(exchange.status).or_default() += 1;
        }
        *self.protocols.entry(exchange.protocol).or_default() += 1;
    }

    fn merge(&mut self, other: &Requests) {
        for (mine, theirs) in self.histograms().into_iter().zip(other.histograms_ref()) {
            mine.merge(theirs);
        }
        self.failed += other.failed;
        self.resent_idle += other.resent_idle;
        self.resent_busy += other.resent_busy;
        for (mine, theirs) in self.connections.iter_mut().zip(other.connections) {
            *mine += theirs;
        }
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.body_in += other.body_in;
        self.body_out += other.body_out;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (protocol, count) in &other.protocols {
            *self.protocols.entry(protocol).or_default() += count;
        }
    }

    fn clear(&mut self) {
        self.histograms().into_iter().for_each(Histogram::clear);
        (self.failed, self.bytes_in, self.bytes_out) = (0, 0, 0);
        (self.resent_idle, self.resent_busy) = (0, 0);
        self.connections = [0, 0];
        (self.body_in, self.body_out) = (0, 0);
        self.statuses.clear();
        self.protocols.clear();
    }

    fn histograms(&mut self) -> [&mut Histogram; 6] {
        [
            &mut self.total,
            &mut self.connect,
            &mut self.tls,
            &mut self.sending,
            &mut self.first_byte,
            &mut self.body,
        ]
    }

    fn histograms_ref(&self) -> [&Histogram; 6] {
        [
            &self.total,
            &self.connect,
            &self.tls,
            &self.sending,
            &self.first_byte,
            &self.body,
        ]
    }
}

impl Tally {
    fn bad(&mut self, detail: &impl Display) {
        self.bad += 1;
        if self.details.len() < DETAILS {
            self.details.push(detail.to_string());
        }
    }

    fn merge(&mut self, other: &Tally) {
        self.good += other.good;
        self.bad += other.bad;
        self.excused |= other.excused;
        let room = DETAILS.saturating_sub(self.details.len());
        self.details
            .extend(other.details.iter().take(room).cloned());
    }
}

fn tally<'a>(tallies: &'a mut Vec<Tally>, name: &'static str) -> &'a mut Tally {
    let index = tallies
        .iter()
        .position(|tally| tally.name == name)
        .unwrap_or(tallies.len());
    if index == tallies.len() {
        tallies.push(Tally {
            name,
            good: 0,
            bad: 0,
            excused: false,
            details: Vec::new(),
        });
    }
    &mut tallies[index]
}

/// Result of an iteration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IterationResult {
    /// Time since the iteration was due.
    pub(crate) duration: Duration,
    /// Part of the duration that the load generator lost before the start; `None` in a closed loop,
    /// which has no due times.
    pub(crate) start_delay: Option<Duration>,
    pub(crate) failed: bool,
    /// Whether the iteration is a result of the target, although it has no requests.
    pub(crate) answered: bool,
    pub(crate) time: UserTime,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt;

    use super::*;

    struct Counted<'c>(&'c Cell<usize>);

    impl Display for Counted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.set(self.0.get() + 1);
            f.write_str("wrong")
        }
    }

    #[test]
    fn only_the_errors_that_are_kept_become_texts() {
        let formatted = Cell::new(0);
        let mut samples = Samples::default();
        for _ in 0..10_000 {
            samples.check(Tags(0), "good", Err(Counted(&formatted)), true);
        }
        assert_eq!(formatted.get(), DETAILS);
        let check = &samples.series(Tags(0)).checks[0];
        assert_eq!((check.bad, check.details.len()), (10_000, DETAILS));
    }
}
