//! Lock databases of SQLite: opening, making and using them.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Row};

use super::dialect::{Dialect, SQLITE, SQLITE_COLUMNS, SQLITE_TEXT};
use super::{Change, Database};
use crate::{LockError, LogId};

/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// How long a commit waits for other processes that write to the database (a
/// backup, an operator's shell).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// One open database.
pub(super) struct Sqlite {
    file: DatabaseFile,
    pools: Pools,
    dialect: Dialect,
}

impl Sqlite {
    pub(super) async fn open(path: &Path) -> Result<Self, LockError> {
        let file = DatabaseFile::examine(path)?;
        let pools = Pools::open(path).await?;
        let dialect = pools.dialect(path).await?;
        Ok(Self {
            file,
            pools,
            dialect,
        })
    }

    fn failed(&self, action: &'static str) -> impl Fn(sqlx::Error) -> LockError {
        let location = self.location();
        move |e| LockError::Failed {
            location: location.clone(),
            action,
            reason: message(&e),
        }
    }

    /// Runs a statement that writes; the number of rows that it changed.
    async fn write(
        &self,
        action: &'static str,
        statement: &'static str,
        parameters: &[&[u8]],
    ) -> Result<u64, LockError> {
        let failed = self.failed(action);
        let mut connection = self.pools.write.acquire().await.map_err(&failed)?;
        let mut query = sqlx::query(statement);
        for parameter in parameters {
            query = query.bind(*parameter);
        }
        let done = query.execute(&mut *connection).await;
        if done.as_ref().is_err_and(is_read_only) {
            // The next ones may write, if none of these is left.
            let _ = connection.close().await;
            if let Ok(reading) = self.pools.read.acquire().await {
                let _ = reading.close().await;
            }
        }
        done.map(|done| done.rows_affected()).map_err(failed)
    }
}

#[async_trait]
impl Database for Sqlite {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let row = sqlx::query_scalar(self.dialect.load).bind(&log[..]);
        let row = row.fetch_optional(&self.pools.read).await;
        row.map_err(self.failed("load the checkpoint"))
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        self.file.still_there()?;
        let rows = self.write(change.action, change.statement, change.parameters);
        Ok(rows.await? == 1)
    }

    async fn probe(&self) -> Result<(), LockError> {
        self.file.still_there()?;
        self.write("write", self.dialect.probe, &[]).await?;
        Ok(())
    }

    fn location(&self) -> String {
        self.file.path.display().to_string()
    }

    async fn close(&self) {
        self.pools.read.close().await;
        self.pools.write.close().await;
    }
}

/// A file, and which one it was when it was opened.
#[derive(Debug)]
struct DatabaseFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl DatabaseFile {
    /// Refuses whatever is not an existing SQLite file.
    fn examine(path: &Path) -> Result<Self, LockError> {
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

    /// Refuses if the path leads to another file than the one that is open:
    /// commits would go to a file that nobody will find again.
    fn still_there(&self) -> Result<(), LockError> {
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
    let made = sqlx::query(SQLITE.schema).execute(&mut connection).await;
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
struct Pools {
    write: SqlitePool,
    read: SqlitePool,
}

impl Pools {
    async fn open(path: &Path) -> Result<Self, LockError> {
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
    async fn dialect(&self, path: &Path) -> Result<Dialect, LockError> {
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

fn unusable(path: &Path, reason: &str) -> LockError {
    LockError::Unusable {
        location: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

/// What SQLite said, and what to do about the usual cases.
fn message(error: &sqlx::Error) -> String {
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
fn is_read_only(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code());
    code.as_deref() == Some("8")
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
