//! Lock databases of SQLite: opening, making and using them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::Mutex;

use super::database_file::{
    DURABLE, DatabaseFile, FLAGS, connect, dialect, failed, is_read_only, is_refusal, message,
    unusable,
};
use super::dialect::{Dialect, SQLITE};
use super::{Change, Database, renewal};
use crate::{LockError, LogId};

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
        let path = path.to_owned();
        blocking(move || {
            renewal::complete(&path).map_err(|error| {
                let action = "put a copy of it (.renewed) in place";
                failed(&path, action, error.to_string())
            })?;
            let file = DatabaseFile::examine(&path)?;
            let connection = connect(&path)?;
            let dialect = dialect(&path, &connection)?;
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
                open: Arc::new(Mutex::new(open)),
            })
        })
        .await
    }

    /// Waits for the database, and then for what is to be done with it. That
    /// runs on a thread that may block, one for each database: a caller who
    /// leaves does not end it, and the next one waits until it is known what
    /// became of it.
    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut Open) -> Result<T, LockError> + Send + 'static,
    ) -> Result<T, LockError> {
        let silent = |_| {
            let reason = format!("its disk has not answered for {} s", PATIENCE.as_secs());
            failed(&self.path, action, reason)
        };
        let turn = tokio::time::timeout(PATIENCE, self.open.clone().lock_owned());
        let mut open = turn.await.map_err(silent)?;
        let working = tokio::task::spawn_blocking(move || work(&mut open));
        let answer = tokio::time::timeout(PATIENCE, working);
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

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    async fn close(&self) {
        let work = |open: &mut Open| {
            open.closed = true;
            match open.connection.take().map(Connection::close) {
                Some(Err((_, e))) => Err(failed(&open.file.path, "close", message(&e))),
                _ => Ok(()),
            }
        };
        if let Err(error) = self.run("close", work).await {
            tracing::warn!(%error, "the lock database is left as it is");
        }
    }
}

/// The last connection folds the write-ahead log when it is closed: not on a
/// thread that others need.
impl Drop for Open {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let close = move || drop(connection);
            // Without a thread it is closed here, with the closure.
            let _ = std::thread::Builder::new().spawn(close);
        }
    }
}

/// The change that a failed write was to make.
type Wanted = Option<(LogId, Vec<u8>)>;

struct Open {
    file: DatabaseFile,
    connection: Option<Connection>,
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
    fn ready(&mut self) -> Result<(), LockError> {
        if self.closed {
            let reason = "it was closed".into();
            return Err(failed(&self.file.path, "use it", reason));
        }
        if let (Some((reason, wanted)), Some(old)) = (&self.doubt, &self.connection) {
            tracing::warn!(
                path = %self.file.path.display(), reason,
                "a write to the lock database failed: its rows go into a new file"
            );
            let renewed = renewal::renew(&self.file.path, old, &self.known, wanted.as_ref());
            self.file.identity = renewed?;
            (self.doubt, self.folded, self.unfolded) = (None, true, 0);
            // The old file has no name any more: SQLite leaves it alone.
            self.connection = None;
        }
        if self.connection.is_none() {
            self.connection = Some(connect(&self.file.path)?);
        }
        if !self.folded {
            match self.fold(FOLD_ALL) {
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

    /// Runs a statement that writes; the number of rows that it changed.
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
        let done = match self.connected()?.execute(statement, parameters) {
            Ok(done) => done,
            Err(error) => {
                let said = message(&error);
                if is_read_only(&error) {
                    // The next one may be able to.
                    self.connection = None;
                } else if !is_refusal(&error) {
                    self.doubt = Some((said.clone(), wanted));
                }
                return Err(failed(&self.file.path, action, said));
            }
        };
        // A commit into a file that lost its name meanwhile is none.
        self.file.still_there()?;
        if let Some((log, body)) = wanted
            && done == 1
        {
            self.known.insert(log, body);
            self.unfolded += 1;
        }
        Ok(done)
    }

    /// SQLite would do it by itself, and not say if it failed.
    fn fold_now_and_then(&mut self) {
        if self.unfolded < FOLD_AFTER {
            return;
        }
        self.unfolded = 0;
        if let Err(error) = self.fold(FOLD)
            && !is_refusal(&error)
        {
            self.doubt = Some((message(&error), None));
        }
    }

    /// Returns whether all of the write-ahead log is in the database now. It is not
    /// while another process reads or writes.
    fn fold(&self, pragma: &'static str) -> rusqlite::Result<bool> {
        let Some(connection) = &self.connection else {
            return Ok(false);
        };
        let busy: i64 = connection.query_row(pragma, (), |row| row.get(0))?;
        Ok(busy == 0)
    }

    /// The connection, which [`ready`](Self::ready) has made sure of.
    fn connected(&self) -> Result<&Connection, LockError> {
        self.connection
            .as_ref()
            .ok_or_else(|| failed(&self.file.path, "use it", "it was closed".into()))
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

/// Creates the file with Sunlight's table in it. It has its name only once it is
/// whole: a crash leaves nothing that would have to be removed by hand.
pub(super) async fn create(path: &Path) -> Result<(), LockError> {
    let path = path.to_owned();
    blocking(move || create_file(&path)).await
}

fn create_file(path: &Path) -> Result<(), LockError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    crate::posix::make_durably(directory, 0o755).map_err(|e| unusable(path, &e.to_string()))?;
    let failed = |e: io::Error| unusable(path, &format!("the lock database cannot be made: {e}"));
    nothing_left(path)?;
    let new = renewal::beside(path, ".new");
    renewal::remove(&new).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&new).map_err(failed)?;
    create_table(&new)?;
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
                 lost\" in docs/how-to/operations.md",
                left.display()
            );
            return Err(unusable(path, &reason));
        }
    }
    Ok(())
}

fn create_table(path: &Path) -> Result<(), LockError> {
    let make = || {
        let connection = Connection::open_with_flags(path, FLAGS)?;
        // Without a write-ahead log, all of it is in the file.
        connection.execute_batch("PRAGMA journal_mode = DELETE")?;
        connection.execute_batch(DURABLE)?;
        connection.execute(SQLITE.schema, ())?;
        connection.close().map_err(|(_, e)| e)
    };
    make().map_err(|e| unusable(path, &format!("the table cannot be made: {e}")))?;
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|e| unusable(path, &format!("the table cannot be synced: {e}")))
}
