//! Samples of one second: of a scenario, and of its operations, steps and cells.

use std::cmp::Reverse;

use crate::histogram::Histogram;
use crate::samples::Series;
use crate::snapshot::{PartRow, RequestFigures};
use crate::tags::distinguishes_parts;

/// Samples of a scenario, or of a part of it, in one interval.
#[derive(Debug, Clone, Default)]
pub(super) struct Interval {
    pub(super) requests: Histogram,
    pub(super) iterations: Histogram,
    pub(super) start_delay: Histogram,
    pub(super) answered: u64,
    pub(super) failures: u64,
    pub(super) failed_checks: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Interval {
    /// Returns the durations of the requests, or of the iterations if there are no requests.
    pub(super) fn durations(&self) -> &Histogram {
        if self.requests.is_empty() {
            &self.iterations
        } else {
            &self.requests
        }
    }

    pub(super) fn add(&mut self, series: &Series) {
        self.requests.merge(&series.requests.total);
        self.iterations.merge(&series.iterations);
        self.start_delay.merge(&series.start_delay);
        self.answered += series.answered;
        self.failures += series.errors.iter().map(|error| error.bad).sum::<u64>();
        let counted = series.checks.iter().filter(|check| !check.excused);
        self.failed_checks += counted.map(|check| check.bad).sum::<u64>();
        self.bytes_in += series.requests.bytes_in;
        self.bytes_out += series.requests.bytes_out;
    }

    /// Returns the figures of an interval of this length.
    pub(super) fn figures(&self, seconds: f64) -> RequestFigures {
        let durations = self.durations();
        let ps = durations.percentiles(&[50.0, 90.0, 99.0]);
        let rate = |count: u64| count as f64 / seconds;
        RequestFigures {
            requests: rate(self.requests.count()),
            failures: rate(self.failures),
            bytes_in: rate(self.bytes_in),
            bytes_out: rate(self.bytes_out),
            p50: ps[0],
            p90: ps[1],
            p99: ps[2],
            max: durations.max(),
        }
    }
}

/// Number of parts of a scenario in a snapshot. A plan may have thousands of parts.
const SHOWN: usize = 6;

/// The parts of a scenario so far.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Part>);

/// Requests that share the tags that distinguish parts.
#[derive(Debug, Default)]
struct Part {
    /// Tags of the part, without the tags of the scenario.
    tags: Vec<(String, String)>,
    /// Number of requests since the start.
    requests: u64,
    /// Samples since the last snapshot.
    interval: Interval,
}

impl Parts {
    /// Returns the index of the part with these tags; `None` for the tags of the scenario itself.
    pub(super) fn index(
        &mut self,
        tags: &[(String, String)],
        scenario: &[(String, String)],
    ) -> Option<usize> {
        let own = tags
            .iter()
            .filter(|tag| distinguishes_parts(&tag.0) && !scenario.contains(tag));
        let tags: Vec<_> = own.cloned().collect();
        if tags.is_empty() {
            return None;
        }
        let known = self.0.iter().position(|part| part.tags == tags);
        Some(known.unwrap_or_else(|| {
            self.0.push(Part {
                tags,
                ..Part::default()
            });
            self.0.len() - 1
        }))
    }

    pub(super) fn add(&mut self, index: usize, series: &Series) {
        let part = &mut self.0[index];
        part.requests += series.requests.total.count();
        part.interval.add(series);
    }

    /// Returns the rows of the busiest parts since the start, and begins a new interval. A part
    /// that is the whole scenario has no row.
    pub(super) fn rows(&mut self, seconds: f64) -> Vec<PartRow> {
        let mut busiest: Vec<&Part> = self.0.iter().filter(|it| it.requests > 0).collect();
        if busiest.len() < 2 {
            busiest.clear();
        }
        busiest.sort_by_key(|part| Reverse(part.requests));
        let row = |part: &&Part| PartRow {
            name: self.name(part),
            figures: part.interval.figures(seconds),
        };
        let rows = busiest.iter().take(SHOWN).map(row).collect();
        for part in &mut self.0 {
            part.interval = Interval::default();
        }
        rows
    }

    /// Returns the values of the tags in which the parts differ.
    fn name(&self, part: &Part) -> String {
        let differs = |tag: &&(String, String)| !self.0.iter().all(|it| it.tags.contains(tag));
        let values = part.tags.iter().filter(differs);
        let values: Vec<_> = values.map(|(_, value)| value.as_str()).collect();
        values.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Adds requests to the part with these tags.
    fn add(parts: &mut Parts, tags: &str, requests: u64) {
        let tags = tags.split(' ').filter_map(|tag| tag.split_once('='));
        let tags: Vec<_> = tags.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let scenario = [("scenario".to_owned(), "s".to_owned())];
        let mut series = Series::default();
        for _ in 0..requests {
            series.requests.total.record(Duration::from_millis(10));
        }
        if let Some(index) = parts.index(&tags, &scenario) {
            parts.add(index, &series);
        }
    }

    fn rows(parts: &mut Parts) -> Vec<(String, f64)> {
        let rows = parts.rows(2.0).into_iter();
        rows.map(|row| (row.name, row.figures.requests)).collect()
    }

    #[test]
    fn the_busiest_parts_have_rows() {
        let mut parts = Parts::default();
        for number in 1..=2 * SHOWN as u64 {
            let tags = format!("log=a op={number} scenario=s");
            add(&mut parts, &tags, 10 * number);
        }
        let found = rows(&mut parts);
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["12", "11", "10", "9", "8", "7"]);
        assert_eq!(found[0].1, 60.0, "requests per second");
        // The order follows all requests, so that rows keep their places.
        add(&mut parts, "log=a op=7 scenario=s", 10);
        let found = rows(&mut parts);
        assert_eq!(found[0], ("12".to_owned(), 0.0));
        assert!(found.contains(&("7".to_owned(), 5.0)), "{found:?}");
    }

    #[test]
    fn names_contain_the_tags_that_differ() {
        let mut parts = Parts::default();
        add(&mut parts, "endpoint=a op=get scenario=s size=1", 2);
        assert!(rows(&mut parts).is_empty(), "the whole scenario");
        add(&mut parts, "endpoint=a op=put scenario=s size=1", 1);
        add(&mut parts, "endpoint=a op=put scenario=s size=2", 1);
        let names: Vec<_> = rows(&mut parts).into_iter().map(|row| row.0).collect();
        assert_eq!(names, ["get 1", "put 1", "put 2"]);
    }

    #[test]
    fn results_and_iterations_are_no_parts() {
        let mut parts = Parts::default();
        add(&mut parts, "handshake=full scenario=s", 2);
        add(&mut parts, "handshake=none scenario=s", 2);
        add(&mut parts, "scenario=s", 2);
        add(&mut parts, "log=a scenario=s", 0);
        add(&mut parts, "log=a op=get scenario=s", 2);
        assert!(rows(&mut parts).is_empty());
    }
}
