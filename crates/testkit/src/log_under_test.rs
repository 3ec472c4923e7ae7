use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use lucarne_ct::LogKey;
use tempfile::TempDir;

use crate::{Audit, Client, Launch, Place, Server, free_port, temp_dir, wait::POLL};

/// A directory with all files of one log, created with `lucarne init`, and the data that a test
/// needs to use the log. Call [`start`](Self::start) several times to restart the server on the
/// same directory.
#[derive(Debug)]
pub struct LogUnderTest {
    binary: PathBuf,
    directory: TempDir,
    port: u16,
    key: Vec<u8>,
    roots: String,
    place: Place,
    core: Option<usize>,
}

impl LogUnderTest {
    /// Creates a log that accepts these roots (PEM). `settings` are additional lines of the log's
    /// section of the configuration (`period: 50`), unindented.
    ///
    /// # Errors
    /// If `lucarne init` fails; the message has the output of the command.
    pub fn create(binary: impl Into<PathBuf>, roots: &str, settings: &str) -> Result<Self> {
        Self::create_at(Place::directory(), binary, roots, settings)
    }

    /// Creates a log with its data and lock in another place.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    pub fn create_at(
        place: Place,
        binary: impl Into<PathBuf>,
        roots: &str,
        settings: &str,
    ) -> Result<Self> {
        let log = Self::prepare_at(place, binary, roots, settings)?;
        let output = log.launch("init").run()?;
        ensure!(
            output.status.success(),
            "lucarne init failed ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(log)
    }

    /// Creates the files without running `lucarne init`.
    ///
    /// # Errors
    /// Only if the files cannot be written.
    pub fn prepare(binary: impl Into<PathBuf>, roots: &str, settings: &str) -> Result<Self> {
        Self::prepare_at(Place::directory(), binary, roots, settings)
    }

    fn prepare_at(
        place: Place,
        binary: impl Into<PathBuf>,
        roots: &str,
        settings: &str,
    ) -> Result<Self> {
        let directory = temp_dir();
        let (port, path) = (free_port(), directory.path());
        let seed: [u8; 32] = rand::random();
        let secret = path.join("seed.bin");
        fs::write(&secret, seed)?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
        fs::write(path.join("roots.pem"), roots)?;
        let data = place.data("data");
        let settings: String = data
            .lines()
            .chain(settings.lines())
            .map(|line| format!("    {line}\n"))
            .collect();
        fs::write(
            path.join("lucarne.yaml"),
            configuration(path, port, &place.checkpoints, &settings),
        )?;
        Ok(Self {
            binary: binary.into(),
            key: LogKey::from_seed(&seed)
                .context("creating the key of the log")?
                .public_key_spki()
                .to_vec(),
            roots: roots.to_owned(),
            directory,
            port,
            place,
            core: None,
        })
    }

    /// Runs the server on this core only.
    pub fn pin(mut self, core: Option<usize>) -> Self {
        self.core = core;
        self
    }

    /// Returns the command `lucarne <subcommand> -c lucarne.yaml`.
    pub fn launch(&self, subcommand: &str) -> Launch {
        let command = self.command().args([subcommand, "-c"]);
        command.arg(self.configuration())
    }

    /// Returns the command `lucarne` in the log's directory, without arguments.
    pub fn command(&self) -> Launch {
        let launch = Launch::new(&self.binary);
        let environment = self.place.environment.iter();
        environment
            .fold(launch, |launch, (name, value)| launch.env(name, value))
            .directory(self.path())
            .pin(self.core)
    }

    /// Starts `lucarne serve` and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server does not accept connections in time.
    pub fn start(&self) -> Result<Server> {
        self.launch("serve").start(self.address())
    }

    /// Returns the directory of all files.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the configuration file.
    pub fn configuration(&self) -> PathBuf {
        self.path().join("lucarne.yaml")
    }

    /// Returns the log's directory with its public files.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns the log's URL, which is both prefixes without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.origin())
    }

    /// Returns the origin of the log.
    pub fn origin(&self) -> String {
        format!("127.0.0.1:{}/test", self.port)
    }

    /// Returns the log's public key (SPKI, DER).
    pub fn public_key(&self) -> &[u8] {
        &self.key
    }

    /// Returns a client of the log.
    pub fn client(&self) -> Client {
        Client::new(self.url())
    }

    /// Returns an auditor of the log.
    ///
    /// # Errors
    /// Never for a log created here.
    pub fn audit(&self) -> Result<Audit> {
        Audit::new(
            &self.url(),
            &self.origin(),
            &self.key,
            self.roots.as_bytes(),
        )
    }

    /// Waits until the server reports that it is healthy (`/health`). Earlier submissions would be
    /// refused.
    ///
    /// # Errors
    /// If the server is not healthy within `patience`; the message has its last report.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let client = Client::new(format!("http://{}", self.address()));
        let deadline = Instant::now() + patience;
        loop {
            let said = match client.get("health").await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Ok(answer) => answer.text(),
                Err(error) => format!("{error:#}"),
            };
            let waited = Instant::now() > deadline;
            ensure!(
                !waited,
                "{} is not healthy after {patience:?}: {said}",
                self.url()
            );
            // Polled, with a deadline: no verdict depends on the pace.
            tokio::time::sleep(POLL).await;
        }
    }
}

fn configuration(directory: &Path, port: u16, checkpoints: &str, settings: &str) -> String {
    let directory = directory.display();
    format!(
        "listen:
  - 127.0.0.1:{port}
checkpoints: {checkpoints}
logs:
  - shortname: test
    submissionprefix: http://127.0.0.1:{port}/test
    monitoringprefix: http://127.0.0.1:{port}/test
    secret: {directory}/seed.bin
    cache: {directory}/cache
    roots: {directory}/roots.pem
{settings}"
    )
}
