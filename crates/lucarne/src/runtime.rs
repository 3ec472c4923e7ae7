//! The things that the process asks of the operating system.

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs `future` to its end.
///
/// One thread runs tasks for each core that the process may use. Blocking work
/// (files, the dedup index) has threads of its own. Whatever may hang bounds how
/// many it takes by itself, some 20 for each log, so that this bound, which all
/// share, is never what one log waits for because of another; what hangs is not
/// waited for at the end.
///
/// # Errors
/// That of the future, or if the system gives no threads.
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

/// Runs `future` to its end on this thread alone.
///
/// # Errors
/// That of the future, or if the system does not help.
pub(crate) fn run_here<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(future)
}

/// Raises the limit of open files as far as it goes without privileges:
/// every connection is one. Returns the limit now in force, if there is one.
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
