//! Model of the live view: the last snapshot, the history, and the choice.

use std::collections::VecDeque;
use std::sync::Arc;

use super::BUCKETS;
use super::keys::{Action, Direction, Load};
use crate::Snapshot;
use crate::controls::Control;
use crate::executor::Adjustable;
use crate::report::format;
use crate::snapshot::ScenarioRow;

/// Seconds of history: more columns than any terminal has.
const KEPT: usize = 600;
/// Number of seconds during which the effect of a key is shown.
const SAID: u32 = 5;
/// Factor by which a key press changes the target.
const STEP: f64 = 1.1;

/// Controls that keys operate.
pub(super) trait Steering {
    fn list(&self) -> Vec<Control>;
    fn scale(&mut self, index: usize, factor: f64);
    fn set(&mut self, index: usize, value: f64);
    fn stop(&mut self);
}

/// Data of the view.
pub(super) struct Model {
    pub(super) snapshot: Arc<Snapshot>,
    /// History of each scenario.
    pub(super) past: Vec<Past>,
    /// The chosen scenario; `None` for all scenarios.
    pub(super) chosen: Option<usize>,
    pub(super) help: bool,
    /// Text about the effect of the last key.
    pub(super) message: String,
    pub(super) colour: bool,
    stops: u32,
    said: u32,
}

/// History of one scenario, the oldest second first.
#[derive(Default)]
pub(super) struct Past {
    pub(super) heat: VecDeque<[u32; BUCKETS]>,
    pub(super) requests: VecDeque<f64>,
    pub(super) failures: VecDeque<f64>,
}

impl Model {
    pub(super) fn new(colour: bool) -> Self {
        Model {
            snapshot: Arc::default(),
            past: Vec::new(),
            chosen: None,
            help: false,
            message: String::new(),
            colour,
            stops: 0,
            said: 0,
        }
    }

    /// Adds a new second.
    pub(super) fn see(&mut self, snapshot: Arc<Snapshot>) {
        self.said += 1;
        // The message about stopping stays; the table shows changed loads.
        if self.said > SAID && self.stops == 0 {
            self.message.clear();
        }
        self.past
            .resize_with(snapshot.scenarios.len(), Past::default);
        if !snapshot.elapsed.is_zero() {
            for (past, row) in self.past.iter_mut().zip(&snapshot.scenarios) {
                past.push(row);
            }
        }
        self.snapshot = snapshot;
    }

    /// Executes the action of a key.
    pub(super) fn act(&mut self, action: Action, wheel: &mut dyn Steering) {
        self.said = 0;
        match action {
            Action::Help => self.help = !self.help,
            Action::Close => self.help = false,
            Action::Choose(direction) => self.choose(direction),
            Action::Stop => self.stop(wheel),
            Action::Scale(load, direction) => {
                let controls = wheel.list();
                let turned = self.turned(load, &controls);
                self.message = if turned.is_empty() {
                    nothing_to_turn(load).to_owned()
                } else {
                    turn(&controls, &turned, direction, wheel)
                };
            }
        }
    }

    /// Returns the history of the chosen scenario, or the sum of all scenarios.
    pub(super) fn shown(&self) -> Past {
        let mut sum = Past::default();
        let chosen = |index: &usize| self.chosen.is_none_or(|chosen| chosen == *index);
        for index in (0..self.past.len()).filter(chosen) {
            sum.add(&self.past[index]);
        }
        sum
    }

    fn choose(&mut self, direction: Direction) {
        let count = self.snapshot.scenarios.len();
        self.chosen = match (self.chosen, direction) {
            (None, Direction::Up) => (count > 0).then_some(0),
            (None, Direction::Down) => count.checked_sub(1),
            (Some(index), Direction::Up) => Some(index + 1).filter(|&next| next < count),
            (Some(index), Direction::Down) => index.checked_sub(1),
        };
    }

    fn stop(&mut self, wheel: &mut dyn Steering) {
        wheel.stop();
        self.stops += 1;
        self.message = match self.stops {
            1 => "stopping: running iterations may end; press again to cut them off".to_owned(),
            _ => "stopping at once".to_owned(),
        };
    }

    /// Returns the scenarios that a key changes.
    fn turned(&self, load: Load, controls: &[Control]) -> Vec<usize> {
        let all = |wanted: &dyn Fn(&Control) -> bool| -> Vec<usize> {
            (0..controls.len())
                .filter(|&index| wanted(&controls[index]))
                .collect()
        };
        let chosen = self.chosen.filter(|&index| index < controls.len());
        match (load, chosen) {
            (Load::Reads, Some(index)) => vec![index],
            (Load::Vus, Some(index)) => {
                let by_users = controls[index].adjustable == Adjustable::Vus;
                if by_users { vec![index] } else { Vec::new() }
            }
            (Load::Vus, None) => all(&|control| control.adjustable == Adjustable::Vus),
            (Load::Reads, None) => match all(&|control| !writes(control)) {
                reads if reads.is_empty() => all(&|_| true),
                reads => reads,
            },
            (Load::Writes, _) => match all(&writes) {
                writes if writes.is_empty() => all(&|_| true),
                writes => writes,
            },
        }
    }
}

fn writes(control: &Control) -> bool {
    control.kind.contains("write") || control.scenario.contains("write")
}

fn nothing_to_turn(load: Load) -> &'static str {
    match load {
        Load::Vus => "no users to change here: use + and - for the rate",
        Load::Reads | Load::Writes => "there is nothing to change",
    }
}

/// Changes the load of the scenarios by one step. Returns a description.
fn turn(
    controls: &[Control],
    indices: &[usize],
    direction: Direction,
    wheel: &mut dyn Steering,
) -> String {
    let mut told = Vec::new();
    for &index in indices {
        let Control {
            scenario,
            adjustable,
            asked,
            ..
        } = &controls[index];
        let value = match (adjustable, direction) {
            // Numbers of users are whole, so a step is at least one.
            (Adjustable::Vus, Direction::Up) => (asked * STEP).max(asked + 1.0).round(),
            (Adjustable::Vus, Direction::Down) => (asked / STEP).min(asked - 1.0).max(0.0).round(),
            (Adjustable::Rate, Direction::Up) if *asked <= 0.0 => 1.0,
            (Adjustable::Rate, Direction::Up) => asked * STEP,
            (Adjustable::Rate, Direction::Down) => asked / STEP,
        };
        match adjustable {
            Adjustable::Rate if *asked > 0.0 => wheel.scale(index, value / asked),
            _ => wheel.set(index, value),
        }
        let unit = if *adjustable == Adjustable::Vus {
            " users"
        } else {
            "/s"
        };
        told.push(format!(
            "{} {}{unit}",
            format::printable(scenario),
            format::significant(value)
        ));
    }
    told.join(", ")
}

impl Past {
    fn push(&mut self, row: &ScenarioRow) {
        self.heat.push_back(row.heat);
        self.requests
            .push_back(row.figures.requests.max(row.iterations));
        self.failures.push_back(row.figures.failures);
        if self.heat.len() > KEPT {
            self.heat.pop_front();
            self.requests.pop_front();
            self.failures.pop_front();
        }
    }

    fn add(&mut self, other: &Past) {
        let longest = self.heat.len().max(other.heat.len());
        self.heat.resize(longest, [0; BUCKETS]);
        self.requests.resize(longest, 0.0);
        self.failures.resize(longest, 0.0);
        for (mine, theirs) in self.heat.iter_mut().zip(&other.heat) {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(a, b)| *a = a.saturating_add(*b));
        }
        self.requests
            .iter_mut()
            .zip(&other.requests)
            .for_each(|(a, b)| *a += b);
        self.failures
            .iter_mut()
            .zip(&other.failures)
            .for_each(|(a, b)| *a += b);
    }
}
