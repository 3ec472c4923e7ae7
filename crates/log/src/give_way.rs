//! Threads that give way to all others of the machine: what they do can wait, and those who submit
//! and read cannot.

/// Added to a thread's nice value: of a processor that all want, a tenth is left to it.
const NICENESS: i32 = 10;

/// Has the thread that calls it give way from then on.
pub(crate) fn give_way() {
    // On Linux the nice value is a thread's own. Where it cannot be changed, all goes on as well.
    let _ = rustix::process::nice(NICENESS);
}
