//! Cells of a run, and their order.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::options::{Operation, S3Options, Size};

/// A combination of store, operation, size and number of users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Index of the store.
    pub(super) store: usize,
    pub(super) operation: Operation,
    pub(super) size: Size,
    /// Number of users; `None` for all.
    pub(super) concurrency: Option<u32>,
}

impl Cell {
    /// Returns all cells in the order of the run.
    pub(super) fn all(options: &S3Options, stores: usize) -> Vec<Self> {
        let concurrency: Vec<_> = if options.mixed {
            vec![None]
        } else {
            options.concurrency.iter().copied().map(Some).collect()
        };
        let mut cells = Vec::new();
        for &size in &options.sizes {
            for &concurrency in &concurrency {
                for &operation in &options.operations {
                    cells.extend((0..stores).map(|store| Cell {
                        store,
                        operation,
                        size,
                        concurrency,
                    }));
                }
            }
        }
        cells
    }
}

/// The current cell. A cell lasts for its duration and until its last request is finished. The next
/// cell then begins.
#[derive(Debug)]
pub(super) struct Schedule {
    duration: Duration,
    /// Limit of active users in each cell.
    limits: Vec<u32>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Index of the current cell.
    index: usize,
    at_work: u32,
    cells: Vec<Progress>,
}

/// Progress of a cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) started: Option<Instant>,
    pub(super) finished: Option<Instant>,
    /// Time of the cell's own requests, summed over all users.
    pub(super) busy: Duration,
    /// Largest number of users that were active at the same time.
    pub(super) most: u32,
}

/// Next action of a user.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    /// Work in this cell, until the value is dropped.
    Work(usize, ActiveUser<'a>),
    /// Wait this long.
    Wait(Duration),
}

/// An active user.
#[derive(Debug)]
pub(super) struct ActiveUser<'a> {
    schedule: &'a Schedule,
    index: usize,
}

impl Schedule {
    /// Creates a schedule of cells with these limits, each for `duration`.
    pub(super) fn new(limits: Vec<u32>, duration: Duration) -> Self {
        let cells = vec![Progress::default(); limits.len()];
        Self {
            duration,
            limits,
            state: Mutex::new(State {
                cells,
                ..State::default()
            }),
        }
    }

    /// Returns the next action of a user.
    pub(super) fn turn(&self) -> Turn<'_> {
        self.turn_at(Instant::now())
    }

    fn turn_at(&self, now: Instant) -> Turn<'_> {
        /// Sleep of a user without work in the current cell.
        const NAP: Duration = Duration::from_millis(100);
        /// Interval between checks whether the last request of a cell is finished.
        const BLINK: Duration = Duration::from_millis(1);
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(cell) = state.cells.get(state.index) else {
            return Turn::Wait(NAP);
        };
        let left = match cell.started {
            Some(started) => self.duration.saturating_sub(now - started),
            None => self.duration,
        };
        if left.is_zero() {
            if state.at_work > 0 {
                return Turn::Wait(BLINK);
            }
            state.index += 1;
        } else if state.at_work >= self.limits[state.index] {
            return Turn::Wait(left.min(NAP));
        }
        let index = state.index;
        let Some(cell) = state.cells.get_mut(index) else {
            return Turn::Wait(NAP);
        };
        state.at_work += 1;
        cell.started.get_or_insert(now);
        cell.most = cell.most.max(state.at_work);
        let schedule = self;
        Turn::Work(index, ActiveUser { schedule, index })
    }

    /// Returns the progress of all cells.
    pub(super) fn progress(&self) -> Vec<Progress> {
        self.state.lock().cells.clone()
    }
}

impl ActiveUser<'_> {
    /// Adds the time of a request of the cell itself.
    pub(super) fn busy(&self, time: Duration) {
        self.schedule.state.lock().cells[self.index].busy += time;
    }
}

impl Drop for ActiveUser<'_> {
    fn drop(&mut self) {
        let mut state = self.schedule.state.lock();
        state.at_work -= 1;
        state.cells[self.index].finished = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_each_other_store_by_store() {
        let options = S3Options::default();
        let cells = Cell::all(&options, 2);
        assert_eq!(cells.len(), 4 * 3 * 2 * 2);
        assert_eq!((cells[0].store, cells[1].store), (0, 1));
        assert_eq!(cells[0].operation, cells[1].operation);
        assert_eq!(cells[2].operation, Operation::Get);
        let mixed = S3Options {
            mixed: true,
            ..options
        };
        assert_eq!(Cell::all(&mixed, 1).len(), 4 * 2);
    }

    #[test]
    fn no_more_than_are_wanted_and_the_last_is_waited_for() {
        let schedule = Schedule::new(vec![2, 1], Duration::from_millis(30));
        // Later than the times that the users record when they finish.
        let begin = Instant::now() + Duration::from_secs(3600);
        let turn = |millis| schedule.turn_at(begin + Duration::from_millis(millis));
        let Turn::Work(0, first) = turn(0) else {
            panic!("the first cell is on")
        };
        let Turn::Work(0, second) = turn(1) else {
            panic!("there is room for two")
        };
        assert!(matches!(turn(2), Turn::Wait(_)));
        drop(second);
        assert!(matches!(turn(30), Turn::Wait(_)), "one is at work");
        first.busy(Duration::from_millis(7));
        drop(first);
        let Turn::Work(1, last) = turn(40) else {
            panic!("the next cell is on")
        };
        drop(last);
        assert!(matches!(turn(70), Turn::Wait(_)), "all is done");
        let progress = schedule.progress();
        assert_eq!((progress[0].most, progress[1].most), (2, 1));
        assert_eq!(progress[0].busy, Duration::from_millis(7));
        assert!(progress[1].started >= progress[0].finished);
    }
}
