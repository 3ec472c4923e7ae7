//! Changes to the load during a run.

use std::sync::Arc;

use crate::execution::run_state::RunState;
pub use crate::execution::scenario_state::Control;
use crate::execution::scenario_state::ScenarioState;

/// Controls that change the load of a running run. Clones control the same run. The default value
/// controls no run, and its methods have no effect.
#[derive(Clone, Default)]
pub struct Controls(Option<Arc<RunState>>);

impl Controls {
    pub(crate) fn of(run_state: Arc<RunState>) -> Self {
        Controls(Some(run_state))
    }

    /// Returns the adjustable quantity of each scenario, in the plan's order.
    pub fn list(&self) -> Vec<Control> {
        self.0
            .iter()
            .flat_map(|run_state| run_state.scenarios.iter())
            .map(|state| state.control())
            .collect()
    }

    /// Multiplies the target load of scenario `index` by `factor` from now on.
    pub fn scale(&self, index: usize, factor: f64) {
        if let Some(state) = self.state(index) {
            state.scale(|now| now * factor);
        }
    }

    /// Sets the current target load of scenario `index`: iterations per second, or users. A ramp
    /// keeps its shape. Has no effect while the plan's value is zero.
    pub fn set(&self, index: usize, value: f64) {
        if let Some(state) = self.state(index) {
            let planned = state.planned_now();
            state.scale(|now| if planned > 0.0 { value / planned } else { now });
        }
    }

    fn state(&self, index: usize) -> Option<&ScenarioState> {
        self.0.as_ref()?.scenarios.get(index).map(|state| &**state)
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}
