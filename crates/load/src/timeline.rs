//! Course of a run over time, in bounded memory.

use serde::{Deserialize, Serialize};

use crate::heat::{HEAT, heat_bounds};

/// Course of a run over time, in a bounded number of points.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeline {
    /// Seconds between points.
    pub interval: f64,
    /// Points in chronological order.
    pub points: Vec<Point>,
}

/// Data of one interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Point {
    /// Begin of the interval, in seconds after the first arrival.
    pub at: f64,
    /// Rows of the scenarios, in the order of `Summary::scenarios`.
    pub scenarios: Vec<PointRow>,
}

/// Data of one scenario in one interval.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PointRow {
    /// Target iterations per second; 0 for scenarios by users.
    pub asked: f64,
    /// Iterations that began.
    pub started: u64,
    /// Iterations that finished.
    pub iterations: u64,
    /// Completed requests.
    pub requests: u64,
    /// Results that count as failures.
    pub failures: u64,
    /// Dropped arrivals.
    pub dropped: u64,
    /// Users at the end of the interval.
    pub users: u32,
    /// Users in an iteration, at the end of the interval.
    pub busy: u32,
    /// Median of request durations, or of iterations if there are no requests, in µs.
    pub p50: u64,
    /// 90th percentile of the same durations, in µs.
    pub p90: u64,
    /// 99th percentile of the same durations, in µs.
    pub p99: u64,
    /// Longest of the same durations, in µs.
    pub max: u64,
    /// Counts of the same durations in the buckets of [`heat_bounds`].
    pub heat: [u32; HEAT],
}

/// Limit of the points of a timeline. When the timeline is full, neighbours are merged, and each
/// point covers twice the time from then on.
pub const MOST_POINTS: usize = 512;

/// Builder of a timeline.
#[derive(Debug, Default)]
pub(crate) struct TimelineBuilder {
    points: Vec<Point>,
    /// Number of intervals per point minus one.
    more: u32,
    /// The incomplete point, and its number of intervals.
    pending: Option<(Point, u32)>,
}

impl TimelineBuilder {
    /// Appends the data of the next interval.
    pub(crate) fn push(&mut self, point: Point) {
        let (point, intervals) = match self.pending.take() {
            Some((mut pending, intervals)) => {
                pending.follow(&point, f64::from(intervals), 1.0);
                (pending, intervals + 1)
            }
            None => (point, 1),
        };
        if intervals <= self.more {
            self.pending = Some((point, intervals));
            return;
        }
        self.points.push(point);
        if self.points.len() == MOST_POINTS {
            self.halve();
        }
    }

    /// Merges the rest of an interval into the last point, because a shorter point would look like
    /// a drop.
    pub(crate) fn push_rest(&mut self, rest: Point) {
        let pending = self.pending.as_mut().map(|(point, _)| point);
        match pending.or(self.points.last_mut()) {
            Some(last) => last.follow(&rest, 1.0, 0.0),
            None => self.push(rest),
        }
    }

    fn halve(&mut self) {
        self.more = self.more * 2 + 1;
        self.points = pairs(&self.points);
    }

    /// Returns the timeline; each pushed interval has `interval` seconds.
    pub(crate) fn timeline(&self, interval: f64) -> Timeline {
        let pending = self.pending.iter().map(|(point, _)| point.clone());
        Timeline {
            interval: interval * f64::from(self.more + 1),
            points: self.points.iter().cloned().chain(pending).collect(),
        }
    }
}

fn pairs(points: &[Point]) -> Vec<Point> {
    let merged = points.chunks(2).map(|pair| {
        let mut point = pair[0].clone();
        pair[1..]
            .iter()
            .for_each(|next| point.follow(next, 1.0, 1.0));
        point
    });
    merged.collect()
}

impl Timeline {
    /// Returns whether the points, if any, have an interval.
    pub(crate) fn is_valid(&self) -> bool {
        self.points.is_empty() || self.interval > 0.0
    }

    /// Merges another timeline, aligned at the beginning. `rows[i]` is the row of this timeline for
    /// row `i` of `other`.
    pub(crate) fn beside(&mut self, other: &Timeline, rows: &[usize]) {
        let mut other = other.clone();
        if self.points.is_empty() {
            self.interval = other.interval;
        }
        while other.interval < self.interval * 0.75 && !other.points.is_empty() {
            other = Timeline {
                interval: other.interval * 2.0,
                points: pairs(&other.points),
            };
        }
        while self.interval < other.interval * 0.75 && !self.points.is_empty() {
            *self = Timeline {
                interval: self.interval * 2.0,
                points: pairs(&self.points),
            };
        }
        let width = rows.iter().map(|row| row + 1).max().unwrap_or(0);
        for (index, theirs) in other.points.into_iter().enumerate() {
            if index == self.points.len() {
                self.points.push(Point {
                    at: theirs.at,
                    scenarios: Vec::new(),
                });
            }
            let mine = &mut self.points[index].scenarios;
            mine.resize(mine.len().max(width), PointRow::default());
            for (row, to) in theirs.scenarios.iter().zip(rows) {
                mine[*to].beside(row);
            }
        }
        for point in &mut self.points {
            point
                .scenarios
                .resize(point.scenarios.len().max(width), PointRow::default());
        }
    }
}

impl Point {
    /// Merges the next point in time. Rates are averaged, weighted by both durations.
    fn follow(&mut self, next: &Point, mine: f64, theirs: f64) {
        self.scenarios.resize(
            self.scenarios.len().max(next.scenarios.len()),
            PointRow::default(),
        );
        for (row, next) in self.scenarios.iter_mut().zip(&next.scenarios) {
            row.add(next);
            row.asked = (row.asked * mine + next.asked * theirs) / (mine + theirs);
            (row.users, row.busy) = (next.users, next.busy);
        }
    }
}

impl PointRow {
    /// Merges the data of another part of the run for the same time.
    fn beside(&mut self, other: &PointRow) {
        self.add(other);
        self.asked += other.asked;
        self.users = self.users.saturating_add(other.users);
        self.busy = self.busy.saturating_add(other.busy);
    }

    /// Merges counts and durations.
    fn add(&mut self, other: &PointRow) {
        let (mine, theirs) = (self.durations(), other.durations());
        for (bucket, more) in self.heat.iter_mut().zip(other.heat) {
            *bucket = bucket.saturating_add(more);
        }
        let merged = |p: f64, mine_at: u64, theirs_at: u64| match (mine, theirs) {
            (_, 0) => mine_at,
            (0, _) => theirs_at,
            _ => by_heat(&self.heat, p).clamp(mine_at.min(theirs_at), mine_at.max(theirs_at)),
        };
        self.p50 = merged(0.5, self.p50, other.p50);
        self.p90 = merged(0.9, self.p90, other.p90);
        self.p99 = merged(0.99, self.p99, other.p99);
        self.max = self.max.max(other.max);
        for (count, more) in [
            (&mut self.started, other.started),
            (&mut self.iterations, other.iterations),
            (&mut self.requests, other.requests),
            (&mut self.failures, other.failures),
            (&mut self.dropped, other.dropped),
        ] {
            *count = count.saturating_add(more);
        }
    }

    fn durations(&self) -> u64 {
        self.heat.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Estimates a percentile from a heat strip, in µs. The percentile of two intervals together lies
/// between their two percentiles, so the caller can narrow the estimate down.
fn by_heat(heat: &[u32], p: f64) -> u64 {
    let total: u64 = heat.iter().map(|count| u64::from(*count)).sum();
    let place = p * total.saturating_sub(1) as f64;
    let bounds = heat_bounds();
    let mut below = 0.0;
    for (bucket, count) in heat.iter().enumerate() {
        let count = f64::from(*count);
        if below + count > place {
            let high = bounds[bucket].as_micros() as f64;
            let low = bucket
                .checked_sub(1)
                .map_or(1.0, |lower| bounds[lower].as_micros() as f64);
            return (low * (high / low).powf((place - below) / count)) as u64;
        }
        below += count;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u64, latency: u64) -> Point {
        let mut row = PointRow {
            asked: 100.0,
            started: 100,
            requests: 100,
            users: 7,
            ..Default::default()
        };
        (row.p50, row.p90, row.p99, row.max) = (latency, latency, latency, latency);
        let bucket = heat_bounds()
            .iter()
            .position(|bound| bound.as_micros() as u64 >= latency);
        row.heat[bucket.unwrap()] = 100;
        Point {
            at: at as f64,
            scenarios: vec![row],
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_length_of_a_run() {
        let mut growing = TimelineBuilder::default();
        let week = 7 * 24 * 3600;
        for second in 0..week {
            growing.push(point(second, 1000 + second % 7));
            assert!(growing.points.len() < MOST_POINTS);
        }
        let timeline = growing.timeline(1.0);
        assert_eq!(timeline.interval, 2048.0);
        assert!(timeline.points.len() <= MOST_POINTS && timeline.points.len() >= MOST_POINTS / 2);
        let started: u64 = timeline
            .points
            .iter()
            .map(|point| point.scenarios[0].started)
            .sum();
        assert_eq!(started, week * 100, "nothing is lost");
        for (index, point) in timeline.points.iter().enumerate() {
            assert_eq!(point.at, index as f64 * timeline.interval);
            assert!((point.scenarios[0].asked - 100.0).abs() < 1e-6);
            assert_eq!(point.scenarios[0].users, 7);
            assert!((1000..=1006).contains(&point.scenarios[0].p99));
            assert_eq!(point.scenarios[0].max, 1006);
        }
    }

    #[test]
    fn the_rest_of_a_second_belongs_to_the_last_point() {
        let mut growing = TimelineBuilder::default();
        growing.push_rest(point(0, 1000));
        growing.push(point(1, 1000));
        growing.push_rest(point(2, 5000));
        let timeline = growing.timeline(1.0);
        let started: Vec<_> = timeline
            .points
            .iter()
            .map(|point| point.scenarios[0].started)
            .collect();
        assert_eq!(started, [100, 200]);
        assert_eq!(timeline.points[1].scenarios[0].asked, 100.0);
    }

    #[test]
    fn a_spike_stays_visible_when_points_merge() {
        let (mut calm, spike) = (point(0, 1_000), point(1, 2_000_000));
        calm.follow(&spike, 1.0, 1.0);
        let row = calm.scenarios[0];
        assert_eq!(row.max, 2_000_000);
        assert!(row.p99 > 1_000_000, "{row:?}");
        assert!(row.p50 < 1_000_000, "{row:?}");
    }

    #[test]
    fn parallel_timelines_are_laid_over_each_other() {
        let mut fine = TimelineBuilder::default();
        (0..10).for_each(|second| fine.push(point(second, 1000)));
        let mut both = fine.timeline(1.0);
        let coarse = Timeline {
            interval: 2.0,
            points: pairs(&both.points),
        };
        both.beside(&coarse, &[1]);
        assert_eq!((both.interval, both.points.len()), (2.0, 5));
        for point in &both.points {
            assert_eq!(
                point
                    .scenarios
                    .iter()
                    .map(|row| row.started)
                    .collect::<Vec<_>>(),
                [200, 200]
            );
        }
        both.beside(&coarse, &[0]);
        assert_eq!(both.points[4].scenarios[0].started, 400);
        assert_eq!(both.points[4].scenarios[0].asked, 200.0);
    }
}
