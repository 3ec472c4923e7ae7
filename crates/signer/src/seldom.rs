//! Rate limits of log lines that remote peers can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum interval between two lines.
const DISTANCE: Duration = Duration::from_secs(10);

/// Limits log lines of one kind to one line in 10 s, and counts the omitted lines.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// If a line may be logged now, returns the number of lines omitted since the last logged line;
    /// otherwise counts this line as omitted.
    pub fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let recent = |last: Instant| now.duration_since(last) < DISTANCE;
        if state.last.is_some_and(recent) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_says_how_many_were_left_out() {
        let seldom = Seldom::default();
        let start = Instant::now();
        assert_eq!(seldom.due_at(start), Some(0));
        assert_eq!(seldom.due_at(start), None);
        assert_eq!(seldom.due_at(start + DISTANCE / 2), None);
        assert_eq!(seldom.due_at(start + DISTANCE), Some(2));
        assert_eq!(seldom.due_at(start + DISTANCE), None);
        assert_eq!(seldom.due_at(start + 3 * DISTANCE), Some(1));
    }
}
