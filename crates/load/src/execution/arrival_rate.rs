//! Open loop: executes one scenario by arrival rate on one worker.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::drain::drain;
use super::scenario_state::{Adjustments, ScenarioState, StopMode};
use super::vu::ActiveVu;
use crate::executor::poisson::Poisson;
use crate::executor::schedule::Schedule;
use crate::executor::{ArrivalRateOptions, Arrivals};
use crate::timer::Timer;
use crate::{Part, Recorder};

/// Limit of waiting arrivals, which take 24 MiB. Beyond this limit, the oldest arrivals are dropped
/// regardless of `maxStartDelay`.
const MOST_WAITING: usize = 1 << 20;

/// Executes one scenario by arrival rate on one worker, which takes a part of the arrivals.
pub(crate) struct ArrivalRateExecutor {
    state: Arc<ScenarioState>,
    recorder: Recorder,
    max_start_delay: Duration,
    queue: Mutex<Queue>,
}

/// Arrivals that are due, and the VUs that are free for them.
struct Queue {
    begin: Instant,
    schedule: Schedule,
    /// Random distances between arrivals; `None` if they are equal.
    poisson: Option<Poisson>,
    /// Part of the arrivals.
    part: Part,
    /// Number of the next arrival that is not yet due.
    next: u64,
    next_due: Option<Instant>,
    /// Due arrivals that have not started, in order.
    waiting: VecDeque<Arrival>,
    /// Idle users. The last user to finish is used next, because its connection is warm.
    idle_vus: Vec<ActiveVu>,
    /// Number of VUs that may still be created: k6's remaining unplanned VUs.
    unplanned_vus: u64,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    number: u64,
    due: Instant,
}

impl ArrivalRateExecutor {
    /// Creates the executor with its initial users.
    pub(crate) fn new(
        state: Arc<ScenarioState>,
        options: &ArrivalRateOptions,
        recorder: Recorder,
        part: Part,
    ) -> Arc<Self> {
        let most = part.share(options.max_vus).max(1);
        let idle_vus: Vec<ActiveVu> = (0..part.share(options.pre_allocated_vus).min(most))
            .map(|_| ActiveVu::new(&state, &recorder))
            .collect();
        let schedule = state.adjustments.borrow().schedule.clone();
        let queue = Queue {
            begin: Instant::now(),
            schedule,
            poisson: (options.arrivals == Arrivals::Poisson)
                .then(|| Poisson::new(state.config.seed)),
            part,
            next: part.number(0),
            next_due: None,
            waiting: VecDeque::new(),
            unplanned_vus: most - idle_vus.len() as u64,
            idle_vus,
            closed: false,
        };
        let max_start_delay = options.max_start_delay;
        Arc::new(ArrivalRateExecutor {
            state,
            recorder,
            max_start_delay,
            queue: Mutex::new(queue),
        })
    }

    /// Runs until the last iteration has finished or was cut off.
    pub(crate) async fn run(self: Arc<Self>, begin: Instant) -> io::Result<()> {
        let mut adjustments = self.state.adjustments.subscribe();
        let mut tasks = JoinSet::new();
        {
            let mut queue = self.queue.lock();
            queue.begin = begin;
            queue.plan_next();
        }
        self.pace(&mut adjustments, &mut tasks).await?;
        self.close();
        drain(
            &mut adjustments,
            &mut tasks,
            self.state.config.graceful_stop,
        )
        .await;
        self.queue.lock().idle_vus.clear();
        Ok(())
    }

    /// Starts arrivals when they are due, until no arrivals are left.
    async fn pace(
        self: &Arc<Self>,
        adjustments: &mut watch::Receiver<Adjustments>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let mut timer = Timer::new()?;
        let mut adjusted = true;
        loop {
            let wake = {
                let mut queue = self.queue.lock();
                let now = Instant::now();
                if std::mem::take(&mut adjusted) {
                    self.adjust(adjustments, &mut queue, now);
                }
                self.collect(&mut queue, now);
                while let Some((vu, arrival)) = self.start_one(&mut queue) {
                    tasks.spawn(self.clone().work(vu, arrival));
                }
                if queue.is_over(now) {
                    return Ok(());
                }
                queue.wake(now)
            };
            while tasks.try_join_next().is_some() {}
            tokio::select! {
                biased;
                slept = timer.until(wake) => slept?,
                // The state of this executor owns the sender, so the channel stays open.
                _ = adjustments.changed() => adjusted = true,
            }
        }
    }

    /// Applies changes by keys or a stop.
    fn adjust(
        &self,
        adjustments: &mut watch::Receiver<Adjustments>,
        queue: &mut Queue,
        now: Instant,
    ) {
        // Arrivals up to now follow the old schedule.
        self.collect(queue, now);
        let adjustments = adjustments.borrow_and_update();
        queue.schedule = adjustments.schedule.clone();
        queue.closed |= adjustments.stop > StopMode::No;
        queue.plan_next();
    }

    /// Queues due arrivals, and drops arrivals that have waited too long.
    fn collect(&self, queue: &mut Queue, now: Instant) {
        let (mut came, mut dropped) = (0, 0);
        while let Some(due) = queue.next_due.filter(|due| *due <= now && !queue.closed) {
            let number = queue.next;
            queue.waiting.push_back(Arrival { number, due });
            came += 1;
            if queue.waiting.len() > MOST_WAITING {
                queue.waiting.pop_front();
                dropped += 1;
            }
            queue.next += queue.part.step();
            queue.plan_next();
        }
        let late =
            |first: &Arrival| now.saturating_duration_since(first.due) > self.max_start_delay;
        while queue.waiting.front().is_some_and(late) {
            queue.waiting.pop_front();
            dropped += 1;
        }
        let progress = &self.state.progress;
        if came > 0 {
            progress.waiting.fetch_add(came, Relaxed);
        }
        if dropped > 0 {
            progress.dropped.fetch_add(dropped, Relaxed);
            progress.waiting.fetch_sub(dropped, Relaxed);
        }
    }

    /// Takes an arrival and a user for it, creating a user if necessary and allowed.
    fn start_one(&self, queue: &mut Queue) -> Option<(ActiveVu, Arrival)> {
        if queue.closed || queue.waiting.is_empty() {
            return None;
        }
        let vu = match queue.idle_vus.pop() {
            Some(vu) => vu,
            None => {
                queue.unplanned_vus = queue.unplanned_vus.checked_sub(1)?;
                ActiveVu::new(&self.state, &self.recorder)
            }
        };
        Some((vu, self.take(queue)?))
    }

    fn take(&self, queue: &mut Queue) -> Option<Arrival> {
        let arrival = queue.waiting.pop_front()?;
        self.state.progress.waiting.fetch_sub(1, Relaxed);
        Some(arrival)
    }

    /// Executes iterations with one user, as long as arrivals are waiting.
    async fn work(self: Arc<Self>, mut vu: ActiveVu, mut arrival: Arrival) {
        let lost = LostVu(&self);
        loop {
            let now = vu.iterate(arrival.number, Some(arrival.due)).await;
            {
                let mut queue = self.queue.lock();
                // Under full load, this code runs more often than the pacer.
                self.collect(&mut queue, now);
                match queue.is_open(now).then(|| self.take(&mut queue)).flatten() {
                    Some(next) => arrival = next,
                    None => {
                        queue.idle_vus.push(vu);
                        std::mem::forget(lost);
                        return;
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Drops the remaining arrivals and counts them as dropped.
    fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let left = queue.waiting.len() as u64;
        queue.waiting.clear();
        self.state.progress.dropped.fetch_add(left, Relaxed);
        self.state.progress.waiting.fetch_sub(left, Relaxed);
    }
}

/// Allows another user to be created when a panic has destroyed a user.
struct LostVu<'a>(&'a ArrivalRateExecutor);

impl Drop for LostVu<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().unplanned_vus += 1;
    }
}

impl Queue {
    fn end(&self) -> Instant {
        self.begin + self.schedule.end()
    }

    fn plan_next(&mut self) {
        let due = match &mut self.poisson {
            None => self.schedule.due(self.next),
            Some(_) if self.schedule.is_met_before(self.next) => None,
            Some(poisson) => self.schedule.due_at(poisson.time(self.next)),
        };
        self.next_due = due.map(|due| self.begin + due);
    }

    /// Returns whether arrivals may begin when a user becomes free.
    fn is_open(&self, now: Instant) -> bool {
        !self.closed && now < self.end()
    }

    fn is_over(&self, now: Instant) -> bool {
        let met = self.waiting.is_empty() && self.schedule.is_met_before(self.next);
        met || !self.is_open(now)
    }

    /// Returns the time of the pacer's next work.
    fn wake(&self, now: Instant) -> Instant {
        match self.next_due {
            Some(due) => due.min(self.end()),
            None if self.waiting.is_empty() => self.end(),
            // A user that becomes free takes a waiting arrival; check again soon.
            None => (now + Duration::from_millis(50)).min(self.end()),
        }
    }
}
