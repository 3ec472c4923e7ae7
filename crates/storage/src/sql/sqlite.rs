//! Lock databases of SQLite: opening, making and using them.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::dialect::{Dialect, SQLITE};
use super::{Change, Database, renewal};
use crate::{LockError, LogId};

/// SQLite as older versions of Sunlight made it, with `body TEXT`: written as
/// text, so that it stays readable for them.
const SQLITE_TEXT: Dialect = Dialect {
    create: "INSERT INTO checkpoints (logID, body) VALUES (?, CAST(? AS TEXT)) \
             ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = CAST(? AS TEXT) \
              WHERE logID = ? AND CAST(body AS BLOB) = ?",
    ..SQLITE
};

/// (table) → name and declared type of each column.
const SQLITE_COLUMNS: &str = "SELECT name, type FROM pragma_table_info('checkpoints')";

/// Holds what every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The time that a commit waits for other processes that write to the database (a
/// backup, an operator's shell).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a caller waits for its turn, and then for its answer. What it gave
/// up goes on, and nobody overtakes it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Commits after which the write-ahead log is folded into the database.
const FOLD_AFTER: u32 = 256;

/// Folds as much as it can without waiting for anybody.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Waits for others, folds everything, and truncates the log.
const FOLD_ALL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// One open database: one connection, which calls take turns on, in order.
/// SQLite has one writer at a time, whatever we do, and whoever reads a row has
/// to know what became of the write before.
pub(super) struct Sqlite {
    path: PathBuf,
    dialect: Dialect,
    open: Arc<Mutex<Open>>,
}

impl Sqlite {
    pub(super) async fn open(path: &Path) -> Result<Self, LockError> {
        let at = path.to_owned();
        let file = blocking(move || {
            renewal::complete(&at).map_err(|e| unusable(&at, &e))?;
            DatabaseFile::examine(&at)
        });
        let file = file.await?;
        let mut connection = connect(path).await?;
        let dialect = dialect(path, &mut connection).await?;
        let open = Open {
            file,
            connection: Some(connection),
            closed: false,
            folded: false,
            unfolded: 0,
            known: HashMap::new(),
            doubt: None,
        };
        Ok(Self {
            path: path.to_owned(),
            dialect,
            open: Arc::new(Mutex::new(open)),
        })
    }

    /// Waits for the database, and then for what is to be done with it. That
    /// runs in a task of its own: a caller who leaves does not end it, and the
    /// next one waits until it is known what became of it.
    async fn run<T, F>(
        &self,
        action: &'static str,
        work: impl FnOnce(OwnedMutexGuard<Open>) -> F,
    ) -> Result<T, LockError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LockError>> + Send + 'static,
    {
        let silent = |_| {
            let reason = format!("its disk has not answered for {} s", PATIENCE.as_secs());
            failed(&self.path, action, reason)
        };
        let turn = tokio::time::timeout(PATIENCE, self.open.clone().lock_owned());
        let open = turn.await.map_err(silent)?;
        let answer = tokio::time::timeout(PATIENCE, tokio::spawn(work(open)));
        let answer = answer.await.map_err(silent)?;
        answer.map_err(|panic| failed(&self.path, action, panic.to_string()))?
    }
}

#[async_trait]
impl Database for Sqlite {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let (log, statement) = (*log, self.dialect.load);
        let work =
            move |mut open: OwnedMutexGuard<Open>| async move { open.load(statement, log).await };
        self.run("load the checkpoint", work).await
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        let (action, statement) = (change.action, change.statement);
        let parameters: Vec<_> = change.parameters.iter().map(|p| p.to_vec()).collect();
        let (log, body) = (*change.log, change.body.to_vec());
        let work = move |mut open: OwnedMutexGuard<Open>| async move {
            let wanted = Some((log, body));
            let rows = open.write(action, statement, parameters, wanted).await?;
            open.fold_now_and_then().await;
            Ok(rows == 1)
        };
        self.run(action, work).await
    }

    async fn probe(&self) -> Result<(), LockError> {
        let statement = self.dialect.probe;
        let work = move |mut open: OwnedMutexGuard<Open>| async move {
            open.write("write", statement, Vec::new(), None).await?;
            Ok(())
        };
        self.run("write", work).await
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    async fn close(&self) {
        let work = |mut open: OwnedMutexGuard<Open>| async move {
            open.closed = true;
            if let Some(connection) = open.connection.take() {
                let closed = connection.close().await;
                closed.map_err(|e| failed(&open.file.path, "close", message(&e)))?;
            }
            Ok(())
        };
        if let Err(error) = self.run("close", work).await {
            tracing::warn!(%error, "the lock database is left as it is");
        }
    }
}

/// The change that a failed write was to make.
type Wanted = Option<(LogId, Vec<u8>)>;

struct Open {
    file: DatabaseFile,
    connection: Option<SqliteConnection>,
    closed: bool,
    /// True once what an earlier process left in the write-ahead log has been
    /// folded into the database: see [`Open::ready`].
    folded: bool,
    /// Commits since it was folded last.
    unfolded: u32,
    /// The rows that this process has read or committed, as they were then.
    known: HashMap<LogId, Vec<u8>>,
    /// A write or sync has failed, for this reason.
    doubt: Option<(String, Wanted)>,
}

impl Open {
    /// Makes sure that what is read, and what is written behind it, is on the
    /// disk and not only in the kernel's memory.
    ///
    /// After a write-back that failed, the kernel keeps the new bytes, calls
    /// them clean, and lets the next sync succeed. A frame of the write-ahead
    /// log that is lost in this way ends the log there at the next power cut
    /// or unmount: every commit behind it would be gone. So:
    ///
    /// - After any write or sync of ours that failed, neither file is used
    ///   again: [`renewal`] copies the rows into a new one.
    /// - What another process left behind, which may have died of that, is
    ///   folded into the database before anything is read or appended. That
    ///   writes each page that the log holds again, syncs it, and truncates the
    ///   log. A crash in between leaves the log whole, or ends it before the
    ///   commit that failed, which nobody was told of.
    async fn ready(&mut self) -> Result<(), LockError> {
        if self.closed {
            let reason = "it was closed".into();
            return Err(failed(&self.file.path, "use it", reason));
        }
        if let (Some((reason, wanted)), Some(old)) = (&self.doubt, &mut self.connection) {
            tracing::warn!(
                path = %self.file.path.display(), reason,
                "a write to the lock database failed: its rows go into a new file"
            );
            let renewed = renewal::renew(&self.file.path, old, &self.known, wanted.as_ref());
            self.file.identity = renewed.await?;
            (self.doubt, self.folded, self.unfolded) = (None, true, 0);
            // The old file has no name any more: SQLite leaves it alone.
            self.disconnect().await;
        }
        if self.connection.is_none() {
            self.connection = Some(connect(&self.file.path).await?);
        }
        if !self.folded {
            match self.fold(FOLD_ALL).await {
                // Not all of it if somebody else is at work: then nothing was left
                // behind, and what they append is theirs to answer for.
                Ok(_) => self.folded = true,
                // Then nothing can be written either, and what is there is shown.
                Err(error) if is_read_only(&error) => {}
                Err(error) => {
                    return Err(failed(&self.file.path, "fold its log", message(&error)));
                }
            }
        }
        Ok(())
    }

    async fn load(
        &mut self,
        statement: &'static str,
        log: LogId,
    ) -> Result<Option<Vec<u8>>, LockError> {
        self.ready().await?;
        let row = sqlx::query_scalar(statement).bind(log.to_vec());
        let row = match &mut self.connection {
            Some(connection) => row.fetch_optional(connection).await,
            None => Err(sqlx::Error::PoolClosed),
        };
        let row: Option<Vec<u8>> =
            row.map_err(|e| failed(&self.file.path, "load the checkpoint", message(&e)))?;
        if let Some(body) = &row {
            self.known.insert(log, body.clone());
        }
        Ok(row)
    }

    /// Runs a statement that writes; the number of rows that it changed.
    async fn write(
        &mut self,
        action: &'static str,
        statement: &'static str,
        parameters: Vec<Vec<u8>>,
        wanted: Wanted,
    ) -> Result<u64, LockError> {
        self.ready().await?;
        self.still_there().await?;
        let mut query = sqlx::query(statement);
        for parameter in parameters {
            query = query.bind(parameter);
        }
        let done = match &mut self.connection {
            Some(connection) => query.execute(connection).await,
            None => Err(sqlx::Error::PoolClosed),
        };
        let done = match done {
            Ok(done) => done.rows_affected(),
            Err(error) => {
                let said = message(&error);
                if is_read_only(&error) {
                    // The next one may be able to.
                    self.disconnect().await;
                } else if !is_refusal(&error) {
                    self.doubt = Some((said.clone(), wanted));
                }
                return Err(failed(&self.file.path, action, said));
            }
        };
        // A commit into a file that lost its name meanwhile is none.
        self.still_there().await?;
        if let Some((log, body)) = wanted
            && done == 1
        {
            self.known.insert(log, body);
            self.unfolded += 1;
        }
        Ok(done)
    }

    /// SQLite would do it by itself, and not say if it failed.
    async fn fold_now_and_then(&mut self) {
        if self.unfolded < FOLD_AFTER {
            return;
        }
        self.unfolded = 0;
        if let Err(error) = self.fold(FOLD).await
            && !is_refusal(&error)
        {
            self.doubt = Some((message(&error), None));
        }
    }

    /// Returns whether all of the write-ahead log is in the database now. It is not
    /// while another process reads or writes.
    async fn fold(&mut self, pragma: &'static str) -> Result<bool, sqlx::Error> {
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let row = sqlx::query(pragma).fetch_one(connection).await?;
        let busy: i64 = row.try_get(0)?;
        Ok(busy == 0)
    }

    async fn disconnect(&mut self) {
        if let Some(old) = self.connection.take() {
            let _ = old.close().await;
        }
    }

    async fn still_there(&self) -> Result<(), LockError> {
        let file = self.file.clone();
        blocking(move || file.still_there()).await
    }
}

/// Runs what asks the file system where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LockError> + Send + 'static,
) -> Result<T, LockError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// A file, and which one it was when it was opened.
#[derive(Clone, Debug)]
struct DatabaseFile {
    path: PathBuf,
    identity: Identity,
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

/// Creates the file with Sunlight's table in it. It has its name only once it is
/// whole: a crash leaves nothing that would have to be removed by hand.
pub(super) async fn create(path: &Path) -> Result<(), LockError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    crate::posix::make_durably(directory, 0o755).map_err(|e| unusable(path, &e.to_string()))?;
    let failed = |e: io::Error| unusable(path, &format!("the lock database cannot be made: {e}"));
    nothing_left(path)?;
    let new = renewal::beside(path, ".new");
    renewal::remove(&new).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&new).map_err(failed)?;
    create_table(&new).await?;
    // Unlike a rename, this never takes the place of another.
    let named = std::fs::hard_link(&new, path);
    renewal::remove(&new).map_err(failed)?;
    named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            unusable(path, "exists already; a lock database is never overwritten")
        }
        _ => failed(e),
    })?;
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|e| unusable(path, &format!("its directory cannot be synced: {e}")))
}

/// Refuses where a database that is gone has left commits behind. SQLite would
/// play its write-ahead log back onto the new one, and without it they would be lost.
fn nothing_left(path: &Path) -> Result<(), LockError> {
    if path.exists() {
        // It is not gone; that it is not overwritten is said later.
        return Ok(());
    }
    for suffix in ["-wal", ".renewed"] {
        let left = renewal::beside(path, suffix);
        if left.metadata().is_ok_and(|left| left.len() > 0) {
            let reason = format!(
                "the lock database is gone, and {} has commits of it. Put the database back beside \
                 it. Only if that is lost for good, move this file away, and see \"The lock is \
                 lost\" in docs/operations.md",
                left.display()
            );
            return Err(unusable(path, &reason));
        }
    }
    Ok(())
}

async fn create_table(path: &Path) -> Result<(), LockError> {
    let failed = |e: sqlx::Error| unusable(path, &format!("the table cannot be made: {e}"));
    // Without a write-ahead log, all of it is in the file.
    let options = options(path).journal_mode(SqliteJournalMode::Delete);
    let mut connection = options.connect().await.map_err(failed)?;
    let made = sqlx::query(SQLITE.schema).execute(&mut connection).await;
    made.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|e| unusable(path, &format!("the table cannot be synced: {e}")))
}

async fn connect(path: &Path) -> Result<SqliteConnection, LockError> {
    options(path).connect().await.map_err(|e| {
        let reason = format!("the lock database cannot be opened: {}", message(&e));
        unusable(path, &reason)
    })
}

/// Which statements fit the table that is there.
async fn dialect(path: &Path, connection: &mut SqliteConnection) -> Result<Dialect, LockError> {
    let columns = sqlx::query(SQLITE_COLUMNS).fetch_all(connection).await;
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

pub(super) fn options(path: &Path) -> SqliteConnectOptions {
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
        // We do it ourselves, and look whether it succeeds.
        .pragma("wal_autocheckpoint", "0")
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

pub(super) fn unusable(path: &Path, reason: &str) -> LockError {
    LockError::Unusable {
        location: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

pub(super) fn failed(path: &Path, action: &'static str, reason: String) -> LockError {
    LockError::Failed {
        location: path.display().to_string(),
        action,
        reason,
    }
}

/// Returns what SQLite said, and what to do about the usual cases.
pub(super) fn message(error: &sqlx::Error) -> String {
    let advice = match code(error) {
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

/// SQLite's own, extended result code.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse().ok()
}

/// Returns whether SQLite refused before it wrote anything: busy, locked, read-only, or
/// against a constraint. Of anything else it is not known what it left.
fn is_refusal(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & 0xff, 5 | 6 | 8 | 19))
}

/// Returns whether a process's connections can never write: they were opened while the
/// file could only be read, and stay so even if the file does not. (This is
/// SQLITE_READONLY without extension: with one, the file has been moved, say,
/// and the connections are all that still have it.)
fn is_read_only(error: &sqlx::Error) -> bool {
    code(error) == Some(8)
}

/// Device and inode.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}
