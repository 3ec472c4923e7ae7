//! Protection against signing with a clock that has jumped forward: a checkpoint from the future
//! would prevent further signatures until that time.
//!
//! While the process runs, the clock is compared with the monotonic clock. A jump of at most
//! [`TOLERATED_MS`] is accepted. A jump of up to a day is accepted if the clock keeps it for a
//! minute, as after a pause of the machine. A longer jump is never accepted. At the start of the
//! process, the clock is compared with the last signed checkpoint. If this checkpoint is more than
//! a day old, an operator must confirm that the log was down for so long. At a start and after a
//! jump, the clock is also compared with the clocks of storage and lock, if they have clocks.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Fatal;

/// Maximum jump of the clock, in milliseconds, that is accepted at once. The clock may also be this
/// far behind the log's timestamps: the log then signs with timestamps slightly ahead of the clock.
pub(crate) const TOLERATED_MS: u64 = 10_000;
/// Maximum jump without an operator's confirmation, in milliseconds.
const MOST_MS: u64 = 24 * 3600 * 1000;
/// Maximum difference to the clock of a store, in milliseconds: the operator of the log may not be
/// able to correct the clock of the store.
const STORE_MS: u64 = 60_000;
/// Minimum age of a jump before the log accepts it.
const STANDING: Duration = Duration::from_secs(60);

/// Checks whether a process may start to sign at `wall_ms` without an operator's confirmation, if
/// the log's last signature is from `signed_ms`.
///
/// # Errors
/// [`Fatal::Unconfirmed`] if the last signature is more than a day old.
pub fn believable(wall_ms: u64, signed_ms: u64) -> Result<(), Fatal> {
    let ahead_ms = wall_ms.saturating_sub(signed_ms);
    if ahead_ms > MOST_MS {
        Err(Fatal::Unconfirmed {
            days: ahead_ms / MOST_MS,
        })
    } else {
        Ok(())
    }
}

/// Returns whether a clock is so far ahead of the time `known_ms` that other clocks must confirm
/// the clock.
pub(crate) fn is_ahead(wall_ms: u64, known_ms: u64) -> bool {
    wall_ms.saturating_sub(known_ms) > TOLERATED_MS
}

/// Compares the clock with the clock of the store or lock at `place`.
///
/// # Errors
/// [`Fatal::AheadOfStore`] if the clock of the store is behind.
pub(crate) fn not_ahead_of_store(wall_ms: u64, store_ms: u64, place: String) -> Result<(), Fatal> {
    let ahead_ms = wall_ms.saturating_sub(store_ms);
    if ahead_ms > STORE_MS {
        Err(Fatal::AheadOfStore { ahead_ms, place })
    } else {
        Ok(())
    }
}

/// Returns the next timestamp of a log whose last timestamp is `signed_ms`. Timestamps never
/// decrease, even if the clock does.
///
/// # Errors
/// [`Fatal::Clock`] if the clock is far behind, because SCTs would lie in the future.
pub fn next_timestamp(wall_ms: u64, signed_ms: u64) -> Result<u64, Fatal> {
    let next_ms = wall_ms.max(signed_ms.saturating_add(1));
    let behind_ms = next_ms - wall_ms;
    if behind_ms > TOLERATED_MS {
        Err(Fatal::Clock { behind_ms })
    } else {
        Ok(next_ms)
    }
}

/// A reading of the clock.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_ms: u64,
    at: Instant,
}

impl ClockReading {
    /// Returns the time that a clock without jumps shows at the moment `at`, in Unix milliseconds.
    fn expected_ms(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.at).as_millis();
        self.wall_ms.saturating_add(passed as u64)
    }
}

#[derive(Default)]
struct JumpState {
    /// The reading at the last signature.
    trusted: Option<ClockReading>,
    /// The first reading after a jump.
    jumped: Option<ClockReading>,
}

/// The clock readings of one log during the life of the process.
#[derive(Default)]
pub(crate) struct ClockJumps(Mutex<JumpState>);

impl ClockJumps {
    /// Returns the last time before `at` that needs no other clock: this process has signed with
    /// that time since, or the operator has `confirmed` the clock, or it is `signed_ms`.
    pub(crate) fn known_ms(
        &self,
        (wall_ms, at): (u64, Instant),
        signed_ms: u64,
        confirmed: bool,
    ) -> u64 {
        match self.0.lock().trusted {
            Some(trusted) => trusted.expected_ms(at),
            None if confirmed => wall_ms,
            None => signed_ms,
        }
    }

    /// Checks whether a log may sign with the time `wall_ms`, which was read at `at`.
    ///
    /// # Errors
    /// If the time is too far ahead of the time that has passed since the last signature of this
    /// process. Before the first signature of this process, if the time is more than a day after
    /// `signed_ms` and the clock is not `confirmed`.
    pub(crate) fn trust(
        &self,
        (wall_ms, at): (u64, Instant),
        signed_ms: u64,
        confirmed: bool,
    ) -> Result<(), Fatal> {
        let mut state = self.0.lock();
        let seen = ClockReading { wall_ms, at };
        match state.trusted {
            None if confirmed => {}
            None => believable(wall_ms, signed_ms)?,
            Some(trusted) => {
                let ahead_ms = wall_ms.saturating_sub(trusted.expected_ms(at));
                if ahead_ms > TOLERATED_MS && !state.stands(seen, ahead_ms) {
                    return Err(Fatal::Jumped { ahead_ms });
                }
            }
        }
        *state = JumpState {
            trusted: Some(seen),
            jumped: None,
        };
        Ok(())
    }

    /// Returns the time of the clock without its jump, in Unix milliseconds.
    pub(crate) fn now_ms(&self, wall_ms: u64, at: Instant) -> u64 {
        wall_ms - self.ahead_ms(wall_ms, at)
    }

    /// Returns the number of milliseconds that the clock is ahead; 0 if the jump is tolerated.
    pub(crate) fn ahead_ms(&self, wall_ms: u64, at: Instant) -> u64 {
        let trusted = self.0.lock().trusted;
        let expected_ms = trusted.map_or(wall_ms, |trusted| trusted.expected_ms(at));
        match wall_ms.saturating_sub(expected_ms) {
            ahead_ms if ahead_ms > TOLERATED_MS => ahead_ms,
            _ => 0,
        }
    }
}

impl JumpState {
    /// Returns whether the clock has kept this jump for long enough.
    fn stands(&mut self, now: ClockReading, ahead_ms: u64) -> bool {
        let still = self.jumped.filter(|jumped| {
            let expected_ms = jumped.expected_ms(now.at);
            expected_ms.abs_diff(now.wall_ms) <= TOLERATED_MS
        });
        let since = *self.jumped.insert(still.unwrap_or(now));
        let stood = now.at.saturating_duration_since(since.at);
        let stands = ahead_ms <= MOST_MS && stood >= STANDING;
        if stands {
            tracing::warn!(
                ahead_ms,
                "the clock has jumped and advances steadily since then: accepted as correct"
            );
        }
        stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3600 * 1000;

    /// Returns the state after a signature, and the moment at which the clock was `NOW`.
    fn running() -> (ClockJumps, Instant) {
        let (jumps, start) = (ClockJumps::default(), Instant::now());
        jumps.trust((NOW, start), NOW - 1000, false).unwrap();
        (jumps, start)
    }

    fn after(start: Instant, seconds: u64) -> (u64, Instant) {
        (1000 * seconds, start + Duration::from_secs(seconds))
    }

    #[test]
    fn a_start_long_after_the_last_checkpoint_is_confirmed() {
        let at = Instant::now();
        for (signed_ms, confirmed, taken) in [
            (NOW - 23 * HOUR, false, true),
            (NOW - 25 * HOUR, false, false),
            (NOW - 25 * HOUR, true, true),
            (NOW + HOUR, false, true),
        ] {
            let trusted = ClockJumps::default().trust((NOW, at), signed_ms, confirmed);
            assert_eq!(trusted.is_ok(), taken);
        }
    }

    #[test]
    fn ten_years_are_never_taken_and_forgotten_when_they_are_over() {
        let (jumps, start) = running();
        for seconds in [1, 61, 3600, 100_000] {
            let (passed, at) = after(start, seconds);
            let wall = NOW + passed + 87_600 * HOUR;
            assert!(jumps.trust((wall, at), NOW, true).is_err());
            assert_eq!(jumps.now_ms(wall, at), NOW + passed);
        }
        let (passed, at) = after(start, 100_001);
        jumps.trust((NOW + passed, at), NOW, false).unwrap();
        assert_eq!(jumps.now_ms(NOW + passed, at), NOW + passed);
    }

    #[test]
    fn an_hour_is_taken_once_the_clock_has_stood_by_it() {
        let (jumps, start) = running();
        let try_at = |seconds, ahead| {
            let (passed, at) = after(start, seconds);
            jumps.trust((NOW + passed + ahead, at), NOW, false).is_ok()
        };
        assert!(!try_at(1, HOUR));
        assert!(!try_at(50, HOUR + 5000));
        // Another jump starts the minute again.
        assert!(!try_at(55, 2 * HOUR));
        assert!(!try_at(65, 2 * HOUR));
        assert!(try_at(115, 2 * HOUR + 3000));
        assert!(try_at(116, 2 * HOUR));
    }

    #[test]
    fn small_steps_and_steps_back_are_taken() {
        let (jumps, start) = running();
        let try_at = |seconds, wall| {
            let (_, at) = after(start, seconds);
            jumps.trust((wall, at), NOW, false).is_ok()
        };
        assert!(try_at(1, NOW + 1000 + TOLERATED_MS));
        assert!(try_at(2, NOW + 2000));
        assert!(try_at(3, NOW - HOUR));
        assert!(!try_at(4, NOW), "and the way back is a jump again");
    }

    #[test]
    fn a_clock_is_compared_with_stores_if_it_is_ahead_of_the_known_time() {
        let (at, start) = (Instant::now(), ClockJumps::default());
        let known = |confirmed| start.known_ms((NOW + HOUR, at), NOW, confirmed);
        assert!(is_ahead(NOW + HOUR, known(false)));
        assert!(!is_ahead(NOW + HOUR, known(true)));
        let (jumps, start) = running();
        for (seconds, jumped, expected) in [(1, 0, false), (100, 0, false), (100, HOUR, true)] {
            let (passed, at) = after(start, seconds);
            let wall = NOW + passed + jumped;
            // The confirmation is only for the start.
            let known = jumps.known_ms((wall, at), NOW, true);
            assert_eq!(is_ahead(wall, known), expected, "{seconds} {jumped}");
        }
        let behind = |store_ms| not_ahead_of_store(NOW, store_ms, "memory".into()).is_err();
        assert!(!behind(NOW + HOUR));
        assert!(!behind(NOW - 30_000));
        assert!(behind(NOW - 61_000));
    }
}
