//! The threads that carry out iterations.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::Recorder;
use crate::course::Course;
use crate::crowd::Crowd;
use crate::lane::Lane;

/// A thread with a runtime of its own, where some of the users live.
pub(crate) struct Worker {
    begin: mpsc::Sender<Instant>,
    /// Resolves when its last iteration is over.
    pub(crate) over: oneshot::Receiver<io::Result<()>>,
    thread: JoinHandle<()>,
}

enum Part {
    Open(Arc<Lane>, Arc<Course>),
    Closed(Arc<Crowd>, Arc<Course>),
}

impl Worker {
    /// Starts the thread, makes the users that there shall be from the beginning,
    /// and returns when it is ready. `recorders` are in the order of `courses`.
    pub(crate) fn new(
        courses: Vec<Arc<Course>>,
        recorders: Vec<Recorder>,
        worker: u64,
        workers: u64,
    ) -> io::Result<Self> {
        let (begin, begun) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (finished, over) = oneshot::channel();
        let builder = std::thread::Builder::new().name(format!("load-{worker}"));
        let thread = builder.spawn(move || {
            let result = runtime().and_then(|runtime| {
                // Users may want the runtime when they are made.
                let _inside = runtime.enter();
                let parts = parts(courses, recorders, worker, workers);
                let _ = ready.send(());
                match begun.recv() {
                    Ok(begin) => runtime.block_on(run(parts, begin)),
                    Err(_) => Ok(()),
                }
            });
            let _ = finished.send(result);
        })?;
        // An error means that it could not make its runtime: `over` says so.
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

fn parts(
    courses: Vec<Arc<Course>>,
    recorders: Vec<Recorder>,
    worker: u64,
    workers: u64,
) -> Vec<Part> {
    let parts = courses
        .into_iter()
        .zip(recorders)
        .map(
            |(course, recorder)| match course.plan.arrivals.open().cloned() {
                Some(open) => Part::Open(
                    Lane::new(course.clone(), &open, recorder, worker, workers),
                    course,
                ),
                None => Part::Closed(
                    Crowd::new(course.clone(), recorder, worker, workers),
                    course,
                ),
            },
        );
    parts.collect()
}

async fn run(parts: Vec<Part>, begin: Instant) -> io::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for part in parts {
        match part {
            Part::Open(lane, course) => tasks.spawn(lane.run(begin + course.plan.start)),
            Part::Closed(crowd, course) => tasks.spawn(async move {
                crowd.run(begin + course.plan.start).await;
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

/// Keeps a timer that ends before those of requests do, for ever. Without it the timeout of a
/// request that is alone is the first to end, and tokio wakes its own thread, by a system call
/// and another round of polling, to take notice of it.
async fn tick() {
    loop {
        // Shorter than requests may take, and too long to cost anything.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
