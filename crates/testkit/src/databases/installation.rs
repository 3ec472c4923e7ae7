//! Files and programs of a database server.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use lucarne_mint::testing::once_per_run;
use rustix::process::getuid;

use super::running::SERVER_TIMEOUT;
use super::{DatabaseKind, DatabaseServer};
use crate::Launch;
use crate::takeover::copy_directory;

impl DatabaseServer {
    /// Creates the files of an empty server once for all tests of a run. Other tests get copies.
    pub(super) fn initialise(&self) -> Result<()> {
        let install = |copies: &Path| {
            // If the server is not installed, the test fails with the remedy.
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

    pub(super) fn launch(&self, settings: &[&str]) -> Result<Launch> {
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
        Ok(launch.patience(SERVER_TIMEOUT))
    }

    /// Returns the user that the package creates.
    pub(super) fn user(&self) -> &'static str {
        match self.kind {
            DatabaseKind::MariaDb => "mysql",
            DatabaseKind::Postgres => "postgres",
        }
    }

    /// Changes the owner of the data directory to the package's user, if this process runs as root.
    fn own_data(&self) -> Result<()> {
        if getuid().is_root() {
            let (uid, gid) = ids(self.user())?;
            chown(self.data(), Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Returns the command that runs a program as the package's user, and gives this user the data
    /// directory. Without root, the program runs as the current user.
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

/// Returns the path of a program of the newest PostgreSQL, which Debian installs outside `PATH`.
pub(super) fn postgres_program(name: &str) -> Result<PathBuf> {
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
pub(super) fn ids(user: &str) -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let fields = fields.into_iter().find(|fields| fields[0] == user);
    let fields = fields.with_context(|| missing(user))?;
    Ok((fields[2].parse()?, fields[3].parse()?))
}
