//! Counts the sync operations of a process with strace, if strace is installed.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

const CALLS: [&str; 6] = [
    "fsync",
    "fdatasync",
    "sync_file_range",
    "syncfs",
    "sync",
    "msync",
];

/// strace, attached to a process. strace slows the process down: do not measure anything else at
/// the same time.
pub(crate) struct Counter {
    strace: Child,
    report: PathBuf,
}

impl Counter {
    /// Attaches strace. Returns `None` if strace is not installed or not permitted to attach.
    pub(crate) fn attach(pid: u32, directory: &std::path::Path) -> Option<Self> {
        let report = directory.join("strace.txt");
        let mut strace = Command::new("strace")
            .args(["-f", "-c", "-e", &format!("trace={}", CALLS.join(","))])
            .arg("-o")
            .arg(&report)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        thread::sleep(Duration::from_millis(500));
        match strace.try_wait() {
            Ok(None) => Some(Self { strace, report }),
            _ => None,
        }
    }

    /// Detaches strace, and returns the number of sync operations of each kind.
    pub(crate) fn finish(mut self) -> Result<Vec<(String, u64)>> {
        let pid = rustix::process::Pid::from_child(&self.strace);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        self.strace.wait()?;
        let text = std::fs::read_to_string(&self.report)
            .with_context(|| format!("strace left no {}", self.report.display()))?;
        Ok(text.lines().filter_map(counted).collect())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // A failed run must not leave strace attached. SIGKILL is safe for the traced process: it
        // continues untraced.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// Parses a line of `strace -c`: `% time, seconds, µs/call, calls, [errors,] name`.
fn counted(line: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = *words.last()?;
    let calls = words.get(3)?.parse().ok()?;
    CALLS.contains(&name).then(|| (name.to_owned(), calls))
}
