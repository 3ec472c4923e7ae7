//! The state of a run, and its end before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::scenario_state::{ScenarioState, StopMode};

/// The state of a run, by which it is steered from outside of its workers.
pub(crate) struct RunState {
    pub(crate) scenarios: Vec<Arc<ScenarioState>>,
    stop: watch::Sender<StopMode>,
    reason: Mutex<Option<StopReason>>,
    finishing: AtomicBool,
}

/// The reasons why a run ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody asked for it.
    Asked,
    /// A threshold did.
    Threshold,
    /// A scenario has reached its goal.
    Goal,
}

impl RunState {
    pub(crate) fn new(scenarios: Vec<Arc<ScenarioState>>) -> Self {
        RunState {
            scenarios,
            stop: watch::Sender::new(StopMode::No),
            reason: Mutex::new(None),
            finishing: AtomicBool::new(false),
        }
    }

    pub(crate) fn stop(&self, stop: StopMode, reason: StopReason) {
        self.reason.lock().get_or_insert(reason);
        self.stop.send_modify(|known| *known = (*known).max(stop));
        self.scenarios.iter().for_each(|state| state.stop(stop));
    }

    /// The load is over; what is left is `finish`.
    pub(crate) fn begin_finishing(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() > StopMode::No
    }

    /// Returns the reason why the run ends before its time, if it does.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock()
    }

    /// Waits until the run is to be stopped at least like this.
    pub(crate) async fn stopped(&self, least: StopMode) {
        // The sender is our own: there is no error.
        let _ = self.stop.subscribe().wait_for(|stop| *stop >= least).await;
    }
}
