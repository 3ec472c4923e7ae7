//! The hours of the day at which the scrubber reads files.

use std::str::FromStr;
use std::time::Duration;

use tokio::time::sleep;

use crate::config::clock::Clock;

const MINUTES_PER_DAY: u64 = 24 * 60;
/// Maximum time of one sleep, because the clock may be set during the sleep.
const LONGEST: Duration = Duration::from_secs(60);

/// A part of each day, UTC: `22:00-06:00`.
///
/// # Examples
///
/// ```
/// use lucarne_log::{NoWindow, ScrubWindow};
///
/// assert!("22:00-06:00".parse::<ScrubWindow>().is_ok());
/// assert_eq!("22:00-24:30".parse::<ScrubWindow>(), Err(NoWindow));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubWindow {
    /// The first minute, counted from midnight.
    from: u64,
    /// The minute of the day at which the window ends. If this minute is before `from`, the window
    /// ends on the next day.
    to: u64,
}

/// The text is not a valid part of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a part of the day in UTC, such as 22:00-06:00")]
pub struct NoWindow;

impl FromStr for ScrubWindow {
    type Err = NoWindow;

    fn from_str(text: &str) -> Result<Self, NoWindow> {
        let (from, to) = text.split_once('-').ok_or(NoWindow)?;
        let (from, to) = (minute(from)?, minute(to)?);
        if from == to {
            Err(NoWindow)
        } else {
            Ok(ScrubWindow { from, to })
        }
    }
}

/// Parses `hh:mm` as a minute of the day.
fn minute(text: &str) -> Result<u64, NoWindow> {
    let number = |text: &str, below| match text.as_bytes() {
        [b'0'..=b'9', b'0'..=b'9'] => text.parse::<u64>().ok().filter(|number| *number < below),
        _ => None,
    };
    let (hour, minute) = text.trim().split_once(':').ok_or(NoWindow)?;
    match (number(hour, 24), number(minute, 60)) {
        (Some(hour), Some(minute)) => Ok(hour * 60 + minute),
        _ => Err(NoWindow),
    }
}

impl ScrubWindow {
    /// Waits until the window is open.
    pub(crate) async fn opened(&self, clock: &Clock) {
        while let Some(wait) = self.closed_for(clock.now_ms()) {
            sleep(wait.min(LONGEST)).await;
        }
    }

    /// Returns the time until the window opens; `None` if the window is open.
    fn closed_for(&self, now_ms: u64) -> Option<Duration> {
        let now = now_ms / 60_000 % MINUTES_PER_DAY;
        let since = |minute| (now + MINUTES_PER_DAY - minute) % MINUTES_PER_DAY;
        let length = (self.to + MINUTES_PER_DAY - self.from) % MINUTES_PER_DAY;
        if since(self.from) < length {
            return None;
        }
        let minutes = MINUTES_PER_DAY - since(self.from);
        Some(Duration::from_millis(minutes * 60_000 - now_ms % 60_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_for(window: &str, hour: u64, minute: u64) -> Option<u64> {
        let window: ScrubWindow = window.parse().unwrap();
        let now_ms = 1_700_006_400_000 + (hour * 60 + minute) * 60_000;
        window.closed_for(now_ms).map(|wait| wait.as_secs() / 60)
    }

    #[test]
    fn windows_open_and_close() {
        assert_eq!(1_700_006_400_000_u64 % 86_400_000, 0);
        assert_eq!(closed_for("01:00-05:00", 0, 59), Some(1));
        assert_eq!(closed_for("01:00-05:00", 1, 0), None);
        assert_eq!(closed_for("01:00-05:00", 4, 59), None);
        assert_eq!(closed_for("01:00-05:00", 5, 0), Some(20 * 60));
        assert_eq!(closed_for("22:30-06:00", 23, 0), None);
        assert_eq!(closed_for("22:30-06:00", 5, 59), None);
        assert_eq!(closed_for("22:30-06:00", 12, 0), Some(10 * 60 + 30));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in [
            "",
            "1-5",
            "01:00",
            "24:00-05:00",
            "01:60-02:00",
            "05:00-05:00",
            "+1:00-02:00",
        ] {
            assert_eq!(text.parse::<ScrubWindow>(), Err(NoWindow), "{text}");
        }
    }
}
