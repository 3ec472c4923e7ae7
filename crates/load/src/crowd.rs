//! The closed loop: one scenario by users, on one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::Recorder;
use crate::course::{Course, Halt};
use crate::lane::drain;
use crate::seat::Seat;

/// How often the number of users is adjusted.
const TICK: Duration = Duration::from_millis(50);

/// One scenario by users, on one worker: has every `workers`-th user.
pub(crate) struct Crowd {
    course: Arc<Course>,
    recorder: Recorder,
    worker: u64,
    workers: u64,
    /// Users with a lower place than this go on.
    wanted: AtomicU64,
    /// Which places are taken.
    places: Mutex<Vec<bool>>,
}

impl Crowd {
    pub(crate) fn new(
        course: Arc<Course>,
        recorder: Recorder,
        worker: u64,
        workers: u64,
    ) -> Arc<Self> {
        let (wanted, places) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        Arc::new(Crowd {
            course,
            recorder,
            worker,
            workers,
            wanted,
            places,
        })
    }

    /// Runs until the last iteration is over or cut off.
    pub(crate) async fn run(self: Arc<Self>, begin: Instant) {
        let mut orders = self.course.orders.subscribe();
        let mut tasks = JoinSet::new();
        tokio::time::sleep_until(begin.into()).await;
        loop {
            let wanted = {
                let orders = orders.borrow_and_update();
                let elapsed = begin.elapsed();
                if orders.halt > Halt::No || elapsed >= orders.schedule.end() || self.is_met() {
                    break;
                }
                orders.schedule.rate(elapsed).round() as u64
            };
            self.admit(
                (wanted + self.workers - 1 - self.worker) / self.workers,
                &mut tasks,
            );
            while tasks.try_join_next().is_some() {}
            let end = begin + orders.borrow().schedule.end();
            tokio::select! {
                () = tokio::time::sleep_until((Instant::now() + TICK).min(end).into()) => {}
                _ = orders.changed() => {}
            }
        }
        self.wanted.store(0, Relaxed);
        drain(&mut orders, &mut tasks, self.course.plan.graceful_stop).await;
    }

    /// Whether as many iterations have begun as there shall be.
    fn is_met(&self) -> bool {
        let begun = self.course.progress.next_iteration.load(Relaxed);
        self.course
            .plan
            .arrivals
            .iterations()
            .is_some_and(|goal| begun >= goal)
    }

    /// Lets users in, or tells the last ones to go after their iteration.
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

    /// One user, iterating until it is not wanted any more.
    async fn work(self: Arc<Self>, place: u64) {
        let _free = Free {
            crowd: &self,
            place,
        };
        let mut seat = Seat::new(&self.course, &self.recorder);
        while place < self.wanted.load(Relaxed) {
            let number = self.course.progress.next_iteration.fetch_add(1, Relaxed);
            if self
                .course
                .plan
                .arrivals
                .iterations()
                .is_some_and(|goal| number >= goal)
            {
                return;
            }
            seat.iterate(number, None).await;
            // An iteration that never waits must not keep the others from theirs.
            tokio::task::yield_now().await;
        }
    }
}

/// Frees a user's place when it has left, or is lost to a panic.
struct Free<'a> {
    crowd: &'a Crowd,
    place: u64,
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.crowd.places.lock()[self.place as usize] = false;
    }
}
