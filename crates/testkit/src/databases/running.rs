//! Start, stop and suspension of a database server.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{DatabaseKind, DatabaseServer};
use crate::{Server, wait::pause};

/// Timeout for creating the files of a server, starting it or stopping it.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

impl DatabaseServer {
    /// Restarts the server with additional settings (`name=value`), which apply until the next
    /// restart.
    ///
    /// # Errors
    /// If the server does not stop or does not start.
    pub fn restart(&mut self, settings: &[&str]) -> Result<()> {
        self.stop()?;
        self.begin(settings)
    }

    /// Stops the server cleanly and closes its connections.
    ///
    /// # Errors
    /// If the server does not stop.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            // PostgreSQL waits for its clients after SIGTERM.
            server.signal(match self.kind {
                DatabaseKind::MariaDb => Signal::TERM,
                DatabaseKind::Postgres => Signal::INT,
            })?;
            server.wait(SERVER_TIMEOUT)?;
        }
        Ok(())
    }

    /// Sends SIGKILL to all processes of the server.
    ///
    /// # Errors
    /// Only if the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        // Child processes keep the output of the server open. `Server::kill` reads the output to
        // its end, so the children must be killed first.
        let _ = self.signal_all(Signal::KILL);
        if let Some(mut server) = self.server.take() {
            server.kill()?;
        }
        Ok(())
    }

    /// Starts the server after [`stop`](Self::stop) or [`kill`](Self::kill).
    ///
    /// # Errors
    /// If the server does not start.
    pub fn begin(&mut self, settings: &[&str]) -> Result<()> {
        let deadline = Instant::now() + SERVER_TIMEOUT;
        loop {
            match self.launch(settings)?.start(self.address) {
                Ok(server) => {
                    self.server = Some(server);
                    break;
                }
                // Processes of the earlier server may take a moment to end.
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => pause(),
            }
        }
        while let Err(error) = self.admin("", "SELECT 1") {
            ensure!(
                Instant::now() < deadline,
                "the server is not ready: {error}"
            );
            // Polled, because a server listens before it responds.
            pause();
        }
        Ok(())
    }

    /// Suspends all processes of the server (SIGSTOP): connections stay open, but there are no
    /// responses.
    ///
    /// # Errors
    /// If the server is down, or cannot be suspended.
    pub fn freeze(&mut self) -> Result<()> {
        self.signal_all(Signal::STOP)?;
        // A thread on another processor continues for a moment, and may still respond.
        let deadline = Instant::now() + SERVER_TIMEOUT;
        while !self.is_frozen() {
            ensure!(
                Instant::now() < deadline,
                "the server still runs after SIGSTOP"
            );
            pause();
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        let server = self.server.as_ref().map(Server::pid);
        let children = self
            .children()
            .into_iter()
            .map(|pid| pid.as_raw_pid() as u32);
        server.into_iter().chain(children).all(is_stopped)
    }

    /// Resumes the server.
    ///
    /// # Errors
    /// If the server is down.
    pub fn thaw(&mut self) -> Result<()> {
        self.signal_all(Signal::CONT)
    }

    fn signal_all(&mut self, signal: Signal) -> Result<()> {
        let children = self.children();
        self.server
            .as_mut()
            .context("the server is down")?
            .signal(signal)?;
        for child in children {
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    /// Returns the child processes: PostgreSQL has one for each connection, and some others.
    fn children(&self) -> Vec<Pid> {
        let pid = self.server.as_ref().map_or(0, Server::pid);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace();
        children
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect()
    }
}

/// Returns `true` if no thread of the process runs. This includes a process that has ended.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may contain any characters but ends at the last
        // parenthesis.
        let state = stat.rsplit(')').next().unwrap_or_default();
        state.trim_start().starts_with(['T', 't', 'Z', 'X']) || stat.is_empty()
    })
}
