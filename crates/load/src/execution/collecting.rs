//! Thread that collects samples each second.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::Execution;
use super::collector::Collector;
use super::run_state::{RunState, StopReason};
use super::scenario_state::{ScenarioState, StopMode};
use super::summarise::{RunTimes, summarise};
use crate::exposition::Exposition;
use crate::samples::SampleBuffer;
use crate::snapshot::{Phase, Snapshot};

impl Execution {
    /// Starts the thread that collects samples; `shard` has the samples outside the workers.
    pub(super) fn collect(
        &self,
        mut times: RunTimes,
        mut shards: Vec<Arc<SampleBuffer>>,
        shard: &Arc<SampleBuffer>,
    ) -> Collecting {
        shards.push(shard.clone());
        let thresholds = self.options.thresholds.clone();
        let scenarios = self.run_state.scenarios.clone();
        let mut collector = Collector::new(
            scenarios,
            self.registry.clone(),
            shards,
            thresholds,
            times.begin,
        );
        collector.exposition = self.options.exposed.then(Exposition::default);
        let (phases, told) = mpsc::channel();
        let (snapshots, run_state) = (self.snapshots.clone(), self.run_state.clone());
        let empty = self.options.summarised.then(|| self.empty());
        let thread = std::thread::spawn(move || {
            let publish = |collector: &Collector, mut snapshot: Snapshot| {
                snapshot.summary = empty.clone().map(|empty| {
                    times.end_now();
                    Arc::new(summarise(collector, &times, empty))
                });
                snapshots.send_replace(Arc::new(snapshot));
            };
            collect_each_second(&mut collector, &told, publish, &run_state);
            collector
        });
        Collecting { phases, thread }
    }
}

/// Thread that collects samples.
pub(super) struct Collecting {
    phases: mpsc::Sender<Phase>,
    thread: std::thread::JoinHandle<Collector>,
}

impl Collecting {
    pub(super) fn say(&self, phase: Phase) {
        let _ = self.phases.send(phase);
    }

    pub(super) fn over(self) -> Option<Collector> {
        drop(self.phases);
        self.thread.join().ok()
    }
}

/// Collects samples every second, and publishes a snapshot, until the sender of phases is dropped.
fn collect_each_second(
    collector: &mut Collector,
    phases: &mpsc::Receiver<Phase>,
    mut publish: impl FnMut(&Collector, Snapshot),
    run_state: &RunState,
) {
    let mut tick = 1;
    loop {
        let next = collector.begin + Duration::from_secs(tick);
        match phases.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(phase) => {
                // The rest of the last interval still belongs to the load.
                collector.collect(Instant::now());
                collector.phase = phase;
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if collector.phase == Phase::Running && has_ended(collector, run_state, now) {
            collector.phase = Phase::Stopping;
        }
        let snapshot = collector.collect(now);
        if !collector.aborted.is_empty() {
            run_state.stop(StopMode::Gracefully, StopReason::Threshold);
        }
        publish(collector, snapshot);
        // A missed second is not repeated.
        tick = now.saturating_duration_since(collector.begin).as_secs() + 1;
    }
}

fn has_ended(collector: &Collector, run_state: &RunState, now: Instant) -> bool {
    let ended = |state: &Arc<ScenarioState>| state.end().is_some_and(|end| end <= now);
    run_state.is_stopping() || collector.scenarios.iter().all(ended)
}
