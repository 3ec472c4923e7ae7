//! The times of a submission's steps, for traces.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;

/// Number of rounds whose times are kept. A submission reads them as soon as its round is
/// published, and a busy machine may publish some more rounds before.
const ROUNDS: usize = 64;
/// Maximum number of steps of one submission. Only a submission that is tried again with another
/// instance could have more.
const MAX_STEPS: usize = 32;
/// The steps of a round, each up to one of its times.
const OF_ROUND: [&str; 5] = ["wait", "sequence", "journal", "commit", "publish"];

/// A finished step of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Name of the step.
    pub name: &'static str,
    /// Begin of the step, which is the end of the step before.
    pub start: Instant,
    /// End of the step.
    pub end: Instant,
}

/// The steps of a submission so far, without gaps. By default, nothing is recorded.
#[derive(Debug, Default)]
pub struct StepTimes(Option<Recorded>);

#[derive(Debug)]
struct Recorded {
    last: Instant,
    steps: Vec<StepTime>,
}

impl StepTimes {
    /// Records steps; the first one begins at `start`.
    pub fn since(start: Instant) -> Self {
        StepTimes(Some(Recorded {
            last: start,
            steps: Vec::with_capacity(12),
        }))
    }

    /// Ends a step now.
    pub fn end(&mut self, name: &'static str) {
        if let Some(recorded) = &mut self.0 {
            recorded.add(name, Instant::now());
        }
    }

    /// Ends the steps of the round that published the entry at `index`.
    pub(crate) fn end_round(&mut self, rounds: &RoundTimes, index: u64) {
        let Some(recorded) = &mut self.0 else {
            return;
        };
        match rounds.of(index) {
            Some(times) => {
                for (name, end) in OF_ROUND.into_iter().zip(times) {
                    recorded.add(name, end);
                }
            }
            None => recorded.add(OF_ROUND[0], Instant::now()),
        }
    }

    /// Returns the recorded steps, in order.
    pub fn into_steps(self) -> Vec<StepTime> {
        self.0.map(|recorded| recorded.steps).unwrap_or_default()
    }
}

impl Recorded {
    /// Adds a step. A step that ended before the last one took no time of this submission: the
    /// submission may have joined a round in progress.
    fn add(&mut self, name: &'static str, end: Instant) {
        if self.steps.len() == MAX_STEPS {
            return;
        }
        let end = end.max(self.last);
        let start = std::mem::replace(&mut self.last, end);
        self.steps.push(StepTime { name, start, end });
    }
}

/// The times of the newest rounds of a log.
#[derive(Default)]
pub(crate) struct RoundTimes(Mutex<VecDeque<RoundTime>>);

struct RoundTime {
    first: u64,
    size: u64,
    /// The seal of the round, and the ends of its four phases.
    times: [Instant; 5],
}

impl RoundTimes {
    /// Adds a round with the entries from `first` up to, and without, `size`.
    pub(crate) fn note(&self, first: u64, size: u64, times: [Instant; 5]) {
        let mut rounds = self.0.lock();
        if rounds.len() == ROUNDS {
            rounds.pop_front();
        }
        rounds.push_back(RoundTime { first, size, times });
    }

    fn of(&self, index: u64) -> Option<[Instant; 5]> {
        let rounds = self.0.lock();
        let mut newest = rounds.iter().rev();
        let round = newest.find(|round| (round.first..round.size).contains(&index));
        round.map(|round| round.times)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_follow_each_other_without_gaps() {
        let start = Instant::now();
        let mut steps = StepTimes::since(start);
        steps.end("validate");
        let times = [1, 2, 3, 4, 5].map(|n| Instant::now() + Duration::from_secs(n));
        let rounds = RoundTimes::default();
        rounds.note(7, 9, times);
        rounds.note(9, 10, times.map(|time| time + Duration::from_secs(1)));
        steps.end_round(&rounds, 8);
        let steps = steps.into_steps();
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        let expected = [
            "validate", "wait", "sequence", "journal", "commit", "publish",
        ];
        assert_eq!(names, expected);
        assert_eq!(steps[0].start, start);
        assert_eq!(steps[5].end, times[4]);
        assert!(steps.windows(2).all(|two| two[0].end == two[1].start));
    }

    #[test]
    fn the_earlier_steps_of_a_round_in_progress_take_no_time() {
        let mut steps = StepTimes::since(Instant::now());
        let rounds = RoundTimes::default();
        let now = Instant::now();
        let earlier = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        let later = now + Duration::from_secs(1);
        rounds.note(0, 1, [earlier, earlier, later, later, later]);
        steps.end("validate");
        steps.end_round(&rounds, 0);
        let steps = steps.into_steps();
        assert_eq!(steps.len(), 6);
        for step in &steps[1..] {
            let is_remaining = step.name == "journal";
            assert_eq!(step.end > step.start, is_remaining, "{step:?}");
        }
    }

    #[test]
    fn a_round_that_is_no_longer_known_is_one_step() {
        let mut steps = StepTimes::since(Instant::now());
        steps.end_round(&RoundTimes::default(), 0);
        let names: Vec<_> = steps.into_steps().iter().map(|step| step.name).collect();
        assert_eq!(names, ["wait"]);
    }

    #[test]
    fn nothing_is_recorded_by_default_and_rounds_are_bounded() {
        let mut steps = StepTimes::default();
        let rounds = RoundTimes::default();
        for index in 0..2 * ROUNDS as u64 {
            rounds.note(index, index + 1, [Instant::now(); 5]);
        }
        assert_eq!(rounds.0.lock().len(), ROUNDS);
        assert!(rounds.of(0).is_none() && rounds.of(ROUNDS as u64).is_some());
        steps.end("validate");
        steps.end_round(&rounds, ROUNDS as u64);
        assert!(steps.into_steps().is_empty());
    }
}
