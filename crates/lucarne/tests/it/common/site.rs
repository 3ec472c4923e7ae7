//! Several logs in one process.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lucarne_ct::LogKey;
use lucarne_testkit::{Audit, Client, Launch, Place, Server, TempDir, free_port, temp_dir};
use rusqlite::OptionalExtension;
use serde_json::Value;

use super::load::Load;
use super::{LUCARNE, pki};

/// A directory with a configuration of several logs. By default, they accept the test authorities'
/// root.
pub(crate) struct Site {
    directory: TempDir,
    port: u16,
    place: Place,
}

impl Site {
    /// Configures and creates logs of these names, each with more settings (unindented YAML).
    pub(crate) fn create<'a>(logs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self::create_at(Place::directory(), logs)
    }

    /// Configures and creates logs with data and lock in `place`.
    pub(crate) fn create_at<'a>(
        place: Place,
        logs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        Self::prepare_at(place, temp_dir(), logs).init()
    }

    /// Creates the configured logs.
    pub(crate) fn init(self) -> Self {
        let (code, said) = self.lucarne(&["init"]);
        assert_eq!(code, 0, "{said}");
        self
    }

    /// Configures logs without creating them.
    pub(crate) fn prepare<'a>(
        directory: TempDir,
        logs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        Self::prepare_at(Place::directory(), directory, logs)
    }

    /// Configures logs with data and lock in `place`, without creating them.
    pub(crate) fn prepare_at<'a>(
        place: Place,
        directory: TempDir,
        logs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        let (port, path) = (free_port(), directory.path().to_owned());
        fs::write(path.join("roots.pem"), pki().roots_pem()).unwrap();
        let checkpoints = &place.checkpoints;
        let mut text = format!(
            "listen: 127.0.0.1:{port}\ncheckpoints: {checkpoints}\n\
             defaults: {{roots: roots.pem, period: 20}}\nlogs:\n"
        );
        for (name, settings) in logs {
            let seed = path.join(format!("{name}.seed"));
            fs::write(&seed, rand::random::<[u8; 32]>()).unwrap();
            fs::set_permissions(&seed, fs::Permissions::from_mode(0o600)).unwrap();
            text += &format!(
                "  - shortname: {name}\n    submissionprefix: http://127.0.0.1:{port}/{name}\n    \
                 secret: {name}.seed\n    cache: {name}-cache\n"
            );
            for line in place.data(name).lines().chain(settings.lines()) {
                text += &format!("    {line}\n");
            }
        }
        fs::write(path.join("lucarne.yaml"), text).unwrap();
        Site {
            directory,
            port,
            place,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.path().join("lucarne.yaml")
    }

    /// The place of the lock, as in the configuration.
    pub(crate) fn checkpoints(&self) -> &str {
        &self.place.checkpoints
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.path().join("lock.sqlite")
    }

    /// The data directory of a log.
    pub(crate) fn data(&self, log: &str) -> PathBuf {
        self.path().join(log)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn launch(&self) -> Launch {
        self.launch_of(&["serve"])
    }

    /// Returns `lucarne` with these arguments, to be run in the directory.
    pub(crate) fn launch_of(&self, args: &[&str]) -> Launch {
        self.command().args(args)
    }

    /// Runs `lucarne` in the directory to its end, and returns the exit code and the whole output.
    pub(crate) fn lucarne(&self, args: &[&str]) -> (i32, String) {
        let output = self.launch_of(args).run().unwrap();
        (output.status.code().unwrap_or(-1), super::all(&output))
    }

    fn command(&self) -> Launch {
        let launch = Launch::new(LUCARNE).directory(self.path());
        let environment = self.place.environment.iter();
        environment.fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    pub(crate) fn start(&self) -> Server {
        self.launch().start(self.address()).unwrap()
    }

    /// Returns a client of the whole site.
    pub(crate) fn client(&self) -> Client {
        Client::new(format!("http://{}", self.address()))
    }

    /// Returns a client of one log.
    pub(crate) fn client_of(&self, log: &str) -> Client {
        Client::new(format!("http://{}/{log}", self.address()))
    }

    pub(crate) fn key(&self, log: &str) -> LogKey {
        let seed = fs::read(self.path().join(format!("{log}.seed"))).unwrap();
        LogKey::from_seed(&seed).unwrap()
    }

    /// Returns submitters of a log.
    pub(crate) fn load(&self, log: &str) -> Load {
        Load::on(self.client_of(log), self.audit(log, &pki().roots_pem()))
    }

    /// Returns an auditor of a log with these roots (PEM).
    pub(crate) fn audit(&self, log: &str, roots: &str) -> Audit {
        let origin = format!("{}/{log}", self.address());
        let url = format!("http://{origin}");
        let key = self.key(log);
        Audit::new(&url, &origin, key.public_key_spki(), roots.as_bytes()).unwrap()
    }

    /// Returns the part of `/health` about a log.
    pub(crate) async fn health(&self, log: &str) -> Value {
        let answer = self.client().get("health").await.unwrap();
        let logs = answer.json().unwrap()["logs"].take();
        let mut logs = logs.as_array().unwrap().iter();
        logs.find(|found| found["name"] == log).unwrap().clone()
    }

    /// Waits until this log is in this state, and returns the reason.
    pub(crate) async fn reaches(&self, log: &str, state: &str) -> String {
        let mut reason = String::new();
        let what = format!("log {log} is {state}");
        super::eventually(&what, async || {
            let health = self.health(log).await;
            reason = health["checks"][0]["detail"].as_str().unwrap().to_owned();
            health["state"] == state
        })
        .await;
        reason
    }

    /// Waits until this log is healthy.
    pub(crate) async fn ready(&self, log: &str) {
        super::eventually("the log is healthy", async || {
            self.health(log).await["healthy"] == true
        })
        .await;
    }

    /// Opens the lock database, as an operator's shell does.
    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.lock()).unwrap()
    }

    /// Returns the checkpoint of a log in the lock.
    pub(crate) fn signed(&self, log: &str) -> Option<Vec<u8>> {
        let query = "SELECT body FROM checkpoints WHERE logID = ?";
        let log = self.key(log).log_id().0;
        let row = self.database().query_row(query, [log], |row| row.get(0));
        row.optional().unwrap()
    }

    /// Replaces the checkpoint of a log in the lock.
    pub(crate) fn sign(&self, log: &str, body: &[u8]) {
        let put = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?)";
        let log = self.key(log).log_id().0;
        self.database().execute(put, (log, body)).unwrap();
    }

    /// Removes the checkpoint of a log from the lock.
    pub(crate) fn forget(&self, log: &str) {
        let delete = "DELETE FROM checkpoints WHERE logID = ?";
        let log = self.key(log).log_id().0;
        self.database().execute(delete, [log]).unwrap();
    }
}
