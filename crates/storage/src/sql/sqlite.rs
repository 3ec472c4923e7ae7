//! Lock databases of SQLite, open for commits ([`Sqlite`]) or for reading while another process
//! commits ([`Looking`]).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use tokio::sync::Mutex;

use super::database_file::{
    BUSY_TIMEOUT, DatabaseFile, connect, dialect, failed, is_read_only, is_refusal, mark, message,
    target, unusable,
};
use super::dialect::{Dialect, SQLITE};
use super::{Change, Database, database_file, renewal};
use crate::{LockError, LogId};

/// Time that a caller waits for its turn, and then for its result. An abandoned job continues, and
/// no later job overtakes it.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of commits after which the write-ahead log is copied into the database.
const FOLD_AFTER: u32 = 256;

/// Copies as much as possible without waiting for other connections.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Waits for other connections, copies everything, and truncates the log.
const FOLD_ALL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// An open database with one connection, which calls use in turn. SQLite has one writer at a time
/// anyway, and a reader of a row must know the result of the write before.
pub(super) struct Sqlite {
    path: PathBuf,
    dialect: Dialect,
    /// See [`Lock::doubt`](crate::Lock::doubt).
    doubt: Option<String>,
    open: Arc<Mutex<Open>>,
}

impl Sqlite {
    pub(super) async fn open(path: &Path) -> Result<Self, LockError> {
        let path = path.to_owned();
        blocking(move || {
            renewal::complete(&path).map_err(|error| {
                let action = "replace the lock database with its copy (.renewed)";
                failed(&path, action, error.to_string())
            })?;
            let file = DatabaseFile::examine(&path)?;
            let connection = connect(&path)?;
            let dialect = dialect(&path, &connection)?;
            let doubt = file.doubt();
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
                path,
                dialect,
                doubt,
                open: Arc::new(Mutex::new(open)),
            })
        })
        .await
    }

    /// Creates the database that [`open`](Self::open) opens.
    pub(super) async fn create(path: &Path) -> Result<(), LockError> {
        let path = path.to_owned();
        blocking(move || database_file::create(&path)).await
    }

    /// Waits for the database, and then for `work`. The work runs on a thread that may block, one
    /// for each database. A caller that gives up does not end the work, and the next caller waits
    /// until its result is known.
    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut Open) -> Result<T, LockError> + Send + 'static,
    ) -> Result<T, LockError> {
        let silent = |_| {
            let reason = format!(
                "the disk of the lock database has not responded for {} s",
                DISK_TIMEOUT.as_secs()
            );
            failed(&self.path, action, reason)
        };
        let turn = tokio::time::timeout(DISK_TIMEOUT, self.open.clone().lock_owned());
        let mut open = turn.await.map_err(silent)?;
        let working = tokio::task::spawn_blocking(move || work(&mut open));
        let answer = tokio::time::timeout(DISK_TIMEOUT, working);
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
        let load = move |open: &mut Open| open.load(statement, log);
        self.run("load the checkpoint", load).await
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        let (action, statement) = (change.action, change.statement);
        let parameters: Vec<_> = change.parameters.iter().map(|p| p.to_vec()).collect();
        let (log, body) = (*change.log, change.body.to_vec());
        let work = move |open: &mut Open| {
            let rows = open.write(action, statement, parameters, Some((log, body)))?;
            open.fold_now_and_then();
            Ok(rows == 1)
        };
        self.run(action, work).await
    }

    async fn probe(&self) -> Result<(), LockError> {
        let statement = self.dialect.probe;
        let work = move |open: &mut Open| open.write("write", statement, Vec::new(), None);
        self.run("write", work).await.map(|_| ())
    }

    fn doubt(&self) -> Option<String> {
        self.doubt.clone()
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    async fn close(&self) {
        let work = |open: &mut Open| {
            open.closed = true;
            let connection = open.connection.take();
            if let Some(connection) = connection.as_ref().filter(|_| open.doubt.is_none()) {
                open.file.part(connection);
            }
            match connection.map(Connection::close) {
                Some(Err((_, e))) => Err(failed(&open.file.path, "close", message(&e))),
                _ => Ok(()),
            }
        };
        if let Err(error) = self.run("close", work).await {
            tracing::warn!(%error, "the lock database was not closed");
        }
    }
}

/// Closes the connection on a separate thread: the last connection copies the write-ahead log,
/// which may take long.
impl Drop for Open {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let (file, is_sound) = (self.file.clone(), self.doubt.is_none());
            let close = move || {
                if is_sound {
                    file.part(&connection);
                }
                drop(connection);
            };
            // If no thread can be started, the closure is dropped here and closes the connection.
            let _ = std::thread::Builder::new().spawn(close);
        }
    }
}

/// The change that a failed write tried to make.
type Wanted = Option<(LogId, Vec<u8>)>;

struct Open {
    file: DatabaseFile,
    connection: Option<Connection>,
    closed: bool,
    /// Whether the write-ahead log of an earlier process has been copied into the database: see
    /// [`Open::ready`].
    folded: bool,
    /// Number of commits since the last copy.
    unfolded: u32,
    /// The rows that this process has read or committed, with their values at that time.
    known: HashMap<LogId, Vec<u8>>,
    /// The reason why a write or sync has failed, with its change.
    doubt: Option<(String, Wanted)>,
}

impl Open {
    /// Ensures that everything read, and everything written after it, is on the disk and not only
    /// in the kernel's memory.
    ///
    /// After a failed write-back, the kernel keeps the new bytes, marks them clean, and lets the
    /// next sync succeed. If a frame of the write-ahead log is lost in this way, the log ends at
    /// that frame after the next power failure or unmount: all later commits are lost. Therefore:
    /// - After a failed write or sync of this process, neither file is used again: [`renewal`]
    ///   copies the rows to a new file.
    /// - Another process may have died from such a failure. The log that it left is copied into the
    ///   database before anything is read or appended. The copy writes each page of the log again,
    ///   syncs it, and truncates the log. A crash in between leaves the log complete, or ends it
    ///   before the failed commit, which was never reported to a caller.
    fn ready(&mut self) -> Result<(), LockError> {
        if self.closed {
            let reason = "the lock was closed".into();
            return Err(failed(&self.file.path, "use it", reason));
        }
        if let (Some((reason, wanted)), Some(old)) = (&self.doubt, &self.connection) {
            tracing::warn!(
                path = %self.file.path.display(), reason,
                "a write to the lock database failed: copying its rows to a new file"
            );
            let renewed = renewal::renew(&self.file.path, old, &self.known, wanted.as_ref());
            self.file.identity = renewed?;
            (self.doubt, self.folded, self.unfolded) = (None, true, 0);
            // The old file no longer has a name: SQLite does not touch it.
            self.connection = None;
        }
        if self.connection.is_none() {
            self.connection = Some(connect(&self.file.path)?);
        }
        if !self.folded {
            match self.fold(FOLD_ALL) {
                // If another process is working, not all of the log is copied. That process is
                // alive, so nothing was left behind, and it is responsible for its own commits.
                Ok(_) => {
                    self.folded = true;
                    self.unmark()?;
                }
                // The database cannot be written either, and its content can still be read.
                Err(error) if is_read_only(&error) => {}
                Err(error) => {
                    return Err(failed(
                        &self.file.path,
                        "checkpoint its write-ahead log",
                        message(&error),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Removes the mark of an earlier process that was killed: its whole log is in the database
    /// now.
    fn unmark(&mut self) -> Result<(), LockError> {
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let unmarked = self.file.unmark(connection);
        match unmarked.and_then(|changed| {
            if changed {
                self.fold(FOLD_ALL)
            } else {
                Ok(true)
            }
        }) {
            Err(error) if !is_refusal(&error) => {
                let said = message(&error);
                self.doubt = Some((said.clone(), None));
                Err(failed(&self.file.path, "remove its mark", said))
            }
            _ => Ok(()),
        }
    }

    fn load(&mut self, statement: &'static str, log: LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.ready()?;
        let body = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes()?.to_vec());
        let row = self.connected()?.query_row(statement, [log], body);
        let row = row
            .optional()
            .map_err(|e| failed(&self.file.path, "load the checkpoint", message(&e)))?;
        if let Some(body) = &row {
            self.known.insert(log, body.clone());
        }
        Ok(row)
    }

    /// Runs a statement that writes, and returns the number of changed rows.
    fn write(
        &mut self,
        action: &'static str,
        statement: &'static str,
        parameters: Vec<Vec<u8>>,
        wanted: Wanted,
    ) -> Result<usize, LockError> {
        self.ready()?;
        self.file.still_there()?;
        let parameters = rusqlite::params_from_iter(parameters);
        let prepared = self.connected()?.prepare_cached(statement);
        let done = match prepared.and_then(|mut prepared| prepared.execute(parameters)) {
            Ok(done) => done,
            Err(error) => {
                let said = message(&error);
                if is_read_only(&error) {
                    // A new connection may be able to write.
                    self.connection = None;
                } else if !is_refusal(&error) {
                    self.doubt = Some((said.clone(), wanted));
                }
                return Err(failed(&self.file.path, action, said));
            }
        };
        // A commit to a file that was removed or replaced would be lost.
        self.file.still_there()?;
        if let Some((log, body)) = wanted
            && done == 1
        {
            self.known.insert(log, body);
            self.unfolded += 1;
            // The log continues with this database: nothing is missing.
            self.file.lacks_log = false;
        }
        Ok(done)
    }

    /// Marks the database as in use. Copies the write-ahead log into the database at intervals, and
    /// at once with a new mark, because another process may have removed the mark. SQLite's own
    /// copying would not report a failure.
    fn fold_now_and_then(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        let folded = match mark(connection, true) {
            Ok(true) => self.fold(FOLD),
            Err(error) if !is_refusal(&error) => Err(error),
            _ if self.unfolded >= FOLD_AFTER => self.fold(FOLD),
            _ => return,
        };
        self.unfolded = 0;
        if let Err(error) = folded
            && !is_refusal(&error)
        {
            self.doubt = Some((message(&error), None));
        }
    }

    /// Copies the write-ahead log into the database. Returns `false` if another process blocks
    /// [`FOLD_ALL`], or there is no connection.
    fn fold(&self, pragma: &'static str) -> rusqlite::Result<bool> {
        let Some(connection) = &self.connection else {
            return Ok(false);
        };
        let busy: i64 = connection.query_row(pragma, (), |row| row.get(0))?;
        Ok(busy == 0)
    }

    /// Returns the connection, which [`ready`](Self::ready) has opened.
    fn connected(&self) -> Result<&Connection, LockError> {
        self.connection
            .as_ref()
            .ok_or_else(|| failed(&self.file.path, "use it", "the lock was closed".into()))
    }
}

/// A reader of an SQLite database that opens and closes the database for each read, so that commits
/// and checkpoints of the write-ahead log never wait for the reader.
pub(super) struct Looking {
    /// The database itself, if the path of `file` is a symbolic link.
    path: PathBuf,
    file: DatabaseFile,
}

impl Looking {
    /// Finds the database and returns a reader for it.
    pub(super) async fn into(path: &Path) -> Result<Self, LockError> {
        let given = path.to_owned();
        blocking(move || {
            let path = target(&given);
            let renewed = renewal::beside(&path, ".renewed");
            if renewed.exists() {
                let reason = format!(
                    "a crash interrupted the replacement of this database by {}, which has all \
                     rows: start Lucarne to complete the replacement",
                    renewed.display()
                );
                return Err(unusable(&given, &reason));
            }
            let file = DatabaseFile::examine(&given)?;
            dialect(&path, &read_only(&path)?)?;
            Ok(Self { path, file })
        })
        .await
    }

    /// See [`SqlLock::copy`](super::SqlLock::copy).
    pub(super) async fn copy(&self, to: &Path) -> Result<(), LockError> {
        if let Some(doubt) = self.file.doubt() {
            return Err(unusable(&self.file.path, &doubt));
        }
        let (path, to) = (self.path.clone(), to.to_owned());
        blocking(move || {
            let reading = read_only(&path)?;
            let file = renewal::create_like(&path, &to)
                .map_err(|e| unusable(&to, &format!("cannot be created: {e}")))?;
            let copied = reading.execute("VACUUM INTO ?", [to.display().to_string()]);
            copied.map_err(|e| {
                let _ = renewal::remove(&to);
                failed(&path, "copy it", message(&e))
            })?;
            let sync = || {
                file.sync_all()?;
                renewal::sync_directory(&std::path::absolute(&to)?)
            };
            sync().map_err(|e| failed(&to, "sync it", e.to_string()))
        })
        .await
    }

    fn refused(&self, action: &'static str) -> LockError {
        let reason = "the lock was opened for reading only".into();
        failed(&self.file.path, action, reason)
    }
}

#[async_trait]
impl Database for Looking {
    fn dialect(&self) -> &Dialect {
        &SQLITE
    }

    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let (path, log) = (self.path.clone(), *log);
        blocking(move || {
            let body = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes()?.to_vec());
            read_only(&path)?
                .query_row(SQLITE.load, [log], body)
                .optional()
                .map_err(|e| failed(&path, "load the checkpoint", message(&e)))
        })
        .await
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        Err(self.refused(change.action))
    }

    async fn probe(&self) -> Result<(), LockError> {
        Err(self.refused("write"))
    }

    fn doubt(&self) -> Option<String> {
        self.file.doubt()
    }

    fn location(&self) -> String {
        self.file.path.display().to_string()
    }

    async fn close(&self) {}
}

fn read_only(path: &Path) -> Result<Connection, LockError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri(path), flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    };
    open().map_err(|e: rusqlite::Error| {
        let reason = format!("the lock database cannot be read: {}", message(&e));
        unusable(path, &reason)
    })
}

/// Returns the URI that opens the database for reading. If there is no write-ahead log, no process
/// has the database open. SQLite would then create a log just for reading, and leave it behind; the
/// `immutable` flag prevents that.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for c in path.display().to_string().chars() {
        match c {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            c => uri.push(c),
        }
    }
    uri.push_str("?mode=ro");
    let left = |suffix| renewal::beside(path, suffix).exists();
    if !left("-wal") && !left("-journal") {
        uri.push_str("&immutable=1");
    }
    uri
}

/// Runs file system operations on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LockError> + Send + 'static,
) -> Result<T, LockError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
