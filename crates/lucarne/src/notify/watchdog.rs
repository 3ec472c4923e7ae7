//! The watchdog of the service manager, fed by the sequencers.
//!
//! A hung log must not stop the other logs: while at least one sequencer progresses, the watchdog
//! is fed, and the supervisor of the hung log handles the failure. Logs that are not open
//! (starting, stopped with a retry ahead, following, retired) have no sequencer. The watchdog
//! therefore stops the process only if there are sequencers and none progresses, or if the runtime,
//! which also runs this task, is stuck.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::send;
use crate::hosting::Current;

/// Returns the time after which the service manager ends a silent process (`WATCHDOG_USEC`), if
/// this process is watched.
pub(super) fn time() -> Option<Duration> {
    let watched = std::env::var("WATCHDOG_PID").ok();
    let is_own = watched.is_none_or(|pid| pid == std::process::id().to_string());
    let microseconds: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (is_own && microseconds > 0).then(|| Duration::from_micros(microseconds))
}

/// Feeds the watchdog as long as sequencers progress.
pub(super) async fn feed(hosted: Current, time: Duration) {
    let mut progress = Progress::begin(Instant::now());
    let mut ticks = interval(time / 4);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = ticks.tick().await;
        let heartbeats = hosted
            .now()
            .logs
            .iter()
            .map(|log| log.heartbeat())
            .collect();
        if progress.note(heartbeats, now) < time {
            send("WATCHDOG=1");
        }
    }
}

/// The progress of the sequencers.
struct Progress {
    /// Heartbeats of the logs at the last check.
    heartbeats: Vec<Option<u64>>,
    /// Time of the last check that found progress.
    at: Instant,
}

impl Progress {
    fn begin(at: Instant) -> Self {
        Progress {
            heartbeats: Vec::new(),
            at,
        }
    }

    /// Records the heartbeats of all logs, and returns the time since the last progress: zero if no
    /// log has a sequencer.
    fn note(&mut self, heartbeats: Vec<Option<u64>>, now: Instant) -> Duration {
        let mut numbered = heartbeats.iter().enumerate();
        let progresses =
            numbered.any(|(n, beat)| beat.is_some() && self.heartbeats.get(n) != Some(beat));
        if progresses || heartbeats.iter().all(Option::is_none) {
            self.at = now;
        }
        self.heartbeats = heartbeats;
        now.duration_since(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time since the last progress after each of these checks, one second apart.
    fn silences<const N: usize>(looks: [&[Option<u64>]; N]) -> [u64; N] {
        let mut now = Instant::now();
        let mut progress = Progress::begin(now);
        looks.map(|heartbeats| {
            now += Duration::from_secs(1);
            progress.note(heartbeats.to_vec(), now).as_secs()
        })
    }

    #[test]
    fn one_log_that_hangs_is_not_the_process() {
        let looks: [&[_]; 4] = [
            &[Some(1), Some(1)],
            &[Some(1), Some(2)],
            &[Some(1), Some(3)],
            &[Some(1), Some(4)],
        ];
        assert_eq!(silences(looks), [0, 0, 0, 0]);
    }

    #[test]
    fn sequencers_that_all_hang_are_noticed() {
        let looks: [&[_]; 4] = [
            &[Some(1), Some(1)],
            &[Some(1), Some(1)],
            &[Some(1), None],
            &[Some(2), None],
        ];
        assert_eq!(silences(looks), [0, 1, 2, 0]);
    }

    #[test]
    fn logs_without_sequencers_are_well() {
        let looks: [&[_]; 3] = [&[None, None], &[None, None], &[]];
        assert_eq!(silences(looks), [0, 0, 0]);
    }
}
