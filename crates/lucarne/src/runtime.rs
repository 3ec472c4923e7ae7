//! Runtime and resource limits of the process.

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from))
        .max_blocking_threads(1024)
        .thread_name("lucarne")
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

/// Runs `future` to its end on this thread only.
///
/// # Errors
/// The error of the future, or if the runtime cannot be created.
pub(crate) fn run_here<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
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
