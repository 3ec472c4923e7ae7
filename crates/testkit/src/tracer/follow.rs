//! The tracer's loop: each thread of the process stops before and after each of its system calls,
//! and is then resumed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::call::Call;
use super::{Change, Plan, Recorded, Shared, Strike};
use crate::server::Output;

/// Runs the command to its end. The command stops itself before it starts the program.
pub(super) fn follow(
    mut command: Command,
    plan: Plan,
    shared: &Shared,
    output: &Output,
    report: Sender<Pid>,
) -> Result<()> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let readers = [
        child.stdout.take().map(|pipe| output.collect(pipe)),
        child.stderr.take().map(|pipe| output.collect(pipe)),
    ];
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace::seize(pid, options) {
        child.kill()?;
        child.wait()?;
        return Err(error).context("tracing a child is not permitted here (ptrace)");
    }
    kill(pid, Signal::SIGCONT)?;
    let _ = report.send(pid);
    let mut tracer = Tracer {
        process: pid,
        plan,
        shared,
        begun: HashMap::new(),
        held: Vec::new(),
    };
    let ended = tracer.run()?;
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    shared.seen().ended = Some(ended);
    Ok(())
}

struct Tracer<'s> {
    process: Pid,
    plan: Plan,
    shared: &'s Shared,
    /// Started calls of each thread.
    begun: HashMap<Pid, Begun>,
    /// Threads to resume later.
    held: Vec<(Instant, Pid)>,
}

/// A started call.
struct Begun {
    change: Change,
    at: Instant,
    after: usize,
    strike: Option<Strike>,
}

impl Tracer<'_> {
    fn run(&mut self) -> Result<ExitStatus> {
        // Only children traced by this thread: other threads have their own children.
        let mine = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            self.let_go()?;
            let flags = if self.held.is_empty() {
                mine
            } else {
                mine | WaitPidFlag::WNOHANG
            };
            match waitpid(None, Some(flags))? {
                WaitStatus::PtraceSyscall(thread) => self.call(thread)?,
                WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal))?,
                WaitStatus::PtraceEvent(thread, ..) => go_on(thread, None)?,
                WaitStatus::Exited(pid, code) if pid == self.process => {
                    return Ok(ExitStatus::from_raw(code << 8));
                }
                WaitStatus::Signaled(pid, signal, _) if pid == self.process => {
                    return Ok(ExitStatus::from_raw(signal as i32));
                }
                // The polling interval. The traced threads wait during this time.
                WaitStatus::StillAlive => thread::sleep(Duration::from_millis(1)),
                _ => {}
            }
        }
    }

    /// Resumes threads whose delay has ended.
    fn let_go(&mut self) -> Result<()> {
        let now = Instant::now();
        for (_, thread) in self.held.extract_if(.., |(at, _)| *at <= now) {
            go_on(thread, None)?;
        }
        Ok(())
    }

    /// Handles a thread that stops before or after a call.
    fn call(&mut self, thread: Pid) -> Result<()> {
        let until = match self.step(thread) {
            Ok(until) => until,
            // The thread was killed in the meantime.
            Err(Errno::ESRCH) => None,
            Err(error) => return Err(error.into()),
        };
        match until {
            None => go_on(thread, None),
            Some(until) => {
                self.held.push((until, thread));
                Ok(())
            }
        }
    }

    fn step(&mut self, thread: Pid) -> nix::Result<Option<Instant>> {
        match ptrace::syscall_info(thread)?.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => self.begin(thread),
            libc::PTRACE_SYSCALL_INFO_EXIT => self.end(thread).map(|()| None),
            _ => Ok(None),
        }
    }

    fn begin(&mut self, thread: Pid) -> nix::Result<Option<Instant>> {
        let arguments = ptrace::getregs(thread)?;
        let call = Call { thread, arguments };
        let Some(change) = call
            .change(self.plan.record)
            .filter(|change| self.is_meant(change))
        else {
            return Ok(None);
        };
        let mut seen = self.shared.seen();
        let counts = (self.plan.counted)(&change);
        seen.calls += u64::from(counts);
        let strike = self.plan.strike.filter(|(n, _)| counts && *n == seen.calls);
        let strike = strike.map(|(_, strike)| strike);
        if strike.is_some() {
            seen.struck = Some(change.to_string());
        }
        let after = seen.recorded.len();
        drop(seen);
        let until = match strike {
            Some(strike) => self.strike(&call, &change, strike)?,
            None => None,
        };
        let at = Instant::now();
        self.begun.insert(
            thread,
            Begun {
                change,
                at,
                after,
                strike,
            },
        );
        Ok(until)
    }

    /// Applies the fault to a call that has not been made yet.
    fn strike(&self, call: &Call, change: &Change, strike: Strike) -> nix::Result<Option<Instant>> {
        let mut changed = call.arguments;
        match strike {
            Strike::KillBefore => kill(self.process, Signal::SIGKILL)?,
            // There is no call with this number.
            Strike::Fail(_) => changed.orig_rax = u64::MAX,
            Strike::Short if matches!(change, Change::Write { .. }) => {
                // A write of several parts keeps the first half of the parts.
                changed.rdx = (changed.rdx / 2).max(1);
            }
            Strike::Short => changed.orig_rax = u64::MAX,
            Strike::Late(time) => return Ok(Some(Instant::now() + time)),
            Strike::KillAfter | Strike::FailAfter(_) => {}
        }
        if changed != call.arguments {
            ptrace::setregs(call.thread, changed)?;
        }
        Ok(None)
    }

    fn end(&mut self, thread: Pid) -> nix::Result<()> {
        let Some(begun) = self.begun.remove(&thread) else {
            return Ok(());
        };
        let mut registers = ptrace::getregs(thread)?;
        let made = registers.rax as i64;
        let lost = begun.change.is_sync() && matches!(begun.strike, Some(Strike::Fail(_)));
        if made >= 0 || lost {
            self.record(thread, &begun, made as u64, lost);
        }
        let failed = match begun.strike {
            Some(Strike::KillAfter) => {
                kill(self.process, Signal::SIGKILL)?;
                None
            }
            Some(Strike::Fail(error) | Strike::FailAfter(error)) => Some(error),
            Some(Strike::Short) if !matches!(begun.change, Change::Write { .. }) => {
                Some(Errno::EIO)
            }
            _ => None,
        };
        if let Some(error) = failed {
            registers.rax = -i64::from(error as i32) as u64;
            ptrace::setregs(thread, registers)?;
        }
        Ok(())
    }

    /// Records a call that was made and returned `returned`, or a sync that `failed`.
    fn record(&self, thread: Pid, begun: &Begun, returned: u64, failed: bool) {
        if !self.plan.record {
            return;
        }
        let mut change = begun.change.clone();
        match &mut change {
            Change::Create { inode, path } => {
                // Another thread may have closed the descriptor; the name still exists.
                let fd = format!("/proc/{thread}/fd/{returned}");
                let status = std::fs::metadata(fd).or_else(|_| std::fs::metadata(path));
                *inode = status.map_or(0, |status| status.ino());
            }
            Change::Write { bytes, .. } => bytes.truncate(returned as usize),
            _ => {}
        }
        self.shared.seen().recorded.push(Recorded {
            change,
            begun: begun.at,
            after: begun.after,
            failed,
        });
    }

    fn is_meant(&self, change: &Change) -> bool {
        let path = match change {
            Change::Create { path, .. }
            | Change::Write { path, .. }
            | Change::Resize { path, .. }
            | Change::Remove { path }
            | Change::MakeDirectory { path }
            | Change::RemoveDirectory { path }
            | Change::Sync { path, .. }
            | Change::Rename { to: path, .. }
            | Change::Link { to: path, .. } => path,
            Change::SyncAll => return true,
        };
        path.starts_with(&self.plan.below)
    }
}

/// Resumes a thread until its next call. A thread that was killed in the meantime is reported
/// separately.
fn go_on(thread: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::syscall(thread, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
