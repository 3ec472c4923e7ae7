//! Tracing of a process: every change to files is observed, counted and recorded, and a fault can
//! be injected into one change. The tracer uses `ptrace(2)` like a debugger, so that no system call
//! of any library is missed.
//!
//! Only for x86-64 Linux, because system calls are changed through registers.

mod call;
mod change;
mod follow;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use change::{Change, Recorded};

use crate::Launch;
use crate::server::Output;
use crate::wait::pause;

/// The fault to inject into one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Kills the process before the call.
    KillBefore,
    /// Kills the process after the call, before the process gets the result.
    KillAfter,
    /// Skips the call and returns this error.
    Fail(Errno),
    /// Executes the call, but returns this error.
    FailAfter(Errno),
    /// Writes half of the data. Calls that write no data fail with EIO.
    Short,
    /// Delays the call; only its thread waits.
    Late(Duration),
}

/// The calls to observe, and the fault to inject.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Changes to files and directories below this directory are observed.
    pub below: PathBuf,
    /// Selects the changes that are counted.
    pub counted: fn(&Change) -> bool,
    /// The number of the counted call that gets the fault, starting at 1.
    pub strike: Option<(u64, Strike)>,
    /// Whether each change is recorded with all its bytes.
    pub record: bool,
}

/// A traced process, killed when this value is dropped.
#[derive(Debug)]
pub struct Traced {
    pid: Pid,
    shared: Arc<Shared>,
    output: Output,
    tracer: Option<JoinHandle<Result<()>>>,
}

/// Returns `true` if the system permits this user to trace. Otherwise prints that the test is
/// skipped.
pub fn tracing_is_permitted() -> bool {
    let plan = Plan {
        below: PathBuf::from("/"),
        counted: |_| false,
        strike: None,
        record: false,
    };
    let traced = Launch::new("true").trace(plan);
    if let Err(error) = &traced {
        println!("skipped: tracing is not permitted here: {error:#}");
    }
    traced.is_ok()
}

/// The state that the tracer updates.
#[derive(Debug, Default)]
struct Shared(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    struck: Option<String>,
    recorded: Vec<Recorded>,
    ended: Option<ExitStatus>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launch {
    /// Starts the process with tracing, without waiting.
    ///
    /// # Errors
    /// If the process cannot be started, or if tracing is not permitted.
    pub fn trace(&self, plan: Plan) -> Result<Traced> {
        let command = self.stopped_at_first();
        let (shared, output) = (Arc::new(Shared::default()), Output::default());
        let (report, started) = mpsc::channel();
        let seen = (shared.clone(), output.clone());
        // The kernel reports events of a traced process to the tracing thread.
        let tracer = thread::spawn(move || follow::follow(command, plan, &seen.0, &seen.1, report));
        let Ok(pid) = started.recv() else {
            let failed = tracer
                .join()
                .map_err(|_| anyhow::anyhow!("the tracer panicked"))?;
            return Err(failed.err().context("the tracer ended without an error")?);
        };
        Ok(Traced {
            pid,
            shared,
            output,
            tracer: Some(tracer),
        })
    }
}

impl Traced {
    /// Returns the number of counted changes so far.
    pub fn calls(&self) -> u64 {
        self.shared.seen().calls
    }

    /// Returns a description of the call that got the fault; `None` until the fault is injected.
    pub fn struck(&self) -> Option<String> {
        self.shared.seen().struck.clone()
    }

    /// Returns the whole output so far.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.shared.seen().ended
    }

    /// Sends SIGKILL and returns all records.
    ///
    /// # Errors
    /// If the tracer failed.
    pub fn kill(mut self) -> Result<Vec<Recorded>> {
        let _ = kill(self.pid, Signal::SIGKILL);
        self.finish()
    }

    /// Sends SIGTERM and returns the exit status and all records.
    ///
    /// # Errors
    /// If the process did not end in time, and was killed; the message has the output of the
    /// process.
    pub fn stop(mut self, patience: Duration) -> Result<(ExitStatus, Vec<Recorded>)> {
        let _ = kill(self.pid, Signal::SIGTERM);
        let deadline = Instant::now() + patience;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                bail!(
                    "the process did not end within {patience:?}:\n{}",
                    self.output()
                );
            }
            pause();
        }
        let recorded = self.finish()?;
        Ok((
            self.ended().context("the process has no exit status")?,
            recorded,
        ))
    }

    fn finish(&mut self) -> Result<Vec<Recorded>> {
        if let Some(tracer) = self.tracer.take() {
            let traced = tracer.join();
            traced.map_err(|_| anyhow::anyhow!("the tracer panicked"))??;
        }
        Ok(std::mem::take(&mut self.shared.seen().recorded))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = self.finish();
    }
}
