//! Read access to an SQLite lock database while another process commits to it.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::database_file::{
    BUSY_TIMEOUT, DatabaseFile, dialect, failed, message, target, unusable,
};
use super::dialect::{Dialect, SQLITE};
use super::sqlite::blocking;
use super::{Change, Database, renewal};
use crate::{LockError, LogId};

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
            dialect(&path, &connect(&path)?)?;
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
            let reading = connect(&path)?;
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

    fn read_only(&self, action: &'static str) -> LockError {
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
            connect(&path)?
                .query_row(SQLITE.load, [log], body)
                .optional()
                .map_err(|e| failed(&path, "load the checkpoint", message(&e)))
        })
        .await
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        Err(self.read_only(change.action))
    }

    async fn probe(&self) -> Result<(), LockError> {
        Err(self.read_only("write"))
    }

    fn doubt(&self) -> Option<String> {
        self.file.doubt()
    }

    fn location(&self) -> String {
        self.file.path.display().to_string()
    }

    async fn close(&self) {}
}

fn connect(path: &Path) -> Result<Connection, LockError> {
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
