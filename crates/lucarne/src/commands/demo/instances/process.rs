//! One instance: a process of `lucarne serve`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::process::Child;

use super::client::Client;

/// Delay before a stopped instance is restarted, similar to the delay of a service manager.
const AGAIN: Duration = Duration::from_secs(5);

/// Role that an instance reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The instance sequences.
    Leads,
    /// The instance forwards submissions and serves reads.
    Follows,
    /// The instance responds, and has no role yet.
    Starts,
    /// The instance does not respond.
    Away,
}

impl Part {
    pub(super) fn words(self) -> &'static str {
        match self {
            Part::Leads => "leads",
            Part::Follows => "follows",
            Part::Starts => "is starting",
            Part::Away => "does not respond",
        }
    }
}

/// Observed state of an instance.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Number of the instance, from 1.
    pub(super) number: usize,
    /// Address for clients.
    pub(super) address: String,
    pub(super) pid: Option<u32>,
    pub(super) part: Part,
    /// Size of the tree that the instance shows.
    pub(super) size: Option<u64>,
}

/// Process of an instance.
pub(super) struct Process {
    directory: PathBuf,
    child: Option<Child>,
    /// Time at which the last process ended.
    ended: Option<Instant>,
    client: Client,
    /// Path of the log's checkpoint.
    checkpoint: String,
}

impl Process {
    /// Creates an instance without starting it. `log` is the path of the log on the server, with a
    /// trailing slash.
    pub(super) fn new(directory: &Path, client: Client, log: &str) -> Self {
        Process {
            directory: directory.to_owned(),
            child: None,
            ended: None,
            client,
            checkpoint: format!("{log}checkpoint"),
        }
    }

    /// Restarts the process after [`AGAIN`], and reads its state. Returns the exit status in the
    /// first call after the process has ended.
    pub(super) async fn look(&mut self, standing: &Mutex<Standing>) -> Result<Option<ExitStatus>> {
        let ended = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if ended.is_some() {
            (self.child, self.ended) = (None, Some(Instant::now()));
        }
        let (number, address) = {
            let standing = standing.lock();
            (standing.number, standing.address.clone())
        };
        let is_due = self.ended.is_none_or(|ended| ended.elapsed() >= AGAIN);
        if self.child.is_none() && is_due {
            self.child = Some(self.start(number)?);
        }
        let part = self.part(&address).await;
        let size = self.size(&address).await;
        let mut standing = standing.lock();
        standing.pid = self.child.as_ref().and_then(Child::id);
        (standing.part, standing.size) = (part, size);
        Ok(ended)
    }

    fn start(&self, number: usize) -> Result<Child> {
        let path = self.directory.join(format!("instance{number}.log"));
        let mut options = File::options();
        let log = options.create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot open {}", path.display()))?;
        super::command(&self.directory, "serve", number)?
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            // Ctrl-C signals only the demo, which stops the instances.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start instance {number}"))
    }

    async fn part(&self, address: &str) -> Part {
        let Some(health) = self.client.get(&format!("http://{address}/health")).await else {
            return Part::Away;
        };
        let health: serde_json::Value = serde_json::from_slice(&health).unwrap_or_default();
        match health["logs"][0]["state"].as_str() {
            Some("running") => Part::Leads,
            Some("following") => Part::Follows,
            _ => Part::Starts,
        }
    }

    async fn size(&self, address: &str) -> Option<u64> {
        let url = format!("http://{address}{}", self.checkpoint);
        let note = self.client.get(&url).await?;
        std::str::from_utf8(&note)
            .ok()?
            .lines()
            .nth(1)?
            .parse()
            .ok()
    }

    /// Stops the process with SIGTERM, so that another instance takes over.
    pub(super) async fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    }
}
