//! A process whose every change to files is seen, counted, recorded and, one of
//! them, struck: it is traced as a debugger traces (`ptrace(2)`), so that nothing
//! between it and the kernel is missed, whatever library asks.
//!
//! On x86-64 Linux only: a system call is changed by its registers.

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

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The process is killed and the call never made.
    KillBefore,
    /// The process is killed once the call is made, before it knows.
    KillAfter,
    /// The call is not made, and fails so.
    Fail(Errno),
    /// The call is made, and fails so all the same.
    FailAfter(Errno),
    /// Half of what is written is written. A call that writes nothing fails with
    /// EIO.
    Short,
    /// The call is made this much later; its thread waits, and no other.
    Late(Duration),
}

/// The calls that are meant, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Changes to files and directories below this one are seen.
    pub below: PathBuf,
    /// Of these, those that are counted.
    pub counted: fn(&Change) -> bool,
    /// The number of the call that is struck, from 1, of those that are counted.
    pub strike: Option<(u64, Strike)>,
    /// Each change is kept, with all its bytes.
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

/// Returns whether the system lets this user trace. If not, the test is skipped, and
/// this function has said so.
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

/// What the tracer sees.
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
    /// Starts it without waiting for anything, traced.
    ///
    /// # Errors
    /// It cannot be started, or the system lets nobody trace.
    pub fn trace(&self, plan: Plan) -> Result<Traced> {
        let command = self.stopped_at_first();
        let (shared, output) = (Arc::new(Shared::default()), Output::default());
        let (report, started) = mpsc::channel();
        let seen = (shared.clone(), output.clone());
        // The system reports what a traced process does to the thread that traces it.
        let tracer = thread::spawn(move || follow::follow(command, plan, &seen.0, &seen.1, report));
        let Ok(pid) = started.recv() else {
            let failed = tracer.join().map_err(|_| anyhow::anyhow!("it panicked"))?;
            return Err(failed.err().context("the tracer ended without a word")?);
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
    /// Returns the number of changes that counted so far.
    pub fn calls(&self) -> u64 {
        self.shared.seen().calls
    }

    /// Returns the call that was struck, once it was.
    pub fn struck(&self) -> Option<String> {
        self.shared.seen().struck.clone()
    }

    /// Returns all that it has printed so far.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Returns its exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.shared.seen().ended
    }

    /// SIGKILL, and all that was recorded.
    ///
    /// # Errors
    /// The tracer failed.
    pub fn kill(mut self) -> Result<Vec<Recorded>> {
        let _ = kill(self.pid, Signal::SIGKILL);
        self.finish()
    }

    /// SIGTERM, and its exit status and all that was recorded.
    ///
    /// # Errors
    /// It did not end in time, and was killed: with all that it printed.
    pub fn stop(mut self, patience: Duration) -> Result<(ExitStatus, Vec<Recorded>)> {
        let _ = kill(self.pid, Signal::SIGTERM);
        let deadline = Instant::now() + patience;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                bail!("it did not end within {patience:?}:\n{}", self.output());
            }
            pause();
        }
        let recorded = self.finish()?;
        Ok((self.ended().context("it has ended")?, recorded))
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
