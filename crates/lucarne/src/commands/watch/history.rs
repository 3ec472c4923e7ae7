//! The history of a watched log so far.

use std::collections::VecDeque;

use lucarne_scenarios::ct::TreeHead;

/// Seconds of growth that are remembered, and columns of the sparkline.
const SECONDS: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The growth of a log, second by second, and its last two heads.
#[derive(Debug, Default)]
pub(super) struct History {
    head: Option<TreeHead>,
    /// Entries added in each second, the newest last.
    growth: VecDeque<u64>,
    /// The second that the last element stands for.
    second: u64,
}

/// A head, seen at a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sight {
    /// Leaves of the tree.
    pub(super) size: u64,
    /// Leaves added since the checkpoint before; none for the first.
    pub(super) growth: Option<u64>,
    /// Milliseconds between the timestamps of the two.
    pub(super) interval_ms: Option<u64>,
    /// Milliseconds from the checkpoint's timestamp to now.
    pub(super) age_ms: u64,
    /// The checkpoint's timestamp, in milliseconds since 1970.
    pub(super) timestamp: u64,
    /// Leaves a second, over the last minute or as long as there is.
    pub(super) rate: f64,
    /// True if the checkpoint is another than last time.
    pub(super) new: bool,
}

impl History {
    /// Takes in what is there at `now_ms`.
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

    /// Milliseconds since the last head was signed, if there was one.
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
            // After a long sleep only the last minute matters.
            if self.growth.len() > SECONDS {
                self.growth.pop_front();
            }
        }
        if let Some(last) = self.growth.back_mut() {
            *last += added;
        }
    }

    fn rate(&self) -> f64 {
        // The second in which watching began saw only a part.
        let seconds = self.growth.len().saturating_sub(1).max(1);
        self.growth.iter().sum::<u64>() as f64 / seconds as f64
    }

    /// The last `columns` seconds as bars, the highest as high as it goes.
    pub(super) fn sparkline(&self, columns: usize) -> String {
        let skip = self.growth.len().saturating_sub(columns);
        let shown = || self.growth.iter().skip(skip);
        let most = shown().copied().max().unwrap_or(0).max(1);
        shown()
            .map(|&added| match added {
                0 => ' ',
                added => BARS[(added * (BARS.len() as u64 - 1)).div_ceil(most) as usize],
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
        // A gap is empty, and so is what lies before it.
        history.see(head(40_000, 500_000), 500_000);
        assert_eq!(history.sparkline(60).trim(), "");
    }
}
