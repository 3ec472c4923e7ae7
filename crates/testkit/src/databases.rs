mod installation;
mod running;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Result, ensure};
use rustix::process::getuid;

use self::installation::{ids, postgres_program};
use crate::{Launch, Server, TempDir, free_port, temp_dir};

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
            "cannot run {statements:?} in the database {database:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
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
