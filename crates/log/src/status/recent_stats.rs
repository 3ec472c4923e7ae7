//! Statistics of the last seconds, for the status page. Metrics serve monitoring systems.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::status::state::Stats;

/// Number of the newest submissions whose latencies are kept.
const LATENCIES: usize = 1024;
/// The time over which the rate is computed.
const WINDOW: Duration = Duration::from_secs(10);

/// Entries and durations of recent rounds, and latencies of recent submissions.
#[derive(Default)]
pub(crate) struct RecentStats {
    latencies: VecDeque<Duration>,
    rounds: VecDeque<(Instant, usize)>,
    last_entries: usize,
    last_duration: Duration,
}

impl RecentStats {
    pub(crate) fn note_latency(&mut self, latency: Duration) {
        if self.latencies.len() == LATENCIES {
            self.latencies.pop_front();
        }
        self.latencies.push_back(latency);
    }

    pub(crate) fn note_round(&mut self, entries: usize, took: Duration) {
        let now = Instant::now();
        self.forget_before(now);
        self.rounds.push_back((now, entries));
        (self.last_entries, self.last_duration) = (entries, took);
    }

    fn forget_before(&mut self, now: Instant) {
        while let Some((at, _)) = self.rounds.front()
            && now.duration_since(*at) > WINDOW
        {
            self.rounds.pop_front();
        }
    }

    pub(crate) fn stats(&mut self) -> Stats {
        self.forget_before(Instant::now());
        let entries: usize = self.rounds.iter().map(|(_, entries)| entries).sum();
        let mut latencies: Vec<Duration> = self.latencies.iter().copied().collect();
        latencies.sort_unstable();
        let quantile = |q: f64| {
            let at = (latencies.len() as f64 * q) as usize;
            latencies
                .get(at)
                .or(latencies.last())
                .copied()
                .unwrap_or_default()
        };
        Stats {
            entries_per_second: entries as f64 / WINDOW.as_secs_f64(),
            latency_p50: quantile(0.5),
            latency_p99: quantile(0.99),
            pool_depth: 0,
            round_entries: self.last_entries,
            round_duration: self.last_duration,
        }
    }
}
