//! The open loop: one scenario by arrival rate, on one worker.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Recorder;
use crate::arrival::Open;
use crate::arrival::schedule::Schedule;
use crate::course::{Course, Halt, Orders};
use crate::seat::Seat;
use crate::timer::Timer;

/// One scenario by arrival rate, on one worker: takes every `workers`-th arrival.
pub(crate) struct Lane {
    course: Arc<Course>,
    recorder: Recorder,
    workers: u64,
    max_start_delay: Duration,
    queue: Mutex<Queue>,
}

/// What is due, and who can do it.
struct Queue {
    begin: Instant,
    schedule: Schedule,
    /// The next arrival that has not been due yet.
    next: u64,
    next_due: Option<Instant>,
    /// Arrivals that are due and have not begun, in their order.
    waiting: VecDeque<Arrival>,
    /// Users without work. The one that worked last works next: its connection is warm.
    idle: Vec<Seat>,
    /// How many users may still be made.
    room: u64,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    number: u64,
    due: Instant,
}

impl Lane {
    /// Makes the users that there shall be from the beginning.
    pub(crate) fn new(
        course: Arc<Course>,
        open: &Open,
        recorder: Recorder,
        worker: u64,
        workers: u64,
    ) -> Arc<Self> {
        let share = |all: u64| (all + workers - 1 - worker) / workers;
        let most = share(open.max_users).max(1);
        let idle: Vec<Seat> = (0..share(open.pre_allocated_users).min(most))
            .map(|_| Seat::new(&course, &recorder))
            .collect();
        let schedule = course.orders.borrow().schedule.clone();
        let queue = Queue {
            begin: Instant::now(),
            schedule,
            next: worker,
            next_due: None,
            waiting: VecDeque::new(),
            room: most - idle.len() as u64,
            idle,
            closed: false,
        };
        let max_start_delay = open.max_start_delay;
        Arc::new(Lane {
            course,
            recorder,
            workers,
            max_start_delay,
            queue: Mutex::new(queue),
        })
    }

    /// Runs until the last iteration is over or cut off.
    pub(crate) async fn run(self: Arc<Self>, begin: Instant) -> io::Result<()> {
        let mut orders = self.course.orders.subscribe();
        let mut tasks = JoinSet::new();
        {
            let mut queue = self.queue.lock();
            queue.begin = begin;
            queue.plan_next();
        }
        self.pace(&mut orders, &mut tasks).await?;
        self.close();
        drain(&mut orders, &mut tasks, self.course.plan.graceful_stop).await;
        self.queue.lock().idle.clear();
        Ok(())
    }

    /// Starts arrivals as they are due, until there are no more.
    async fn pace(
        self: &Arc<Self>,
        orders: &mut watch::Receiver<Orders>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let mut timer = Timer::new()?;
        let mut ordered = true;
        loop {
            let wake = {
                let mut queue = self.queue.lock();
                let now = Instant::now();
                if std::mem::take(&mut ordered) {
                    self.obey(orders, &mut queue, now);
                }
                self.collect(&mut queue, now);
                while let Some((seat, arrival)) = self.begin_one(&mut queue) {
                    tasks.spawn(self.clone().work(seat, arrival));
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
                // The sender lives in our own course.
                _ = orders.changed() => ordered = true,
            }
        }
    }

    /// Takes over what keys or a halt have changed.
    fn obey(&self, orders: &mut watch::Receiver<Orders>, queue: &mut Queue, now: Instant) {
        // What was due until now was due by the old schedule.
        self.collect(queue, now);
        let orders = orders.borrow_and_update();
        queue.schedule = orders.schedule.clone();
        queue.closed |= orders.halt > Halt::No;
        queue.plan_next();
    }

    /// Queues what has become due, and drops what has waited too long.
    fn collect(&self, queue: &mut Queue, now: Instant) {
        let before = queue.waiting.len();
        let mut dropped = 0;
        while let Some(due) = queue.next_due.filter(|due| *due <= now && !queue.closed) {
            queue.waiting.push_back(Arrival {
                number: queue.next,
                due,
            });
            queue.next += self.workers;
            queue.plan_next();
        }
        let came = queue.waiting.len() - before;
        let late =
            |first: &Arrival| now.saturating_duration_since(first.due) > self.max_start_delay;
        while queue.waiting.front().is_some_and(late) {
            queue.waiting.pop_front();
            dropped += 1;
        }
        let progress = &self.course.progress;
        if came > 0 {
            progress.waiting.fetch_add(came as u64, Relaxed);
        }
        if dropped > 0 {
            progress.dropped.fetch_add(dropped, Relaxed);
            progress.waiting.fetch_sub(dropped, Relaxed);
        }
    }

    /// A user and an arrival for it, if there are both.
    fn begin_one(&self, queue: &mut Queue) -> Option<(Seat, Arrival)> {
        if queue.closed || queue.waiting.is_empty() {
            return None;
        }
        let seat = match queue.idle.pop() {
            Some(seat) => seat,
            None => {
                queue.room = queue.room.checked_sub(1)?;
                Seat::new(&self.course, &self.recorder)
            }
        };
        Some((seat, self.take(queue)?))
    }

    fn take(&self, queue: &mut Queue) -> Option<Arrival> {
        let arrival = queue.waiting.pop_front()?;
        self.course.progress.waiting.fetch_sub(1, Relaxed);
        Some(arrival)
    }

    /// One user's work, for as long as there is some without waiting.
    async fn work(self: Arc<Self>, mut seat: Seat, mut arrival: Arrival) {
        let gone = Gone(&self);
        loop {
            let now = seat.iterate(arrival.number, Some(arrival.due)).await;
            {
                let mut queue = self.queue.lock();
                // Under full load the worker is here more often than in its pacer.
                self.collect(&mut queue, now);
                match queue.is_open(now).then(|| self.take(&mut queue)).flatten() {
                    Some(next) => arrival = next,
                    None => {
                        queue.idle.push(seat);
                        std::mem::forget(gone);
                        return;
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// What is left has been asked for in vain.
    fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let left = queue.waiting.len() as u64;
        queue.waiting.clear();
        self.course.progress.dropped.fetch_add(left, Relaxed);
        self.course.progress.waiting.fetch_sub(left, Relaxed);
    }
}

/// Makes room for another user when one is lost to a panic.
struct Gone<'a>(&'a Lane);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().room += 1;
    }
}

impl Queue {
    fn end(&self) -> Instant {
        self.begin + self.schedule.end()
    }

    fn plan_next(&mut self) {
        self.next_due = self.schedule.due(self.next).map(|due| self.begin + due);
    }

    /// Whether arrivals may begin when a user has just become free.
    fn is_open(&self, now: Instant) -> bool {
        !self.closed && now < self.end()
    }

    fn is_over(&self, now: Instant) -> bool {
        let met = self.waiting.is_empty() && self.schedule.is_met_before(self.next);
        met || !self.is_open(now)
    }

    /// When the pacer has something to do again.
    fn wake(&self, now: Instant) -> Instant {
        match self.next_due {
            Some(due) => due.min(self.end()),
            None if self.waiting.is_empty() => self.end(),
            // Users take what waits as they become free; look whether they have.
            None => (now + Duration::from_millis(50)).min(self.end()),
        }
    }
}

/// Waits for the tasks, for `patience` at most or until a halt wants it quicker;
/// then cuts them off.
pub(crate) async fn drain(
    orders: &mut watch::Receiver<Orders>,
    tasks: &mut JoinSet<()>,
    patience: Duration,
) {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        () = tokio::time::sleep(patience) => {}
        _ = orders.wait_for(|orders| orders.halt == Halt::Now) => {}
    }
    tasks.shutdown().await;
}
