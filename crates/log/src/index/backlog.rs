//! The backlog of the dedup index: entries of the log that the index has not read yet.
//!
//! While the log is open, it rebuilds a lost or stale index from its tiles, the newest tile first.
//! A submission that the index does not find may be in the backlog, unless its certificate is
//! younger than the whole backlog (`unreadable_entries.rs` has the rule). Most submissions are a
//! few hours old. The index can therefore decide about most submissions as soon as it has read the
//! last days.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::index::unreadable_entries::{Gap, signed_from};

/// Time span over which the pace is averaged.
const WINDOW: Duration = Duration::from_secs(20);

/// Ranges of entries that are not read yet, in ascending order. No two ranges are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Backlog(Vec<Gap>);

impl Backlog {
    pub(crate) const EMPTY: Backlog = Backlog(Vec::new());

    pub(crate) fn entries(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.first).sum()
    }

    /// Returns the range to read next, which is the newest range; `None` if the backlog is empty.
    pub(crate) fn newest(&self) -> Option<Gap> {
        self.0.last().copied()
    }

    /// Adds entries that follow all other entries.
    pub(crate) fn push(&mut self, range: Gap) {
        match self.0.last_mut() {
            Some(last) if last.end == range.first => {
                (last.end, last.latest_ms) = (range.end, range.latest_ms);
            }
            _ => self.0.push(range),
        }
    }

    /// Removes the entries `read` from the end of the newest range; ignores any other range. The
    /// oldest removed entry has the timestamp `timestamp_ms`.
    pub(crate) fn cut(&mut self, read: Range<u64>, timestamp_ms: u64) {
        let Some(newest) = self.0.last_mut().filter(|newest| newest.end == read.end) else {
            return;
        };
        (newest.end, newest.latest_ms) = (read.start, timestamp_ms);
        if newest.first >= newest.end {
            self.0.pop();
        }
    }

    /// Removes all entries below `indexed` from all ranges.
    pub(crate) fn cut_below(&mut self, indexed: u64) {
        self.0.retain(|range| range.end > indexed);
        if let Some(oldest) = self.0.first_mut() {
            oldest.first = oldest.first.max(indexed);
        }
    }

    /// Returns the index of the oldest entry in the backlog.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.first().map(|range| range.first)
    }

    /// Returns the upper bound of the entries' timestamps, in Unix milliseconds, or `u64::MAX` if
    /// unknown; `None` if the backlog is empty.
    pub(crate) fn latest_ms(&self) -> Option<u64> {
        self.0.iter().map(|range| range.latest_ms).max()
    }

    /// Returns whether the backlog may have an entry with this notBefore, in Unix milliseconds.
    pub(crate) fn may_have(&self, not_before_ms: Option<i64>) -> bool {
        let latest_ms = self.latest_ms();
        latest_ms.is_some_and(|latest_ms| signed_from(not_before_ms) <= latest_ms)
    }

    /// Returns whether the ranges are in order, not adjacent, and below `indexed`.
    pub(crate) fn is_valid(&self, indexed: u64) -> bool {
        let whole = self.0.iter().all(|range| range.first < range.end);
        let in_order = self.0.is_sorted_by(|one, next| one.end < next.first);
        whole && in_order && self.0.last().is_none_or(|last| last.end <= indexed)
    }
}

/// The pace of reading a backlog over the last `WINDOW`.
#[derive(Default)]
pub(crate) struct Pace(Mutex<Reading>);

#[derive(Default)]
struct Reading {
    samples: VecDeque<Sample>,
    problem: Option<String>,
}

/// The size of the backlog at one time.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    entries: u64,
    latest_ms: u64,
}

impl Pace {
    /// Records the entries that the backlog still has now.
    pub(crate) fn note(&self, left: &Backlog) {
        self.note_at(left, Instant::now());
    }

    fn note_at(&self, left: &Backlog, at: Instant) {
        let reading = &mut *self.0.lock();
        reading.problem = None;
        let samples = &mut reading.samples;
        // One sample from before the window stays: it has the backlog at the start of the window.
        while samples.len() > 2 && at.duration_since(samples[1].at) > WINDOW {
            samples.pop_front();
        }
        samples.push_back(Sample {
            at,
            entries: left.entries(),
            latest_ms: left.latest_ms().unwrap_or(0),
        });
    }

    /// Records the reason why the backlog is not being read.
    pub(crate) fn note_problem(&self, problem: String) {
        self.0.lock().problem = Some(problem);
    }

    /// Returns the reason why the backlog is not being read, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        self.0.lock().problem.clone()
    }

    /// Returns the pace in entries per second; `None` if the pace is not known yet.
    pub(crate) fn entries_per_second(&self) -> Option<f64> {
        self.at(Instant::now()).map(|(pace, ..)| pace)
    }

    /// Returns the time from now until the whole backlog is read; `None` if the pace is unknown.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let (pace, _, last, since) = self.at(Instant::now())?;
        Some(left(last.entries as f64 / pace, since))
    }

    /// Returns the time from now until the backlog has no more entries that may have this
    /// notBefore; `None` if the pace is unknown.
    pub(crate) fn time_until_told(&self, not_before_ms: Option<i64>) -> Option<Duration> {
        self.time_until_told_at(not_before_ms, Instant::now())
    }

    fn time_until_told_at(&self, not_before_ms: Option<i64>, now: Instant) -> Option<Duration> {
        let (pace, milliseconds, last, since) = self.at(now)?;
        let all = last.entries as f64 / pace;
        let behind = last.latest_ms.saturating_sub(signed_from(not_before_ms));
        // While only one bound of the timestamps is known, the quotient is infinite or NaN, and
        // `min` returns `all`.
        let told = (behind as f64 / milliseconds).min(all);
        Some(left(told, since))
    }

    /// Returns the pace in entries per second and in milliseconds of log time per second, the last
    /// sample, and the seconds since that sample.
    fn at(&self, now: Instant) -> Option<(f64, f64, Sample, f64)> {
        let samples = &self.0.lock().samples;
        let (first, last) = (samples.front()?, samples.back()?);
        let read = first.entries.checked_sub(last.entries)?;
        // The time span ends now: the pace falls when reading stops.
        let seconds = now.duration_since(first.at).as_secs_f64();
        if read == 0 || seconds <= 0.0 {
            return None;
        }
        let since = now.duration_since(last.at).as_secs_f64();
        // The timestamps of the backlog are unknown until its newest entries are read.
        let first = samples.iter().find(|sample| sample.latest_ms < u64::MAX)?;
        let went_back = first.latest_ms.saturating_sub(last.latest_ms);
        let milliseconds = went_back as f64 / now.duration_since(first.at).as_secs_f64();
        Some((read as f64 / seconds, milliseconds, *last, since))
    }
}

/// Returns the rest of a time span of `seconds` that began `since` seconds ago.
fn left(seconds: f64, since: f64) -> Duration {
    Duration::try_from_secs_f64((seconds - since).max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * 1000;

    fn range(first: u64, end: u64, latest_ms: u64) -> Gap {
        Gap {
            first,
            end,
            latest_ms,
        }
    }

    #[test]
    fn the_newest_is_read_first_and_the_rest_is_kept() {
        let mut backlog = Backlog::default();
        assert!(!backlog.may_have(None) && backlog.newest().is_none());
        backlog.push(range(0, 1000, 100 * HOUR));
        backlog.push(range(2000, 3000, 300 * HOUR));
        // Adjacent ranges become one.
        backlog.push(range(3000, 4000, 400 * HOUR));
        assert_eq!(backlog.entries(), 3000);
        assert_eq!(backlog.newest(), Some(range(2000, 4000, 400 * HOUR)));
        let not_before = |hours: u64| Some((hours * HOUR) as i64);
        assert!(backlog.may_have(not_before(448)) && !backlog.may_have(not_before(449)));
        backlog.cut(2500..4000, 250 * HOUR);
        assert_eq!(backlog.newest(), Some(range(2000, 2500, 250 * HOUR)));
        assert!(!backlog.may_have(not_before(299)) && backlog.may_have(not_before(298)));
        // A range that does not end at the end of the newest range is ignored.
        backlog.cut(2400..2501, 0);
        assert_eq!(backlog.entries(), 1500);
        backlog.cut(2000..2500, 200 * HOUR);
        assert_eq!(backlog.newest(), Some(range(0, 1000, 100 * HOUR)));
        backlog.cut(0..1000, 0);
        assert_eq!(backlog, Backlog::default());
    }

    #[test]
    fn invalid_ranges_are_no_backlog() {
        let valid = Backlog(vec![range(0, 5, 1), range(7, 9, 2)]);
        assert!(valid.is_valid(9) && !valid.is_valid(8) && Backlog::EMPTY.is_valid(0));
        for wrong in [
            [range(5, 5, 1), range(7, 9, 2)],
            [range(7, 9, 2), range(0, 5, 1)],
            [range(0, 8, 1), range(7, 9, 2)],
            [range(0, 7, 1), range(7, 9, 2)],
        ] {
            assert!(!Backlog(wrong.to_vec()).is_valid(9), "{wrong:?}");
        }
    }

    #[test]
    fn the_time_that_is_left_follows_from_the_last_seconds() {
        let (pace, start) = (Pace::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let left = |entries: u64, hours: u64| Backlog(vec![range(0, entries, hours * HOUR)]);
        let told = |hours: u64, now: u64| {
            let time = pace.time_until_told_at(Some((hours * HOUR) as i64), at(now))?;
            Some(time.as_secs_f64().round() as u64)
        };
        assert_eq!(told(0, 0), None);
        pace.note_at(&left(1000, 1000), at(0));
        assert_eq!(told(0, 1), None);
        // The pace is ten entries and ten hours per second.
        pace.note_at(&left(900, 900), at(10));
        assert_eq!(told(48 + 900, 10), Some(0));
        assert_eq!(told(48 + 800, 10), Some(10));
        assert_eq!(told(0, 10), Some(90), "never longer than for all");
        // The pace falls, and older samples are dropped.
        for seconds in 11..=60 {
            pace.note_at(&left(900 - seconds, 900 - seconds), at(seconds));
        }
        assert_eq!(told(48 + 740, 60), Some(100));
        // Reading has stopped.
        assert!(told(48 + 740, 600) > Some(1000));
    }
}
