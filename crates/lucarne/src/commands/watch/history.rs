//! Growth of a watched log in the last minute.

use std::collections::VecDeque;

use lucarne_scenarios::ct::TreeHead;

/// Number of seconds of growth to keep, and of columns in the sparkline.
const SECONDS: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Growth of a log per second, and its last tree head.
#[derive(Debug, Default)]
pub(super) struct History {
    head: Option<TreeHead>,
    /// Entries added in each second, the newest last.
    growth: VecDeque<u64>,
    /// Second of the last element.
    second: u64,
}

/// A tree head at the time of a check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sight {
    /// Leaves of the tree.
    pub(super) size: u64,
    /// Leaves added since the previous checkpoint; `None` for the first checkpoint.
    pub(super) growth: Option<u64>,
    /// Milliseconds between the timestamps of the two checkpoints.
    pub(super) interval_ms: Option<u64>,
    /// Milliseconds from the checkpoint's timestamp to now.
    pub(super) age_ms: u64,
    /// Timestamp of the checkpoint, in milliseconds since 1970.
    pub(super) timestamp: u64,
    /// Leaves per second over the last minute, or since the start.
    pub(super) rate: f64,
    /// Whether the checkpoint differs from the previous checkpoint.
    pub(super) new: bool,
}

impl History {
    /// Records the tree head at `now_ms`.
    pub(super) fn see(&mut self, head: TreeHead, now_ms: u64) -> Sight {
        let before = self.head.replace(head);
        let added = before.map(|before| head.size.saturating_sub(before.size));
        self.grow(now_ms / 1000, added.unwrap_or(0));
        let new = before != Some(head);
        let since = before.map(|before| head.timestamp.saturating_sub(before.timestamp));
        Sight {
            size: head.size,
            growth: added.filter(|_| new),
            interval_ms: since.filter(|_| new),
            age_ms: now_ms.saturating_sub(head.timestamp),
            timestamp: head.timestamp,
            rate: self.rate(),
            new,
        }
    }

    /// Returns the milliseconds since the last head was signed, if there is one.
    pub(super) fn age_ms(&self, now_ms: u64) -> Option<u64> {
        let head = self.head?;
        Some(now_ms.saturating_sub(head.timestamp))
    }

    fn grow(&mut self, second: u64, added: u64) {
        if self.growth.is_empty() {
            self.second = second;
            self.growth.push_back(0);
        }
        while self.second < second {
            self.second += 1;
            self.growth.push_back(0);
            // After a long pause, only the last minute counts.
            if self.growth.len() > SECONDS {
                self.growth.pop_front();
            }
        }
        if let Some(last) = self.growth.back_mut() {
            *last += added;
        }
    }

    fn rate(&self) -> f64 {
        // The first second was observed only in part.
        let seconds = self.growth.len().saturating_sub(1).max(1);
        self.growth.iter().sum::<u64>() as f64 / seconds as f64
    }

    /// Formats the last `columns` seconds as bars, scaled to the second with the most entries.
    pub(super) fn sparkline(&self, columns: usize) -> String {
        let skip = self.growth.len().saturating_sub(columns);
        let shown = || self.growth.iter().skip(skip);
        let max = shown().copied().max().unwrap_or(0).max(1);
        shown()
            .map(|&added| match added {
                0 => ' ',
                added => BARS[(added * (BARS.len() as u64 - 1)).div_ceil(max) as usize],
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(size: u64, timestamp: u64) -> TreeHead {
        let root = lucarne_tlog::leaf_hash(&size.to_be_bytes());
        TreeHead {
            size,
            root,
            timestamp,
        }
    }

    #[test]
    fn growth_interval_and_age() {
        let mut history = History::default();
        let first = history.see(head(1000, 10_000), 10_500);
        assert_eq!(
            (first.growth, first.interval_ms, first.age_ms),
            (None, None, 500)
        );
        assert!(first.new);
        let same = history.see(head(1000, 10_000), 11_500);
        assert_eq!((same.growth, same.age_ms, same.new), (None, 1500, false));
        let grown = history.see(head(1300, 12_000), 12_500);
        assert_eq!((grown.growth, grown.interval_ms), (Some(300), Some(2000)));
        assert_eq!(grown.rate, 150.0);
        assert_eq!(history.age_ms(15_000), Some(3000));
    }

    #[test]
    fn the_sparkline_is_a_minute_long_and_as_high_as_it_goes() {
        let mut history = History::default();
        history.see(head(0, 0), 0);
        for second in 1..=200 {
            history.see(head(second * second, second * 1000), second * 1000);
        }
        let line = history.sparkline(100);
        assert_eq!(line.chars().count(), SECONDS);
        assert!(line.ends_with('█'), "{line}");
        assert_eq!(history.sparkline(5).chars().count(), 5);
        // A gap is drawn empty, and so is the time before it.
        history.see(head(40_000, 500_000), 500_000);
        assert_eq!(history.sparkline(60).trim(), "");
    }
}
