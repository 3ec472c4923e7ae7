//! State of a run, and its early end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::scenario_state::{ScenarioState, StopMode};
use crate::exchange::Failure;

/// State of a run, which controls the workers from outside.
pub(crate) struct RunState {
    pub(crate) scenarios: Vec<Arc<ScenarioState>>,
    stop: watch::Sender<StopMode>,
    reason: Mutex<Option<StopReason>>,
    finishing: AtomicBool,
    /// Failure of a scenario that cannot offer its load.
    given_up: OnceLock<Failure>,
}

/// Reasons of an early end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The user stopped the run.
    Asked,
    /// A threshold aborted the run.
    Threshold,
    /// A scenario has reached its goal.
    Goal,
    /// A scenario cannot offer its load.
    GivenUp,
}

impl RunState {
    pub(crate) fn new(scenarios: Vec<Arc<ScenarioState>>) -> Self {
        RunState {
            scenarios,
            stop: watch::Sender::new(StopMode::No),
            reason: Mutex::new(None),
            finishing: AtomicBool::new(false),
            given_up: OnceLock::new(),
        }
    }

    pub(crate) fn stop(&self, stop: StopMode, reason: StopReason) {
        {
            let mut known = self.reason.lock();
            // A stop by the user after the goal cuts off running iterations or the audit.
            if known.is_none_or(|known| known == StopReason::Goal) {
                *known = Some(reason);
            }
        }
        self.stop.send_modify(|known| *known = (*known).max(stop));
        self.scenarios.iter().for_each(|state| state.stop(stop));
    }

    /// Ends a run whose load cannot be offered.
    pub(crate) fn give_up(&self, why: Failure) {
        let _ = self.given_up.set(why);
        self.stop(StopMode::Gracefully, StopReason::GivenUp);
    }

    /// Returns why the load could not be offered, if it could not.
    pub(crate) fn given_up(&self) -> Option<String> {
        self.given_up.get().map(Failure::to_string)
    }

    /// Marks the end of the load and the beginning of `finish`.
    pub(crate) fn begin_finishing(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() > StopMode::No
    }

    /// Returns the reason of the early end, if there was one.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock()
    }

    /// Waits until the run is stopped in this mode or a stronger mode.
    pub(crate) async fn stopped(&self, least: StopMode) {
        // The sender is a field of `self`, so there is no error.
        let _ = self.stop.subscribe().wait_for(|stop| *stop >= least).await;
    }
}
