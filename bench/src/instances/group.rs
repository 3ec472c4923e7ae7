//! The processes of one log: a single process, or several instances.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use lucarne_testkit::{Launch, Place, Server, TempDir, Usage, free_port, usage};
use serde_json::Value;

use crate::endpoint::Endpoint;

/// Name of the log, in its prefixes.
pub(super) const LOG: &str = "test";
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two requests for the state of an instance.
const POLL: Duration = Duration::from_millis(20);

/// Settings that all processes of a log share.
pub(super) struct Settings<'a> {
    pub(super) binary: &'a Path,
    pub(super) core: Option<usize>,
    pub(super) place: &'a Place,
    /// PEM of the accepted roots.
    pub(super) roots: &'a str,
    /// Milliseconds between two rounds.
    pub(super) period: u64,
}

/// All processes of a log.
pub(super) struct Group {
    directory: TempDir,
    binary: PathBuf,
    core: Option<usize>,
    environment: Vec<(&'static str, String)>,
    members: Vec<Member>,
}

struct Member {
    address: SocketAddr,
    file: String,
    server: Option<Server>,
}

impl Group {
    /// Creates a log with `count` processes, starts them, and waits until one process leads.
    pub(super) fn start(settings: &Settings<'_>, count: usize) -> Result<Self> {
        let directory = TempDir::new()?;
        let secret = |name: &str, bytes: &[u8]| -> Result<()> {
            let path = directory.path().join(name);
            fs::write(&path, bytes)?;
            Ok(fs::set_permissions(
                &path,
                fs::Permissions::from_mode(0o600),
            )?)
        };
        // Groups of different sizes may share a lock, so each size has its own key.
        secret("seed.bin", &[count as u8; 32])?;
        secret("instances.key", b"a key for measurements on loopback\n")?;
        fs::write(directory.path().join("roots.pem"), settings.roots)?;
        let mut group = Group {
            directory,
            binary: settings.binary.to_owned(),
            core: settings.core,
            environment: settings.place.environment.clone(),
            members: Vec::new(),
        };
        group.configure(settings, count)?;
        let made = group.launch("init", 0).run()?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(
            made.status.success(),
            "`lucarne init` failed ({}):\n{said}",
            made.status
        );
        for number in 0..count {
            group.begin(number)?;
        }
        group.leader()?;
        Ok(group)
    }

    fn configure(&mut self, settings: &Settings<'_>, count: usize) -> Result<()> {
        let prefix = format!("http://127.0.0.1:{}/{LOG}", free_port());
        for number in 0..count {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let mut log = format!(
                "shortname: {LOG}\nsubmissionprefix: {prefix}\nmonitoringprefix: {prefix}\n\
                 secret: seed.bin\nroots: roots.pem\ncache: cache{number}\nperiod: {}\n{}",
                settings.period,
                settings.place.data(&format!("of{count}"))
            );
            if count > 1 {
                let others = free_port();
                log += &format!(
                    "instances: {{address: \"127.0.0.1:{others}\", key: instances.key}}\n"
                );
            }
            let text = format!(
                "listen: [\"{address}\"]\ncheckpoints: {}\nlogs:\n  - {}",
                settings.place.checkpoints,
                log.trim_end().replace('\n', "\n    ")
            );
            let file = format!("lucarne{number}.yaml");
            fs::write(self.directory.path().join(&file), text)?;
            self.members.push(Member {
                address,
                file,
                server: None,
            });
        }
        Ok(())
    }

    fn launch(&self, command: &str, number: usize) -> Launch {
        let launch = Launch::new(&self.binary).args([command, "-c", &self.members[number].file]);
        let environment = self.environment.iter();
        environment
            .fold(launch, |launch, (name, value)| launch.env(*name, value))
            .directory(self.directory.path())
            .pin(self.core)
            .patience(READY_TIMEOUT)
    }

    /// Starts process `number`.
    pub(super) fn begin(&mut self, number: usize) -> Result<()> {
        let server = self
            .launch("serve", number)
            .start(self.members[number].address)?;
        self.members[number].server = Some(server);
        Ok(())
    }

    /// Returns process `number`.
    pub(super) fn server(&mut self, number: usize) -> Result<&mut Server> {
        self.members[number]
            .server
            .as_mut()
            .with_context(|| format!("process {number} was not started"))
    }

    pub(super) fn endpoint(&self, number: usize) -> Endpoint {
        self.members[number].address.into()
    }

    /// Waits until all processes are healthy and one process leads. Returns the number of the
    /// leader.
    pub(super) fn leader(&self) -> Result<usize> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let states: Vec<_> = self.members.iter().map(Member::state).collect();
            let leads = |state: &Option<String>| state.as_deref() == Some("running");
            let leading = states.iter().filter(|state| leads(state)).count();
            if leading == 1 && states.iter().all(Option::is_some) {
                return states.iter().position(leads).context("no process leads");
            }
            ensure!(
                Instant::now() < deadline,
                "no leader after {READY_TIMEOUT:?}: {states:?}"
            );
            sleep(POLL);
        }
    }

    /// Returns the resources that each process has used so far.
    pub(super) fn usage(&self) -> Result<Vec<Usage>> {
        let servers = self.members.iter().filter_map(|it| it.server.as_ref());
        servers.map(|server| usage(server.pid())).collect()
    }

    /// Returns the number of published entries at process `number`.
    pub(super) fn size(&self, number: usize) -> Result<u64> {
        let checkpoint = self.endpoint(number).get(&format!("/{LOG}/checkpoint"))?;
        let size = checkpoint.lines().nth(1).and_then(|line| line.parse().ok());
        size.with_context(|| format!("the checkpoint of process {number} has no size"))
    }

    /// Returns the number of new entries that process `number` has accepted so far.
    pub(super) fn accepted(&self, number: usize) -> Result<u64> {
        let metrics = self.endpoint(number).get("/metrics")?;
        let counter = metrics.lines().find(|line| {
            line.starts_with("lucarne_submissions_total{") && line.contains("\"accepted\"")
        });
        let count = counter.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        count.with_context(|| {
            format!("/metrics of process {number} has no counter of accepted submissions")
        })
    }
}

impl Member {
    /// Returns the state of the log, if the log is healthy.
    fn state(&self) -> Option<String> {
        let health = Endpoint::from(self.address).get("/health").ok()?;
        let health: Value = serde_json::from_str(&health).ok()?;
        Some(health["logs"][0]["state"].as_str()?.to_owned())
    }
}
