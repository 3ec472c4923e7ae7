//! Threads that execute iterations.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::arrival_rate::ArrivalRateExecutor;
use super::scenario_state::ScenarioState;
use super::vus::VusExecutor;
use crate::{Part, Recorder};

/// A thread with its own runtime and a part of the users.
pub(crate) struct Worker {
    begin: mpsc::Sender<Instant>,
    /// Completes when the last iteration of the worker has finished.
    pub(crate) over: oneshot::Receiver<io::Result<()>>,
    thread: JoinHandle<()>,
}

/// Executor of one scenario on this worker.
enum Executor {
    ArrivalRate(Arc<ArrivalRateExecutor>, Arc<ScenarioState>),
    Vus(Arc<VusExecutor>, Arc<ScenarioState>),
}

impl Worker {
    /// Starts the thread, creates the initial users, and returns when it is ready. `recorders` are
    /// in the order of `scenarios`.
    pub(crate) fn new(
        scenarios: Vec<Arc<ScenarioState>>,
        recorders: Vec<Recorder>,
        part: Part,
    ) -> io::Result<Self> {
        let (begin, begun) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (finished, over) = oneshot::channel();
        let builder = std::thread::Builder::new().name("load".into());
        let thread = builder.spawn(move || {
            let result = runtime().and_then(|runtime| {
                // Users may need the runtime when they are created.
                let _inside = runtime.enter();
                let executors = executors(scenarios, recorders, part);
                let _ = ready.send(());
                match begun.recv() {
                    Ok(begin) => runtime.block_on(run(executors, begin)),
                    Err(_) => Ok(()),
                }
            });
            let _ = finished.send(result);
        })?;
        // An error means that the runtime could not be created: `over` reports it.
        let _ = is_ready.recv();
        Ok(Worker {
            begin,
            over,
            thread,
        })
    }

    pub(crate) fn begin(&self, at: Instant) {
        let _ = self.begin.send(at);
    }

    pub(crate) fn join(self) {
        drop(self.begin);
        let _ = self.thread.join();
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn executors(
    scenarios: Vec<Arc<ScenarioState>>,
    recorders: Vec<Recorder>,
    part: Part,
) -> Vec<Executor> {
    let executors = scenarios
        .into_iter()
        .zip(recorders)
        .map(
            |(state, recorder)| match state.config.executor.arrival_rate().cloned() {
                Some(options) => Executor::ArrivalRate(
                    ArrivalRateExecutor::new(state.clone(), &options, recorder, part),
                    state,
                ),
                None => Executor::Vus(VusExecutor::new(state.clone(), recorder, part), state),
            },
        );
    executors.collect()
}

async fn run(executors: Vec<Executor>, begin: Instant) -> io::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for executor in executors {
        match executor {
            Executor::ArrivalRate(executor, state) => {
                tasks.spawn(executor.run(begin + state.config.start))
            }
            Executor::Vus(executor, state) => tasks.spawn(async move {
                executor.run(begin + state.config.start).await;
                Ok(())
            }),
        };
    }
    let all = async {
        while let Some(over) = tasks.join_next().await {
            over.map_err(io::Error::other)??;
        }
        Ok(())
    };
    tokio::select! {
        over = all => over,
        () = tick() => Ok(()),
    }
}

/// Keeps a timer that always fires before the timers of requests. Otherwise the timeout of a single
/// request would be the next timer. Tokio would wake its own thread to register this timer, with a
/// system call and another round of polling.
async fn tick() {
    loop {
        // Shorter than the timeout of requests, and long enough to cost nothing.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
