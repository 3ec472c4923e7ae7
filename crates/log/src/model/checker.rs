//! A breadth-first search of all states of a state machine.

use std::collections::HashSet;
use std::fmt::{self, Debug, Display};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A state machine.
pub(super) trait Machine {
    type State: Copy + Eq + Hash;
    type Action: Copy + Display;
    type Invariant: Copy + Debug;

    fn initial(&self) -> Self::State;

    /// Calls `next` with every action that is possible in this state, and with its result.
    fn each(&self, state: &Self::State, next: &mut dyn FnMut(Self::Action, Self::State));

    /// Returns the invariant that this state violates.
    fn broken(&self, state: &Self::State) -> Option<Self::Invariant>;
}

/// The outcome of an exploration.
pub(super) struct Explored<I> {
    pub(super) states: usize,
    /// The largest distance of a state from the first state, in actions.
    pub(super) depth: usize,
    pub(super) counterexample: Option<Counterexample<I>>,
}

/// A shortest path to a state that violates an invariant.
pub(super) struct Counterexample<I> {
    pub(super) broken: I,
    story: Vec<String>,
}

impl<I: Debug> Display for Counterexample<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} does not hold:", self.broken)?;
        for (n, line) in (1..).zip(&self.story) {
            writeln!(f, "{n:>4}. {line}")?;
        }
        Ok(())
    }
}

/// A state, with its predecessor and the action between them.
struct Found<M: Machine> {
    state: M::State,
    from: Option<(u32, M::Action)>,
    depth: u16,
}

/// Visits all reachable states, until one of them violates an invariant. States are compared as a
/// whole, not by their hashes.
pub(super) fn explore<M: Machine>(machine: &M) -> Explored<M::Invariant> {
    let initial = machine.initial();
    let mut seen = HashSet::<M::State, BuildHasherDefault<Mixer>>::default();
    seen.insert(initial);
    let mut found = vec![Found::<M> {
        state: initial,
        from: None,
        depth: 0,
    }];
    let mut at = 0;
    while at < found.len() {
        let (state, depth) = (found[at].state, found[at].depth);
        if let Some(broken) = machine.broken(&state) {
            let story = story(&found, at);
            return explored(&found, Some(Counterexample { broken, story }));
        }
        machine.each(&state, &mut |action, next| {
            if seen.insert(next) {
                found.push(Found {
                    state: next,
                    from: Some((at as u32, action)),
                    depth: depth + 1,
                });
            }
        });
        at += 1;
    }
    explored(&found, None)
}

fn explored<M: Machine>(
    found: &[Found<M>],
    counterexample: Option<Counterexample<M::Invariant>>,
) -> Explored<M::Invariant> {
    Explored {
        states: found.len(),
        depth: found.last().map_or(0, |last| usize::from(last.depth)),
        counterexample,
    }
}

fn story<M: Machine>(found: &[Found<M>], mut at: usize) -> Vec<String> {
    let mut story = Vec::new();
    while let Some((before, action)) = &found[at].from {
        story.push(action.to_string());
        at = *before as usize;
    }
    story.reverse();
    story
}

/// A fast hash function. No attacker chooses the states.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
