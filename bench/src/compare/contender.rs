//! A log to compare, as described by a TOML file.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use lucarne_testkit::{Launch, Server, TempDir, Usage, free_port, usage};
use serde::Deserialize;

use super::variables::Variables;
use crate::add_chain::wait;

/// Contents of the TOML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contender {
    /// Name of the log in the table.
    pub(crate) name: String,
    /// Working directory of the log's commands. By default, each run has a new directory.
    directory: Option<String>,
    /// Variables of this log: `${name}`.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Files to create before all commands, relative to the directory.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Commands to run to their end, in order, before the processes start.
    #[serde(default)]
    setup: Vec<Vec<String>>,
    /// Processes of the log, and of other servers that the log needs. Without processes, the log
    /// must already run, and its cost is not measured.
    #[serde(default, rename = "process")]
    processes: Vec<Process>,
    target: Target,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// A URL that responds with 200 when the process is ready, or the `host:port` of its socket.
    ready: String,
}

/// Facts that a load test needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    submission: String,
    monitoring: Option<String>,
    /// Origin of the log. By default, the submission prefix without its scheme.
    origin: Option<String>,
    /// Public key: a PEM file, or base64 as in log lists. By default, the key comes from the log's
    /// `log.v3.json`.
    key: Option<String>,
}

/// Maximum time until a log responds.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

impl Contender {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let contender: Contender =
            toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        for process in &contender.processes {
            ensure!(
                !process.command.is_empty(),
                "{}: a process has no command",
                path.display()
            );
        }
        Ok(contender)
    }

    /// Sets the log up in a new directory, and starts it on the core.
    pub(crate) fn start(&self, given: &Given<'_>) -> Result<Running> {
        // The script sets TMPDIR to a directory on a disk.
        let own = lucarne_testkit::temp_dir();
        let mut variables = Variables::new(&self.name);
        for (name, value) in [
            ("dir", own.path()),
            ("roots", given.roots),
            ("lucarne", given.lucarne),
        ] {
            variables.set(name, &value.display().to_string());
        }
        for name in ["port", "port2", "port3"] {
            variables.set(name, &free_port().to_string());
        }
        variables.set("today", &today());
        for (name, value) in &self.variables {
            let value = variables.expand(value)?;
            variables.set(name, &value);
        }
        let directory = match &self.directory {
            Some(directory) => PathBuf::from(variables.expand(directory)?),
            None => own.path().to_owned(),
        };
        for (name, text) in &self.files {
            let file = directory.join(variables.expand(name)?);
            fs::write(&file, variables.expand(text)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        for command in &self.setup {
            run(&launch(command, &variables, &directory)?, command)
                .with_context(|| format!("{}: cannot set up the log", self.name))?;
        }
        let mut servers = Vec::new();
        for process in &self.processes {
            let server = process.start(&variables, &directory, given.core);
            servers.push(server.with_context(|| format!("{}: cannot start the log", self.name))?);
        }
        Ok(Running {
            target: self.target.named(&variables)?,
            servers,
            _directory: own,
        })
    }
}

/// Values that the comparison passes to each log.
pub(crate) struct Given<'a> {
    /// Path of the lucarne binary.
    pub(crate) lucarne: &'a Path,
    /// PEM file of the roots that the log must accept.
    pub(crate) roots: &'a Path,
    /// Core of the log's processes.
    pub(crate) core: Option<usize>,
}

impl Target {
    fn monitoring(&self) -> &str {
        self.monitoring.as_ref().unwrap_or(&self.submission)
    }

    fn named(&self, variables: &Variables) -> Result<Named> {
        let optional = |value: &Option<String>| -> Result<Option<String>> {
            value
                .as_ref()
                .map(|value| variables.expand(value))
                .transpose()
        };
        Ok(Named {
            submission: variables.expand(&self.submission)?,
            monitoring: variables.expand(self.monitoring())?,
            origin: optional(&self.origin)?,
            key: optional(&self.key)?,
        })
    }
}

/// A target with all variables replaced.
pub(crate) struct Named {
    submission: String,
    monitoring: String,
    origin: Option<String>,
    key: Option<String>,
}

impl Named {
    /// Returns the environment variables for a plan, with their values.
    pub(crate) fn variables(&self) -> Vec<(&'static str, &str)> {
        let mut all = vec![
            ("CT_LOG_URL", self.monitoring.as_str()),
            ("CT_WRITE_LOG_URL", &self.submission),
        ];
        all.extend(self.origin.as_deref().map(|origin| ("CT_ORIGIN", origin)));
        all.extend(self.key.as_deref().map(|key| ("CT_LOG_KEY", key)));
        all
    }

    /// Returns the flags for a scenario on the command line.
    pub(crate) fn flags(&self, scenario: &str) -> Vec<String> {
        let mut flags = vec![format!("--log-url={}", self.monitoring)];
        if scenario != "ct-read" {
            flags.push(format!("--write-log-url={}", self.submission));
        }
        flags.extend(
            self.origin
                .as_ref()
                .map(|origin| format!("--origin={origin}")),
        );
        flags.extend(
            self.key
                .as_ref()
                .map(|key| format!("--log-public-key={key}")),
        );
        flags
    }
}

impl Process {
    fn start(
        &self,
        variables: &Variables,
        directory: &Path,
        core: Option<usize>,
    ) -> Result<Server> {
        let mut launch = launch(&self.command, variables, directory)?.pin(core);
        for (name, value) in &self.environment {
            launch = launch.env(name, variables.expand(value)?);
        }
        let mut server = launch.spawn()?;
        let ready = variables.expand(&self.ready)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        while !is_ready(&ready)? {
            if let Some(status) = server.try_wait()? {
                bail!("the process ended ({status}):\n{}", server.output());
            }
            ensure!(
                Instant::now() < deadline,
                "{ready} did not respond within {READY_TIMEOUT:?}:\n{}",
                server.output()
            );
            // Polls, because a foreign process does not report that it is ready.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// A running log; dropping the value kills it.
pub(crate) struct Running {
    pub(crate) target: Named,
    servers: Vec<Server>,
    _directory: TempDir,
}

impl Running {
    /// Returns the resources that all processes of the log have used, if this program started them.
    pub(crate) fn usage(&self) -> Result<Option<Usage>> {
        let mut sum = Usage::default();
        for server in &self.servers {
            for pid in family(server.pid()) {
                // A child may end at any moment.
                let Ok(one) = usage(pid) else { continue };
                sum.cpu_us += one.cpu_us;
                sum.rss += one.rss;
                sum.peak_rss += one.peak_rss;
                sum.written += one.written;
            }
        }
        Ok((!self.servers.is_empty()).then_some(sum))
    }

    /// Returns the number of entries in the published tree; 0 without a checkpoint.
    pub(crate) fn size(&self) -> Result<u64> {
        let client = lucarne_testkit::Client::new(self.target.monitoring.as_str());
        let answer = wait(async move { client.get("checkpoint").await })??;
        let text = answer.text();
        let size = text.lines().nth(1).and_then(|line| line.parse().ok());
        Ok(size.unwrap_or(0))
    }

    /// Returns the output of all processes of the log.
    pub(crate) fn output(&self) -> String {
        self.servers.iter().map(Server::output).collect()
    }
}

/// Returns a process and all its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        next += 1;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        all.extend(children.split_whitespace().flat_map(str::parse::<u32>));
    }
    all
}

fn launch(command: &[String], variables: &Variables, directory: &Path) -> Result<Launch> {
    let mut words = command.iter();
    let program = words.next().context("a command is empty")?;
    let mut launch = Launch::new(variables.expand(program)?).directory(directory);
    for word in words {
        launch = launch.arg(variables.expand(word)?);
    }
    Ok(launch)
}

fn run(launch: &Launch, command: &[String]) -> Result<()> {
    let output = launch.run()?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}):\n{}{}",
        command.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn is_ready(ready: &str) -> Result<bool> {
    if ready.starts_with("http://") {
        let (base, path) = ready.rsplit_once('/').unwrap_or((ready, ""));
        let client = lucarne_testkit::Client::new(base);
        let answer = wait(client.get(path))?;
        return Ok(answer.is_ok_and(|answer| answer.status == 200));
    }
    let address: SocketAddr = ready
        .parse()
        .with_context(|| format!("ready = {ready:?} is neither http://… nor address:port"))?;
    Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
}

/// Returns the date in UTC, the inception of a new log.
fn today() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// Converts a day since 1970 to year, month and day, by counting years and months.
fn date(mut days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (day, text) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_778, "2026-11-21"),
        ] {
            assert_eq!(date(day), text);
        }
    }

    #[test]
    fn shipped_files_are_well_formed() {
        let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("logs");
        let mut count = 0;
        for file in fs::read_dir(logs).unwrap() {
            let contender = Contender::read(&file.unwrap().path()).unwrap();
            assert!(!contender.processes.is_empty());
            count += 1;
        }
        assert!(count >= 3);
    }

    #[test]
    fn a_typo_is_refused() {
        let text = "nmae = 'x'\n[target]\nsubmission = 'http://127.0.0.1:1'\n";
        let error = toml::from_str::<Contender>(text).unwrap_err().to_string();
        assert!(error.contains("nmae"), "{error}");
    }
}
