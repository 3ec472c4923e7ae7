//! This process among the instances of a log.

use std::time::Duration;

use lucarne_storage::HolderId;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::config::LogConfig;
use crate::config::instances::{CHANGE_OF_LEADER, holder_id};
use crate::error::ReadError;
use crate::submit::forward_queue::Leader;

/// The state of this process as an instance of a log, for followers and leaders.
pub(crate) struct Instance {
    /// The ID of this process among the instances of the log.
    pub(crate) holder: HolderId,
    /// Wakes a follower, which reads the lock at once.
    pub(crate) nudge: Notify,
    /// The leading instance, or `None` if this instance leads or no leader is known.
    pub(crate) leader: watch::Sender<Option<Leader>>,
    /// A hash of the settings that must be the same in all instances.
    pub(crate) configuration: [u8; 32],
    /// The last read of the published checkpoint for readers of this process. One read runs at a
    /// time.
    pub(crate) look: tokio::sync::Mutex<Look>,
    /// The time until which no instance can have published a newer checkpoint than this process
    /// has; `None` if another instance leads, or while this process publishes a checkpoint.
    newest_until: Mutex<Option<Instant>>,
    /// The instance that has the lease, and does not lead or respond: the times of the first and
    /// the last attempt.
    leads_not: Mutex<Option<(Leader, Instant, Instant)>>,
    pub(crate) slowness: Mutex<Slowness>,
}

/// The slow rounds of this process while it leads.
///
/// A store or a lock may be slow for one instance only. The leader cannot know this, so another
/// instance tries. If that instance is slow, too, the lease returns, and remains.
#[derive(Default)]
pub(crate) struct Slowness {
    /// Number of the last rounds without a fast one in between.
    rounds: u32,
    /// The last slow round.
    last: Option<Instant>,
    /// The last submissions of a follower.
    follower: Option<Instant>,
    /// The last time when this process handed the lease over for this reason.
    handed_over: Option<Instant>,
    /// The same time, until another instance has the lease.
    awaits: Option<Instant>,
}

/// Number of slow rounds after which a leader is reported, and hands the lease over.
const SLOW_ROUNDS: u32 = 3;
/// Maximum age of a follower's submissions. Without a follower, the lease remains.
const FOLLOWER_SEEN: Duration = Duration::from_secs(30);
/// Maximum age of the last slow round. A leader that balancers avoid because of its slow rounds has
/// no further rounds.
const SLOW_SEEN: Duration = Duration::from_secs(30);
/// Maximum time that another instance has to take a lease that was handed over: many polls.
const NEXT_LEADER: Duration = Duration::from_secs(5);
/// Maximum time between two attempts to reach a leader in the same change of the leader: longer
/// than one attempt.
const SAME_CHANGE: Duration = CHANGE_OF_LEADER.saturating_mul(2);
/// Minimum time between two hand-overs, unless other instances have led for [`LED`].
const HAND_OVER_AGAIN: Duration = Duration::from_secs(600);
/// Minimum time after a hand-over for which other instances lead if their rounds are fast. If all
/// rounds are slow, the lease comes back earlier: each term lasts half a minute.
const LED: Duration = Duration::from_secs(300);

impl Slowness {
    /// Records a round. Returns whether another instance must try to lead.
    pub(crate) fn note_round(&mut self, is_slow: bool, now: Instant) -> bool {
        if !is_slow {
            self.rounds = 0;
            return false;
        }
        (self.rounds, self.last) = (self.rounds + 1, Some(now));
        let hands_over = self.is_slow(now)
            && is_within(FOLLOWER_SEEN, self.follower, now)
            && !is_within(HAND_OVER_AGAIN, self.handed_over, now);
        if hands_over {
            (self.handed_over, self.awaits) = (Some(now), Some(now));
        }
        hands_over
    }

    /// Records the begin of a term of this process.
    pub(crate) fn begin(&mut self) {
        self.rounds = 0;
    }

    /// Returns whether this process has handed the lease over, and another instance may still take
    /// it. `another` is true if another instance has the lease.
    pub(crate) fn awaits_another(&mut self, another: bool, now: Instant) -> bool {
        if another {
            self.awaits = None;
            self.handed_over
                .take_if(|at| !is_within(LED, Some(*at), now));
        }
        is_within(NEXT_LEADER, self.awaits, now)
    }

    /// Records submissions of a follower.
    pub(crate) fn note_follower(&mut self, now: Instant) {
        self.follower = Some(now);
    }

    pub(crate) fn is_slow(&self, now: Instant) -> bool {
        self.rounds >= SLOW_ROUNDS && is_within(SLOW_SEEN, self.last, now)
    }
}

/// Returns whether `at` is less than `time` ago.
fn is_within(time: Duration, at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < time)
}

/// A read of the published checkpoint for readers.
#[derive(Default)]
pub(crate) struct Look {
    /// The start of the last read, which may have been cancelled.
    pub(crate) begun: Option<Instant>,
    /// The start and the result of the last complete read.
    pub(crate) done: Option<(Instant, Result<(), ReadError>)>,
}

impl Instance {
    pub(crate) fn of(config: &LogConfig) -> Self {
        Instance {
            holder: holder_id(),
            nudge: Notify::new(),
            leader: watch::Sender::default(),
            configuration: config.sum(),
            look: tokio::sync::Mutex::default(),
            newest_until: Mutex::default(),
            leads_not: Mutex::default(),
            slowness: Mutex::default(),
        }
    }

    /// Records that the instance with the lease does not respond, or responds that it does not
    /// lead. Returns whether this has lasted longer than a change of the leader lasts.
    pub(crate) fn leads_not(&self, leader: &Leader, now: Instant) -> bool {
        let mut known = self.leads_not.lock();
        let same = known.take_if(|(known, _, last)| {
            *known == *leader && is_within(SAME_CHANGE, Some(*last), now)
        });
        let since = same.map_or(now, |(_, since, _)| since);
        *known = Some((leader.clone(), since, now));
        !is_within(CHANGE_OF_LEADER, Some(since), now)
    }

    /// Records that the instance with the lease leads.
    pub(crate) fn leads(&self) {
        *self.leads_not.lock() = None;
    }

    /// Returns whether this process surely has the newest checkpoint that any instance has
    /// published.
    pub(crate) fn has_newest(&self) -> bool {
        let until = *self.newest_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Records that this process has the newest checkpoint until this time, or that another
    /// instance may have a newer one.
    pub(crate) fn set_newest_until(&self, until: Option<Instant>) {
        *self.newest_until.lock() = until;
    }

    /// Prolongs the time of [`set_newest_until`](Self::set_newest_until), if there is one.
    pub(crate) fn prolong_newest(&self, until: Instant) {
        if let Some(known) = &mut *self.newest_until.lock() {
            *known = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_leader_hands_over_once_and_only_to_a_follower() {
        let (mut slowness, now) = (Slowness::default(), Instant::now());
        let slow = |slowness: &mut Slowness, at| {
            let rounds = 0..2 * SLOW_ROUNDS;
            rounds.filter(|_| slowness.note_round(true, at)).count()
        };
        assert_eq!(slow(&mut slowness, now), 0, "there is no follower");
        assert!(slowness.is_slow(now));
        assert!(!slowness.is_slow(now + SLOW_SEEN), "there were no rounds");
        slowness.note_follower(now);
        assert!(!slowness.note_round(false, now));
        assert!(!slowness.is_slow(now));
        assert!(!slowness.awaits_another(false, now));
        assert_eq!(slow(&mut slowness, now), 1);
        assert!(slowness.awaits_another(false, now));
        assert!(!slowness.awaits_another(false, now + NEXT_LEADER));
        assert!(!slowness.awaits_another(true, now));
        assert!(!slowness.awaits_another(false, now));
        slowness.begin();
        assert!(!slowness.is_slow(now), "this is another term");
        let later = now + HAND_OVER_AGAIN;
        assert_eq!(slow(&mut slowness, later), 0, "the follower has gone");
        slowness.note_follower(later);
        assert_eq!(slow(&mut slowness, later), 1);
        for (another, handed_over) in [(false, 0), (true, 1)] {
            slowness.begin();
            slowness.awaits_another(another, later + LED);
            slowness.note_follower(later + LED);
            assert_eq!(slow(&mut slowness, later + LED), handed_over, "{another}");
        }
    }
}
