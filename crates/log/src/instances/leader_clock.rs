//! The clock of the leading instance, compared with the clock of this instance.
//!
//! The timestamp of a checkpoint is the time of the leader's clock. A follower knows how old a new
//! checkpoint can be: the leader begins a round after it has committed the previous checkpoint, and
//! the follower has seen the lock without that checkpoint. If the clocks differ, one of them is
//! wrong, and the follower cannot know which. A follower with a fast clock would sign checkpoints
//! from the future, which stop the other instances. Therefore it takes no lease.

use tokio::time::Instant;

use crate::status::clock_jump::TOLERATED_MS;

/// Minimum change of the difference, in seconds, that is reported again.
const NEWS: i64 = 5;

/// The clock of the leading instance, as far as a follower knows it.
#[derive(Default)]
pub(crate) struct LeaderClock {
    /// The start of the last read of the lock.
    looked: Option<Instant>,
    /// A time before the commit of the last checkpoint that was seen.
    before_last: Option<Instant>,
    /// The time of the leader's clock at the last checkpoint, if the clocks differed.
    differed: Option<Differed>,
}

#[derive(Clone, Copy)]
struct Differed {
    leader_ms: u64,
    at: Instant,
    /// The difference in seconds for operators; negative if this clock was behind.
    seconds: i64,
}

impl LeaderClock {
    /// Records a read of the lock that began at `began`. `signed_ms` is the timestamp of the
    /// checkpoint if it is new. The clock of this instance was `wall_ms` after the look, and before
    /// `now`.
    pub(crate) fn note(
        &mut self,
        began: Instant,
        signed_ms: Option<u64>,
        (wall_ms, now): (u64, Instant),
    ) {
        let before = self.looked.replace(began);
        let Some(signed_ms) = signed_ms else {
            return;
        };
        let Some(oldest) = std::mem::replace(&mut self.before_last, before) else {
            return;
        };
        let age = now.saturating_duration_since(oldest).as_millis() as u64;
        let leader_ms = wall_ms.clamp(signed_ms, signed_ms.saturating_add(age));
        let seconds = (wall_ms as i64 - leader_ms as i64) / 1000;
        let known = self.differed.map(|differed| differed.seconds);
        let seconds = known
            .filter(|known| (known - seconds).abs() <= NEWS)
            .unwrap_or(seconds);
        let differs = wall_ms.abs_diff(leader_ms) > TOLERATED_MS;
        self.differed = differs.then_some(Differed {
            leader_ms,
            at: now,
            seconds,
        });
    }

    /// Returns the reason why an instance with this clock takes no lease, as text for operators;
    /// `None` if the clocks agree.
    pub(crate) fn problem(&self, wall_ms: u64, now: Instant) -> Option<String> {
        let differed = self.differed?;
        let passed = now.saturating_duration_since(differed.at).as_millis() as u64;
        let leader_ms = differed.leader_ms.saturating_add(passed);
        // Otherwise, the operator has corrected the clock.
        (wall_ms.abs_diff(leader_ms) > TOLERATED_MS).then(|| {
            let seconds = differed.seconds.abs();
            let side = if differed.seconds < 0 {
                "behind"
            } else {
                "ahead of"
            };
            format!(
                "the clock of this instance is {seconds} s {side} the clock of the leading \
                 instance, so this instance does not take the lead: correct the wrong clock"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    /// Returns the problem of a follower with this skew that polls every second. The leader commits
    /// a checkpoint every five seconds, each `round` seconds after its timestamp.
    fn after(skew_ms: i64, round: u64) -> Option<String> {
        let (mut clock, start) = (LeaderClock::default(), Instant::now());
        let wall = |second: u64| (NOW + 1000 * second).saturating_add_signed(skew_ms);
        let at = |second: u64| start + Duration::from_secs(second);
        for second in 0..30 {
            let signed_ms = (second % 5 == 0).then_some(NOW + 1000 * second - 1000 * round);
            clock.note(at(second), signed_ms, (wall(second), at(second)));
        }
        clock.problem(wall(40), at(40))
    }

    #[test]
    fn a_wrong_clock_is_named_and_a_slow_round_is_not() {
        for (skew_ms, round, said) in [
            (0, 0, None),
            (0, 5, None),
            (9000, 0, None),
            (-9000, 0, None),
            (840_000, 0, Some("834 s ahead of")),
            (-20_000, 0, Some("20 s behind")),
        ] {
            let problem = after(skew_ms, round);
            match (said, &problem) {
                (None, None) => {}
                (Some(said), Some(problem)) if problem.contains(said) => {}
                _ => panic!("{skew_ms} {round}: {problem:?}"),
            }
        }
    }

    #[test]
    fn a_corrected_clock_agrees_without_another_checkpoint() {
        let (mut clock, start) = (LeaderClock::default(), Instant::now());
        for second in 0..3 {
            let at = start + Duration::from_secs(second);
            let signed_ms = NOW + 1000 * second;
            clock.note(at, Some(signed_ms), (signed_ms + 100_000, at));
        }
        let later = start + Duration::from_secs(60);
        assert!(clock.problem(NOW + 160_000, later).is_some());
        assert!(clock.problem(NOW + 60_000, later).is_none());
    }
}
