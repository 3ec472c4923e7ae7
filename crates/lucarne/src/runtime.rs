//! Runtime and resource limits of the process.

use std::time::Duration;

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Builder;

/// Time after which an idle thread for blocking work ends.
///
/// Each thread keeps a few megabytes for its next allocations. The runtime gives work to its idle
/// threads in turn. With its default of ten seconds, all threads of one burst stay for as long as
/// there is any work: after a restart under 500 submissions per second, a log had 43 threads and
/// 239 MiB. With 200 ms, it had 11 threads and 89 MiB.
const IDLE_THREAD: Duration = Duration::from_millis(200);

/// Runs `future` to its end.
///
/// Each core of the process has one thread for tasks. Blocking work (files, the dedup index) has
/// separate threads. Operations that may hang limit their own number of threads, to about 20 for
/// each log, so that a hung log does not exhaust the common limit. Hung threads do not delay the
/// end.
///
/// # Errors
/// The error of the future, or if the system cannot create threads.
pub(crate) fn run<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = builder().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from))
        .max_blocking_threads(1024)
        .thread_keep_alive(IDLE_THREAD)
        .thread_name("lucarne")
        .enable_all();
    builder
}

/// Runs `future` to its end on this thread only.
///
/// # Errors
/// The error of the future, or if the runtime cannot be created.
pub(crate) fn run_here<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(future)
}

/// Raises the limit of open files to the maximum for unprivileged processes, because each
/// connection needs a file. Returns the new limit, if there is one.
pub(crate) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use futures_util::future::join_all;
    use tokio::task::spawn_blocking;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Number of blocking operations that run at the same time.
    const BURST: usize = 64;

    #[test]
    fn threads_of_a_burst_end_under_steady_work() {
        let steady = async {
            let together = Arc::new(Barrier::new(BURST));
            let burst = (0..BURST).map(|_| {
                let together = together.clone();
                spawn_blocking(move || together.wait())
            });
            join_all(burst).await;
            loop {
                let mut threads = HashSet::new();
                for _ in 0..BURST {
                    threads.insert(spawn_blocking(|| thread::current().id()).await.unwrap());
                    // The pace of the work: more time only lets more threads end.
                    sleep(Duration::from_millis(10)).await;
                }
                if threads.len() < BURST / 2 {
                    return;
                }
            }
        };
        let runtime = builder().build().unwrap();
        let ended = runtime.block_on(async { timeout(Duration::from_secs(60), steady).await });
        ended.expect("the threads of the burst still share the work");
    }
}
