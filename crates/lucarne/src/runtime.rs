//! What the process asks of the operating system.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Threads that run tasks: one for each core that the process may use.
/// Blocking work (files, the dedup index) has threads of its own, whose number
/// is bounded because memory is.
pub(crate) fn build() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from))
        .max_blocking_threads(64)
        .thread_name("lucarne")
        .enable_all()
        .build()
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
