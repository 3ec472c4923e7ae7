//! Metrics of samples, under the names in thresholds and reports.

use std::collections::BTreeMap;

use super::{Samples, Series};
use crate::histogram::Histogram;
use crate::metric::{Metric, narrowing, sum};
use crate::tags::{TagRegistry, has};
use crate::threshold::EVERY_SCENARIO;

/// A metric with samples.
pub(crate) enum Figure<'s> {
    /// A trend.
    Trend(&'s Histogram),
    /// A metric of another kind.
    Other(Metric),
}

impl Samples {
    /// Merges a metric over all series with these tags; `None` without samples.
    pub(crate) fn select(
        &self,
        registry: &TagRegistry,
        metric: &str,
        tags: &[(&str, &str)],
    ) -> Option<Metric> {
        let (narrow, rest) = narrowing(metric, tags);
        self.iter()
            .filter(|(number, _)| registry.get(*number).is_some_and(|set| has(&set, &rest)))
            .filter_map(|(_, series)| match narrow {
                Some(value) => series.narrowed(metric, value),
                None => series.metric(metric),
            })
            .reduce(sum)
    }
}

impl Series {
    /// Returns all metrics that have samples.
    pub(crate) fn metrics(&self) -> BTreeMap<String, Metric> {
        let own = EVERY_SCENARIO
            .iter()
            .filter_map(|(name, _)| Some((name.to_string(), self.metric(name)?)));
        let custom = self
            .custom
            .iter()
            .map(|(name, metric)| (name.to_string(), metric.clone()));
        own.chain(custom).collect()
    }

    /// Calls `visit` with each metric that has samples.
    pub(crate) fn figures(&self, mut visit: impl FnMut(&str, Figure<'_>)) {
        for (name, _) in EVERY_SCENARIO {
            match self.trend(name) {
                Some(histogram) if histogram.is_empty() => {}
                Some(histogram) => visit(name, Figure::Trend(histogram)),
                None => {
                    if let Some(metric) = self.metric(name) {
                        visit(name, Figure::Other(metric));
                    }
                }
            }
        }
        for (name, metric) in &self.custom {
            match metric.trend() {
                Some(histogram) => visit(name, Figure::Trend(histogram)),
                None => visit(name, Figure::Other(metric.clone())),
            }
        }
    }

    /// Returns the durations of a trend of every scenario.
    fn trend(&self, name: &str) -> Option<&Histogram> {
        let requests = &self.requests;
        Some(match name {
            "http_req_duration" => &requests.total,
            "http_req_connecting" => &requests.connect,
            "http_req_tls_handshaking" => &requests.tls,
            "http_req_sending" => &requests.sending,
            "http_req_waiting" => &requests.first_byte,
            "http_req_receiving" => &requests.body,
            "iteration_duration" => &self.iterations,
            "iteration_start_delay" => &self.start_delay,
            _ => return None,
        })
    }

    fn metric(&self, name: &str) -> Option<Metric> {
        if let Some(histogram) = self.trend(name) {
            return (!histogram.is_empty()).then(|| Metric::Trend(histogram.clone()));
        }
        let (requests, count) = (&self.requests, self.requests.total.count());
        let counter = |there: bool, count: u64| there.then_some(Metric::Counter { count });
        let rate = |good: u64, total: u64| (total > 0).then_some(Metric::Rate { good, total });
        let engine = self.engine.as_ref();
        let [v4, v6] = requests.connections;
        match name {
            "http_req_failed" => rate(requests.failed, count),
            "http_req_reset" => rate(requests.resent_busy, count),
            "http_req_resent" => {
                let resent = requests.resent_busy + requests.resent_idle;
                counter(resent > 0, resent)
            }
            "http_reqs" => counter(count > 0, count),
            "connections_ipv4" => counter(v4 > 0, v4),
            "connections_ipv6" => counter(v6 > 0, v6),
            "data_sent" => counter(count > 0, requests.bytes_out),
            "data_received" => counter(count > 0, requests.bytes_in),
            "body_sent" => counter(count > 0, requests.body_out),
            "body_received" => counter(count > 0, requests.body_in),
            "iterations" => counter(!self.iterations.is_empty(), self.iterations.count()),
            "iterations_failed" => rate(self.iterations_failed, self.iterations.count()),
            "dropped_iterations" => engine.map(|engine| Metric::Counter {
                count: engine.dropped,
            }),
            "interrupted_iterations" => engine.map(|engine| Metric::Counter {
                count: engine.interrupted,
            }),
            "iterations_finished" => {
                engine.and_then(|engine| rate(engine.finished, engine.finished + engine.unfinished))
            }
            "achieved_rate" => engine.and_then(|engine| rate(engine.started, engine.asked)),
            "vu_time_lost" => engine.map(|_| self.user_time.share(self.user_time.lost)),
            "vu_time_throttled" => engine.map(|_| self.user_time.share(self.user_time.throttled)),
            "target_silent" => engine.map(|engine| Metric::Rate {
                good: engine.silent.into(),
                total: 1,
            }),
            "vus" => engine.map(|engine| Metric::Gauge {
                last: engine.users as f64,
                min: 0.0,
                max: engine.users_max as f64,
            }),
            "checks" => {
                let counted = self.checks.iter().filter(|check| !check.excused);
                let (good, bad) = counted.fold((0, 0), |(good, bad), check| {
                    (good + check.good, bad + check.bad)
                });
                rate(good, good + bad)
            }
            "errors" => {
                let any = count > 0 || !self.iterations.is_empty() || !self.errors.is_empty();
                counter(any, self.errors.iter().map(|error| error.bad).sum())
            }
            _ => self
                .custom
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, metric)| metric.clone()),
        }
    }

    /// Returns a metric of one check, status or kind of error.
    fn narrowed(&self, name: &str, value: &str) -> Option<Metric> {
        if name == "checks" {
            let check = self.checks.iter().find(|check| check.name == value)?;
            return Some(Metric::Rate {
                good: check.good,
                total: check.good + check.bad,
            });
        }
        // A status or kind without samples counts as zero if the metric itself has samples.
        self.metric(name)?;
        let count = match name {
            "http_reqs" => value
                .parse()
                .ok()
                .and_then(|status: u16| self.requests.statuses.get(&status))
                .copied(),
            _ => self
                .errors
                .iter()
                .find(|error| error.name == value)
                .map(|error| error.bad),
        };
        Some(Metric::Counter {
            count: count.unwrap_or(0),
        })
    }
}
