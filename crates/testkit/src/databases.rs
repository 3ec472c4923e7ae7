use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use lucarne_mint::testing::once_per_run;
use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::takeover::copy_directory;
use crate::{Launch, Server, TempDir, free_port, temp_dir, wait::pause};

/// Timeout for creating the files of a server, starting it or stopping it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user of the logs, with all privileges in their databases.
const USER: &str = "lucarne";
/// The password of the user, plain and percent-encoded.
const PASSWORD: (&str, &str) = ("p@ss/w:rd", "p%40ss%2Fw%3Ard");

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// Debian's `mariadb-server`.
    MariaDb,
    /// Debian's `postgresql`.
    Postgres,
}

/// A real database server on loopback (or another address of this machine) and on a socket, with
/// its default settings. The server and its data are removed with the value.
///
/// The server never runs as root: if root starts the server, it runs as the user that its package
/// creates.
#[derive(Debug)]
pub struct DatabaseServer {
    kind: DatabaseKind,
    address: SocketAddr,
    directory: TempDir,
    /// `None` while the server is down.
    server: Option<Server>,
    databases: AtomicU32,
}

impl DatabaseServer {
    /// Starts a separate server.
    ///
    /// # Errors
    /// If the server is not installed or does not start: the message has the remedy.
    pub fn start(kind: DatabaseKind) -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST, kind)
    }

    /// Starts a server on another address of this machine.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_at(address: Ipv4Addr, kind: DatabaseKind) -> Result<Self> {
        let directory = temp_dir();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let mut server = Self {
            kind,
            address: SocketAddr::from((address, free_port())),
            directory,
            server: None,
            databases: AtomicU32::new(0),
        };
        server.initialise()?;
        server.begin(&[])?;
        server.admin("", &server.create_user())?;
        Ok(server)
    }

    /// Starts a server that requires TLS for TCP connections, with this certificate and key (PEM).
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_tls(kind: DatabaseKind, certificate: &str, key: &str) -> Result<Self> {
        let mut server = Self::start(kind)?;
        server.restart_tls(certificate, key)?;
        Ok(server)
    }

    /// Restarts the server with TLS and this certificate and key.
    ///
    /// # Errors
    /// The errors of [`restart`](Self::restart).
    pub fn restart_tls(&mut self, certificate: &str, key: &str) -> Result<()> {
        let (crt, pem) = (self.data().join("tls.crt"), self.data().join("tls.key"));
        fs::write(&crt, certificate)?;
        fs::write(&pem, key)?;
        // PostgreSQL refuses a key that other users can read.
        fs::set_permissions(&pem, fs::Permissions::from_mode(0o600))?;
        if getuid().is_root() {
            let (uid, gid) = ids(self.user())?;
            chown(&crt, Some(uid), Some(gid))?;
            chown(&pem, Some(uid), Some(gid))?;
        }
        let (crt, pem) = (crt.display(), pem.display());
        let settings = match self.kind {
            DatabaseKind::MariaDb => [
                format!("ssl-cert={crt}"),
                format!("ssl-key={pem}"),
                "require-secure-transport=ON".into(),
            ],
            DatabaseKind::Postgres => {
                let access = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
                fs::write(self.data().join("pg_hba.conf"), access)?;
                [
                    "ssl=on".into(),
                    format!("ssl_cert_file={crt}"),
                    format!("ssl_key_file={pem}"),
                ]
            }
        };
        self.restart(&settings.each_ref().map(String::as_str))
    }

    /// Returns a server that the tests of a process share while any of them uses it.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn shared(kind: DatabaseKind) -> Result<Arc<Self>> {
        static SHARED: [Mutex<Weak<DatabaseServer>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
        let mut shared = SHARED[kind as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::start(kind)?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// Creates an empty database and returns its name.
    ///
    /// # Errors
    /// If the server is down.
    pub fn new_database(&self) -> Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("lucarne{number}");
        match self.kind {
            DatabaseKind::MariaDb => self.admin(
                "",
                &format!(
                    "CREATE DATABASE {name}; GRANT ALL ON {name}.* TO {USER}@'%', {USER}@localhost"
                ),
            )?,
            DatabaseKind::Postgres => {
                self.admin("", &format!("CREATE DATABASE {name} OWNER {USER}"))?
            }
        };
        Ok(name)
    }

    /// Returns the URL of a database over TCP.
    pub fn url(&self, database: &str) -> String {
        let (scheme, address) = (self.scheme(), self.address);
        format!("{scheme}://{USER}:{}@{address}/{database}", PASSWORD.1)
    }

    /// Returns the URL of a database over the socket.
    pub fn socket_url(&self, database: &str) -> String {
        let (socket, password) = (self.socket(), PASSWORD.1);
        let (socket, port) = (socket.display(), self.address.port());
        match self.kind {
            DatabaseKind::MariaDb => {
                format!("mysql://{USER}:{password}@localhost/{database}?socket={socket}")
            }
            DatabaseKind::Postgres => {
                format!("postgres:///{database}?host={socket}&port={port}&user={USER}")
            }
        }
    }

    /// Returns the password as it appears in the URLs.
    pub fn password(&self) -> &'static str {
        PASSWORD.1
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the shell command that runs the server's own client as the administrator.
    ///
    /// # Errors
    /// If the client is not installed.
    pub fn administrator(&self) -> Result<String> {
        let (socket, port) = (self.socket(), self.address.port());
        let socket = socket.display();
        Ok(match self.kind {
            DatabaseKind::MariaDb => format!("mariadb --no-defaults --user=root --socket={socket}"),
            DatabaseKind::Postgres => {
                let psql = postgres_program("psql")?;
                let psql = psql.display();
                format!("{psql} --no-psqlrc --username=postgres --host={socket} --port={port}")
            }
        })
    }

    /// Runs statements as the administrator in a database (`""` for none), with the server's own
    /// client. Returns the output of the client.
    ///
    /// # Errors
    /// The error of the server.
    pub fn admin(&self, database: &str, statements: &str) -> Result<String> {
        let launch = match self.kind {
            DatabaseKind::MariaDb => Launch::new("mariadb")
                .args([
                    "--no-defaults",
                    "--user=root",
                    "--batch",
                    "--skip-column-names",
                ])
                .arg(format!("--socket={}", self.socket().display()))
                .args(["--execute", statements])
                .arg(database),
            DatabaseKind::Postgres => Launch::new(postgres_program("psql")?)
                .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
                .args(["--username=postgres", "--command", statements])
                .arg(format!("--host={}", self.socket().display()))
                .arg(format!("--port={}", self.address.port()))
                .arg(if database.is_empty() {
                    "postgres"
                } else {
                    database
                }),
        };
        let output = launch.run()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

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
            server.wait(PATIENCE)?;
        }
        Ok(())
    }

    /// Sends SIGKILL to all processes of the server.
    ///
    /// # Errors
    /// Only if the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        // The children keep the output of the server open, so `Server::kill` can read the output to
        // the end only after all children have ended.
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
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.launch(settings)?.start(self.address) {
                Ok(server) => {
                    self.server = Some(server);
                    break;
                }
                // Processes of the former server may take a moment to end.
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => pause(),
            }
        }
        while let Err(error) = self.admin("", "SELECT 1") {
            ensure!(Instant::now() < deadline, "not ready: {error}");
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
        let deadline = Instant::now() + PATIENCE;
        while !self.is_frozen() {
            ensure!(Instant::now() < deadline, "the server does not stop");
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

    fn scheme(&self) -> &'static str {
        match self.kind {
            DatabaseKind::MariaDb => "mysql",
            DatabaseKind::Postgres => "postgres",
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns MariaDB's socket file, or PostgreSQL's socket directory.
    fn socket(&self) -> PathBuf {
        match self.kind {
            DatabaseKind::MariaDb => self.data().join("socket"),
            DatabaseKind::Postgres => self.data(),
        }
    }

    /// Creates the files of an empty server once for all tests of a run. Other tests get copies.
    fn initialise(&self) -> Result<()> {
        let install = |copies: &Path| {
            // A test that misses the server fails with the remedy.
            self.install().unwrap_or_else(|error| panic!("{error:#}"));
            copy_directory(&self.data(), &copies.join("data"));
        };
        match once_per_run(&format!("{:?}", self.kind), install) {
            None => self.install(),
            Some(_) if self.data().exists() => Ok(()),
            Some(copies) => {
                copy_directory(&copies.join("data"), &self.data());
                Ok(())
            }
        }
    }

    fn install(&self) -> Result<()> {
        fs::create_dir(self.data())?;
        let launch = match self.kind {
            DatabaseKind::MariaDb => self
                .as_its_user("mariadb-install-db".into())?
                .args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"])
                .arg("--auth-root-authentication-method=normal")
                // The system tables need not survive a power failure.
                .args([
                    "--innodb-flush-log-at-trx-commit=0",
                    "--innodb-log-file-size=8M",
                ])
                .arg(format!("--datadir={}", self.data().display())),
            DatabaseKind::Postgres => self
                .as_its_user(postgres_program("initdb")?)?
                .args(["--auth=trust", "--no-sync", "--no-instructions"])
                .args(["--username=postgres", "--encoding=UTF8", "--no-locale"])
                .arg(self.data()),
        };
        // MariaDB once failed here for an unknown reason, when several servers started on a busy
        // machine. The command is therefore retried once.
        let mut output = launch.run()?;
        if !output.status.success() {
            // The cause is unknown, but a busy machine was part of it. The pause does not affect
            // the result, because the second attempt decides.
            thread::sleep(Duration::from_secs(1));
            fs::remove_dir_all(self.data())?;
            fs::create_dir(self.data())?;
            self.own_data()?;
            output = launch.run()?;
        }
        if !output.status.success() {
            let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
            let _ = write!(said, "{}", String::from_utf8_lossy(&output.stderr));
            bail!("{:?} cannot create its files:\n{said}", self.kind);
        }
        if self.kind == DatabaseKind::Postgres {
            // TCP connections require a password.
            let access = "local all all trust\nhost all all samenet scram-sha-256\n";
            fs::write(self.data().join("pg_hba.conf"), access)?;
        }
        Ok(())
    }

    fn launch(&self, settings: &[&str]) -> Result<Launch> {
        let (data, host, port) = (self.data(), self.address.ip(), self.address.port());
        let launch = match self.kind {
            DatabaseKind::MariaDb => self
                .as_its_user(mariadbd()?)?
                .args(["--no-defaults", "--skip-name-resolve"])
                .arg(format!("--bind-address={host}"))
                .args(["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M"])
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--socket={}", self.socket().display()))
                .arg(format!("--port={port}"))
                .args(settings.iter().map(|setting| format!("--{setting}"))),
            DatabaseKind::Postgres => self
                .as_its_user(postgres_program("postgres")?)?
                .args(["-c", &format!("listen_addresses={host}")])
                .args(["-c", &format!("unix_socket_directories={}", data.display())])
                .args(["-c", &format!("port={port}")])
                .args(settings.iter().flat_map(|setting| ["-c", setting]))
                .arg("-D")
                .arg(&data),
        };
        Ok(launch.patience(PATIENCE))
    }

    /// Returns the user that the package creates.
    fn user(&self) -> &'static str {
        match self.kind {
            DatabaseKind::MariaDb => "mysql",
            DatabaseKind::Postgres => "postgres",
        }
    }

    /// Changes the owner of the data directory to that user, if this process runs as root.
    fn own_data(&self) -> Result<()> {
        if getuid().is_root() {
            let (uid, gid) = ids(self.user())?;
            chown(self.data(), Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn create_user(&self) -> String {
        let password = PASSWORD.0;
        match self.kind {
            DatabaseKind::MariaDb => format!(
                "CREATE USER {USER}@'%' IDENTIFIED BY '{password}', \
                 {USER}@localhost IDENTIFIED BY '{password}'"
            ),
            DatabaseKind::Postgres => format!("CREATE USER {USER} PASSWORD '{password}'"),
        }
    }

    /// Runs a program as the user of its package, who also gets the data directory.
    fn as_its_user(&self, program: PathBuf) -> Result<Launch> {
        let directory = self.directory.path();
        if !getuid().is_root() {
            return Ok(Launch::new(program).directory(directory));
        }
        let user = self.user();
        self.own_data()?;
        // `setpriv` replaces itself with the program, so that the pid is the server's. The server
        // must not write to our directory of temporary files.
        let launch = Launch::new("setpriv")
            .env("TMPDIR", self.data())
            .args(["--reuid", user, "--regid", user, "--init-groups"])
            .arg(program);
        Ok(launch.directory(directory))
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns a program of the newest PostgreSQL: Debian installs them outside the path.
fn postgres_program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let version = |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin").join(name).is_file())
        .max_by_key(|path| version(path));
    let newest = newest.with_context(|| missing("PostgreSQL"))?;
    Ok(newest.join("bin").join(name))
}

fn mariadbd() -> Result<PathBuf> {
    let path = PathBuf::from("/usr/sbin/mariadbd");
    ensure!(path.is_file(), missing("MariaDB"));
    Ok(path)
}

fn missing(what: &str) -> String {
    format!("{what} is not installed: run scripts/install-test-tools (or `cargo xtask test`)")
}

/// Returns user and group of a name from `/etc/passwd`.
fn ids(user: &str) -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let fields = fields.into_iter().find(|fields| fields[0] == user);
    let fields = fields.with_context(|| missing(user))?;
    Ok((fields[2].parse()?, fields[3].parse()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_start_restart_and_die() {
        for kind in [DatabaseKind::MariaDb, DatabaseKind::Postgres] {
            let mut server = DatabaseServer::start(kind).unwrap();
            let name = server.new_database().unwrap();
            server
                .admin(&name, "CREATE TABLE t (n INT); INSERT INTO t VALUES (7)")
                .unwrap();
            server.restart(&[]).unwrap();
            server.kill().unwrap();
            assert!(server.admin(&name, "SELECT 1").is_err());
            server.begin(&[]).unwrap();
            assert_eq!(server.admin(&name, "SELECT n FROM t").unwrap(), "7");
        }
    }
}
