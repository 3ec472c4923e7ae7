//! Opening and making SQLite lock databases.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Row};

use super::dialect::{Dialect, SQLITE, SQLITE_COLUMNS, SQLITE_SCHEMA, SQLITE_TEXT};
use crate::LockError;

/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// How long a commit waits for other processes that write to the database (a
/// backup, an operator's shell).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A file, and which one it was when it was opened.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl DatabaseFile {
    /// Refuses whatever is not an existing SQLite file.
    pub(super) fn examine(path: &Path) -> Result<Self, LockError> {
        let metadata = path.metadata().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => unusable(
                path,
                "there is no lock database here. If the path is right and no log was ever \
                 created with it, `lucarne init` makes it; otherwise restore or mount it",
            ),
            _ => unusable(path, &format!("the lock database cannot be opened: {e}")),
        })?;
        if metadata.is_dir() {
            let reason = "this is a directory; the lock database is a file";
            return Err(unusable(path, reason));
        }
        let mut start = [0; MAGIC.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
        match read {
            Ok(()) if &start == MAGIC => Ok(Self {
                path: path.to_owned(),
                identity: identity(&metadata),
            }),
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => Err(unusable(
                path,
                &format!("the lock database cannot be read: {e}"),
            )),
            _ => Err(unusable(
                path,
                "this file is not an SQLite database. Check `checkpoints` in the configuration",
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses if the path leads to another file than the one that is open:
    /// commits would go to a file that nobody will find again.
    pub(super) fn still_there(&self) -> Result<(), LockError> {
        match self.path.metadata() {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            _ => Err(unusable(
                &self.path,
                "the lock database was removed or replaced while in use. Its newest state is \
                 in this process only: do not stop it before the checkpoints are saved, and \
                 see docs/storage.md",
            )),
        }
    }
}

/// Creates the file and Sunlight's table in it.
pub(super) async fn create(path: &Path) -> Result<(), LockError> {
    if let Some(parent) = path.parent() {
        crate::posix::make_durably(parent, 0o755).map_err(|e| unusable(path, &e.to_string()))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            unusable(path, "exists already; a lock database is never overwritten")
        }
        _ => unusable(path, &format!("the lock database cannot be made: {e}")),
    })?;
    let result = create_table(path).await;
    if result.is_err() {
        let _ = std::fs::remove_file(path);
    }
    result
}

async fn create_table(path: &Path) -> Result<(), LockError> {
    use sqlx::Connection;
    let failed = |e: sqlx::Error| unusable(path, &format!("the table cannot be made: {e}"));
    let mut connection = options(path).connect().await.map_err(failed)?;
    let made = sqlx::query(SQLITE_SCHEMA).execute(&mut connection).await;
    made.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    // SQLite syncs what is in the file; that the file is there is ours.
    let sync = || File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all();
    sync().map_err(|e| unusable(path, &format!("its directory cannot be synced: {e}")))
}

/// Connections of one process. SQLite has one writer at a time, whatever we
/// do: one connection that commits take turns on, in order, is faster than
/// several that poll for SQLite's lock. Reading has a connection of its own
/// and waits for nobody.
pub(super) struct Pools {
    pub(super) write: SqlitePool,
    pub(super) read: SqlitePool,
}

impl Pools {
    pub(super) async fn open(path: &Path) -> Result<Self, LockError> {
        let pool = || {
            SqlitePoolOptions::new()
                .max_connections(1)
                // Connections keep their prepared statements, and never go
                // stale: asking each time would double the work.
                .test_before_acquire(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .acquire_timeout(2 * BUSY_TIMEOUT)
                .connect_with(options(path))
        };
        let failed = |e: sqlx::Error| {
            let reason = format!("the lock database cannot be opened: {}", message(&e));
            unusable(path, &reason)
        };
        Ok(Self {
            write: pool().await.map_err(failed)?,
            read: pool().await.map_err(failed)?,
        })
    }

    /// Which statements fit the table that is there.
    pub(super) async fn dialect(&self, path: &Path) -> Result<Dialect, LockError> {
        let columns = sqlx::query(SQLITE_COLUMNS).fetch_all(&self.read).await;
        let failed = |e: sqlx::Error| unusable(path, &format!("cannot be read: {}", message(&e)));
        let mut body = None;
        for column in columns.map_err(failed)? {
            let name: String = column.try_get(0).map_err(failed)?;
            if name.eq_ignore_ascii_case("body") {
                body = Some(column.try_get::<String, _>(1).map_err(failed)?);
            }
        }
        match body {
            Some(declared) if declared.eq_ignore_ascii_case("TEXT") => Ok(SQLITE_TEXT),
            Some(_) => Ok(SQLITE),
            None => Err(unusable(
                path,
                "this SQLite database has no table `checkpoints(logID, body)`: it is not a \
                 lock database. Check `checkpoints` in the configuration",
            )),
        }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        // One sync per commit instead of three or four, and readers that do
        // not wait. FULL: in WAL mode, only that syncs every commit.
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // On Apple's systems fsync does not reach the disk; this does.
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

pub(super) fn unusable(path: &Path, reason: &str) -> LockError {
    LockError::Unusable {
        location: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

/// What SQLite said, and what to do about the usual cases.
pub(super) fn message(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(|e| e.code());
    let advice = match code.as_deref().and_then(|code| code.parse::<u32>().ok()) {
        Some(code) => match code & 0xff {
            5 | 6 => "; another process holds its write lock: find and end it",
            8 => "; file and directory must be writable by this user",
            13 => "; free space on its file system",
            11 | 26 => "; keep the file, and see docs/storage.md",
            14 => "; its directory must be writable too, for the -wal file",
            _ => "",
        },
        None => "",
    };
    format!("{error}{advice}")
}

/// Whether a process's connections can never write: they were opened while the
/// file could only be read, and stay so even if the file does not. (This is
/// SQLITE_READONLY without extension: with one, the file has been moved, say,
/// and the connections are all that still have it.)
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code());
    code.as_deref() == Some("8")
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
