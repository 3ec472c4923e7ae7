//! An active user, and the counts of its iterations.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::scenario_state::ScenarioState;
use crate::user_time::Pause;
use crate::{Failure, Iteration, Recorder, VirtualUser};

/// An active user, with the iteration that records its samples.
pub(crate) struct ActiveVu {
    state: Arc<ScenarioState>,
    user: Box<dyn VirtualUser>,
    iteration: Iteration,
    /// Start of the user's idle time; `None` before the first iteration.
    idle_since: Option<Instant>,
}

impl ActiveVu {
    pub(crate) fn new(state: &Arc<ScenarioState>, recorder: &Recorder) -> Self {
        let number = state.part.number(state.progress.user_came());
        let user = state.config.scenario.user(number, recorder);
        ActiveVu {
            state: state.clone(),
            user,
            iteration: Iteration::new(recorder.clone(), number, state.progress.pausing.clone()),
            idle_since: None,
        }
    }

    /// Executes one iteration, and returns the time at its end. In a closed loop, `due` is `None`:
    /// the iteration begins now.
    pub(crate) async fn iterate(&mut self, number: u64, due: Option<Instant>) -> Instant {
        let started = Instant::now();
        // The load generator causes the delay only after the due time, and while a user is free.
        // An earlier delay has another cause: the target is so slow that all users are busy.
        let delay = due.map(|due| {
            let could = self.idle_since.map_or(due, |since| since.max(due));
            started.saturating_duration_since(could)
        });
        self.iteration
            .begin(number, due.unwrap_or(started), started, delay);
        let mut attempt = Attempt {
            state: &self.state,
            user: &mut *self.user,
            iteration: &mut self.iteration,
            over: false,
        };
        let progress = &attempt.state.progress;
        progress.started.fetch_add(1, Relaxed);
        progress.busy.fetch_add(1, Relaxed);
        attempt.user.iterate(attempt.iteration).await;
        attempt.over = true;
        let now = Instant::now();
        attempt.iteration.end(now);
        progress.response_took(attempt.iteration.longest_response());
        self.idle_since = Some(now);
        progress.completed.fetch_add(1, Relaxed);
        if !attempt.iteration.is_idle() {
            progress.finished.fetch_add(1, Relaxed);
        }
        progress
            .last_done
            .store(self.state.elapsed(now).as_nanos() as u64, Relaxed);
        now
    }
}

impl Drop for ActiveVu {
    fn drop(&mut self) {
        self.state.progress.user_left();
    }
}

/// An iteration in progress. Dropping the value early records that the iteration was cut off.
struct Attempt<'a> {
    state: &'a ScenarioState,
    user: &'a mut dyn VirtualUser,
    iteration: &'a mut Iteration,
    over: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let progress = &self.state.progress;
        progress.busy.fetch_sub(1, Relaxed);
        if self.over {
            return;
        }
        let now = Instant::now();
        progress.interrupted.fetch_add(1, Relaxed);
        progress
            .last_done
            .store(self.state.elapsed(now).as_nanos() as u64, Relaxed);
        let panicked = std::thread::panicking();
        let pausing = self.iteration.pausing();
        let idle = self.iteration.is_idle() || pausing == Some(Pause::Plan);
        if !idle && pausing.is_none() {
            progress.unfinished.fetch_add(1, Relaxed);
        }
        if !idle && !panicked {
            self.user.cut_off(self.iteration);
        }
        let failure = self.failure(now, idle, panicked);
        self.iteration.fail(failure);
        // The iteration would have taken at least this long. Omitting the iteration would hide that
        // the target stopped responding.
        let longest = Duration::from_nanos(progress.longest_response.load(Relaxed));
        self.iteration.end_cut_off(now, longest);
    }
}

impl Attempt<'_> {
    /// Returns the failure of an iteration that did not finish.
    fn failure(&self, now: Instant, idle: bool, panicked: bool) -> Failure {
        let number = self.iteration.number();
        let took = now.saturating_duration_since(self.iteration.intended());
        if panicked {
            return Failure::new(
                "panic",
                format!("iteration {number} panicked after {took:.1?}"),
            );
        }
        let when = match self.iteration.pausing() {
            Some(Pause::Throttled) if !idle => "in a wait that the target requested".to_owned(),
            _ if idle => "in a pause".to_owned(),
            _ => format!(
                "while it waited for {}",
                self.state.config.scenario.purpose()
            ),
        };
        let what = format!("iteration {number} was cut off at the end of the run after {took:.1?}");
        Failure::new("interrupted", format!("{what}, {when}"))
    }
}
