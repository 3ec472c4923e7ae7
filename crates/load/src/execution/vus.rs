//! Closed loop: executes one scenario by users on one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::drain::drain;
use super::scenario_state::{ScenarioState, StopMode};
use super::vu::ActiveVu;
use crate::{Part, Recorder};

/// Interval between adjustments of the number of VUs.
const TICK: Duration = Duration::from_millis(50);

/// Executes one scenario by users on one worker, which has a part of the users.
pub(crate) struct VusExecutor {
    state: Arc<ScenarioState>,
    recorder: Recorder,
    part: Part,
    /// Number of wanted users of this worker. A user whose place is lower continues.
    wanted: AtomicU64,
    /// The places that a user has taken.
    places: Mutex<Vec<bool>>,
}

impl VusExecutor {
    pub(crate) fn new(state: Arc<ScenarioState>, recorder: Recorder, part: Part) -> Arc<Self> {
        let (wanted, places) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        Arc::new(VusExecutor {
            state,
            recorder,
            part,
            wanted,
            places,
        })
    }

    /// Runs until the last iteration has finished or was cut off.
    pub(crate) async fn run(self: Arc<Self>, begin: Instant) {
        let mut adjustments = self.state.adjustments.subscribe();
        let mut tasks = JoinSet::new();
        tokio::time::sleep_until(begin.into()).await;
        loop {
            let wanted = {
                let adjustments = adjustments.borrow_and_update();
                let elapsed = begin.elapsed();
                if adjustments.stop > StopMode::No
                    || elapsed >= adjustments.schedule.end()
                    || self.is_met()
                {
                    break;
                }
                adjustments.schedule.rate(elapsed).round() as u64
            };
            self.admit(self.part.share(wanted), &mut tasks);
            while tasks.try_join_next().is_some() {}
            let end = begin + adjustments.borrow().schedule.end();
            tokio::select! {
                () = tokio::time::sleep_until((Instant::now() + TICK).min(end).into()) => {}
                _ = adjustments.changed() => {}
            }
        }
        self.wanted.store(0, Relaxed);
        drain(
            &mut adjustments,
            &mut tasks,
            self.state.config.graceful_stop,
        )
        .await;
    }

    /// Returns whether the planned number of iterations has started.
    fn is_met(&self) -> bool {
        let begun = self.state.progress.next_iteration.load(Relaxed);
        let begun = self.state.part.number(begun);
        self.state
            .config
            .executor
            .iterations()
            .is_some_and(|goal| begun >= goal)
    }

    /// Starts missing users, and lets surplus users end after their iteration.
    fn admit(self: &Arc<Self>, wanted: u64, tasks: &mut JoinSet<()>) {
        self.wanted.store(wanted, Relaxed);
        let mut places = self.places.lock();
        if places.len() < wanted as usize {
            places.resize(wanted as usize, false);
        }
        for place in 0..wanted {
            if !std::mem::replace(&mut places[place as usize], true) {
                tasks.spawn(self.clone().work(place));
            }
        }
    }

    /// Executes iterations with one user until the user is no longer wanted.
    async fn work(self: Arc<Self>, place: u64) {
        let _free_place = FreePlace {
            executor: &self,
            place,
        };
        let mut vu = ActiveVu::new(&self.state, &self.recorder);
        while place < self.wanted.load(Relaxed) {
            let number = self.state.progress.next_iteration.fetch_add(1, Relaxed);
            let number = self.state.part.number(number);
            if self
                .state
                .config
                .executor
                .iterations()
                .is_some_and(|goal| number >= goal)
            {
                return;
            }
            vu.iterate(number, None).await;
            // An iteration that never waits must not block the other users.
            tokio::task::yield_now().await;
        }
    }
}

/// Frees a user's place when the user ends or panics.
struct FreePlace<'a> {
    executor: &'a VusExecutor,
    place: u64,
}

impl Drop for FreePlace<'_> {
    fn drop(&mut self) {
        self.executor.places.lock()[self.place as usize] = false;
    }
}
