//! Low scheduling priority for background threads, because submissions and reads must not wait for
//! them.

/// Added to a thread's nice value: on a busy processor, the thread gets about a tenth of the time.
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread.
pub(crate) fn lower_priority() {
    // On Linux each thread has its own nice value. A failure is harmless.
    let _ = rustix::process::nice(NICENESS);
}
