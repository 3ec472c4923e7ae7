//! Due times of the arrivals of an open loop: pure functions of the plan and of changes by keys.

use std::time::Duration;

use super::ramp::Ramp;

/// Due times of arrivals, relative to the scenario's start.
///
/// Without changes, arrival `j` is due at the earliest time at which the area of the rate exceeds
/// `j`: at `j / rate` for a constant rate. A key multiplies the rate from a point in time on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    ramp: Ramp,
    goal: Option<u64>,
    /// Factor of the plan's rate, with its start time and the number of arrivals before that time.
    factor: f64,
    since: f64,
    asked: f64,
}

impl Schedule {
    pub(crate) fn new(ramp: Ramp, goal: Option<u64>) -> Self {
        Schedule {
            ramp,
            goal,
            factor: 1.0,
            since: 0.0,
            asked: 0.0,
        }
    }

    /// Returns the due time of arrival `number` at equal distances; `None` if the schedule ends
    /// before this arrival, or if a key has set the rate to 0.
    pub(crate) fn due(&self, number: u64) -> Option<Duration> {
        if self.is_met_before(number) {
            return None;
        }
        self.due_at(number as f64)
    }

    /// Returns the due time of an arrival after this number of average distances.
    pub(crate) fn due_at(&self, number: f64) -> Option<Duration> {
        let area = if number < self.asked {
            // The arrival was due before the last change of the factor, but has not started yet.
            return Some(Duration::from_secs_f64(self.since.min(self.ramp.end())));
        } else if self.factor > 0.0 {
            self.ramp.area(self.since) + (number - self.asked) / self.factor
        } else {
            return None;
        };
        self.ramp.reaches(area).map(Duration::from_secs_f64)
    }

    /// Returns the number of arrivals that are due before `time`.
    #[cfg(test)]
    pub(crate) fn asked_until(&self, time: Duration) -> u64 {
        let asked = self.area(time.as_secs_f64());
        // Arrival j is due when the area exceeds j. Rounding errors, as in 9.999999999 or
        // 10.000000001, must not add an arrival.
        let nearest = asked.round();
        let whole = if (asked - nearest).abs() < 1e-6 {
            nearest
        } else {
            asked.ceil()
        };
        (whole as u64).min(self.goal.unwrap_or(u64::MAX))
    }

    /// Returns the arrivals per second, or users, at `time`.
    pub(crate) fn rate(&self, time: Duration) -> f64 {
        self.ramp.at(time.as_secs_f64()) * self.factor
    }

    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// Multiplies the plan's rate by `factor` from `time` on.
    pub(crate) fn scale(&mut self, time: Duration, factor: f64) {
        let time = time.as_secs_f64();
        (self.asked, self.since) = (self.area(time), time);
        self.factor = if factor.is_finite() {
            factor.clamp(0.0, 1e6)
        } else {
            1.0
        };
    }

    /// Returns whether the goal excludes an arrival with this number.
    pub(crate) fn is_met_before(&self, number: u64) -> bool {
        self.goal.is_some_and(|goal| number >= goal)
    }

    /// Returns the end of the arrivals.
    pub(crate) fn end(&self) -> Duration {
        Duration::from_secs_f64(self.ramp.end())
    }

    fn area(&self, time: f64) -> f64 {
        self.asked + self.factor * (self.ramp.area(time) - self.ramp.area(self.since)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::executor::Stage;

    fn constant(rate: f64, seconds: u64) -> Schedule {
        Schedule::new(Ramp::constant(rate, Duration::from_secs(seconds)), None)
    }

    fn all(schedule: &Schedule) -> Vec<f64> {
        (0..)
            .map_while(|j| schedule.due(j))
            .map(|due| due.as_secs_f64())
            .collect()
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let schedule = constant(50.0, 60);
        let due = all(&schedule);
        assert_eq!(due.len(), 3000);
        assert_eq!(schedule.asked_until(schedule.end()), 3000);
        for (j, due) in due.iter().enumerate() {
            assert!((due - j as f64 / 50.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_goal_ends_the_arrivals() {
        let schedule = Schedule::new(Ramp::constant(10.0, Duration::MAX), Some(25));
        assert_eq!(all(&schedule).len(), 25);
        assert_eq!(schedule.asked_until(Duration::from_secs(100)), 25);
        assert_eq!(schedule.asked_until(Duration::from_secs(1)), 10);
    }

    #[test]
    fn nothing_is_due_while_the_rate_is_zero() {
        let stages = [
            Stage {
                duration: Duration::from_secs(10),
                target: 0.0,
            },
            Stage {
                duration: Duration::from_secs(10),
                target: 100.0,
            },
        ];
        let schedule = Schedule::new(Ramp::new(0.0, &stages, |t| t), None);
        assert_eq!(schedule.due(0), Some(Duration::from_secs(10)));
        assert_eq!(all(&schedule).len(), 500);
    }

    #[test]
    fn a_key_changes_the_rate_from_then_on() {
        let mut schedule = constant(100.0, 10);
        schedule.scale(Duration::from_secs(5), 2.0);
        assert_eq!(schedule.rate(Duration::from_secs(6)), 200.0);
        assert_eq!(schedule.asked_until(Duration::from_secs(10)), 1500);
        assert_eq!(schedule.due(600), Some(Duration::from_millis(5500)));
        schedule.scale(Duration::from_secs(6), 0.0);
        assert_eq!(
            (
                schedule.due(701),
                schedule.asked_until(Duration::from_secs(10))
            ),
            (None, 700)
        );
        schedule.scale(Duration::from_secs(8), 1.0);
        assert_eq!(schedule.asked_until(Duration::from_secs(10)), 900);
        assert_eq!(schedule.due(800), Some(Duration::from_secs(9)));
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let stage =
            (0.1..5.0, prop_oneof![Just(0.0), 0.0..200.0]).prop_map(|(duration, target)| Stage {
                duration: Duration::from_secs_f64(duration),
                target,
            });
        let stages = prop::collection::vec(stage, 1..4);
        let keys = prop::collection::vec((0.0..5.0, 0.0..4.0), 0..3);
        (0.0..200.0, stages, keys).prop_map(|(start, stages, mut keys)| {
            let mut schedule = Schedule::new(Ramp::new(start, &stages, |t| t), None);
            keys.sort_by(|a, b| f64::total_cmp(&a.0, &b.0));
            for (time, factor) in keys {
                schedule.scale(Duration::from_secs_f64(time), factor);
            }
            schedule
        })
    }

    proptest! {
        #[test]
        fn arrivals_are_in_order_and_within_the_plan(schedule in schedules()) {
            let due = all(&schedule);
            prop_assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(due.iter().all(|due| *due <= schedule.end().as_secs_f64()));
        }

        #[test]
        fn as_many_are_due_as_are_asked_for(schedule in schedules()) {
            let due = all(&schedule).len() as u64;
            prop_assert!(due.abs_diff(schedule.asked_until(schedule.end())) <= 1);
        }

        #[test]
        fn between_two_times_as_many_are_due_as_the_rate_says(
            rate in 0.1..10_000.0, at in 0.0..50.0, length in 0.1..10.0,
        ) {
            let schedule = constant(rate, 100);
            let until = |time: f64| schedule.asked_until(Duration::from_secs_f64(time)) as f64;
            let due: f64 = until(at + length) - until(at);
            let expected: f64 = rate * length;
            prop_assert!((due - expected).abs() <= 1.001);
        }

        #[test]
        fn workers_share_without_gaps(workers in 1_u64..5, rate in 1.0..500.0) {
            let schedule = constant(rate, 2);
            let share = |worker| (worker..).step_by(workers as usize).map_while(|j| schedule.due(j)).count();
            let shares: usize = (0..workers).map(share).sum();
            prop_assert_eq!(shares, all(&schedule).len());
        }
    }
}
