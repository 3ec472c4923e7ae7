//! Recovery of a lock database after a failed write: its rows are copied to a new file.
//!
//! ```text
//! <path>.new       the incomplete copy, which is ignored
//! <path>.renewed   the complete and durable copy, which replaces <path>
//! ```
//!
//! State after a crash of the process or the machine:
//! - While `.new` is being written, the old database is unchanged. The next renewal removes the
//!   incomplete copy.
//! - Once `.renewed` exists, it has every row that was ever reported to a caller. [`complete`]
//!   moves it into place, now or when the database is next opened.
//! - [`complete`] makes each step durable before the next. First it removes the old write-ahead
//!   log, because SQLite would replay the log onto any file of that name. Then it renames the copy
//!   to the name of the database.
//!
//! The copy uses new blocks, and the old blocks are never written again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use super::database_file::{Identity, connection, failed, identity, message, target, unusable};
use crate::{LockError, LogId};

const ACTION: &str = "renew it after a failed write";

/// Replaces the database at `path` with a copy. `old` is the connection whose write failed. `old`
/// blocks other writers until the replacement, and must not be used afterwards. Returns the
/// identity of the file at `path`.
///
/// A row in `known` must have its known value. If the failed write `wanted` to change the row, the
/// new value is accepted, too, because the write returned an error to its caller.
///
/// # Errors
/// [`LockError::Failed`] if the database cannot be copied now, [`LockError::Unusable`] if a row has
/// another value. The caller may retry.
pub(super) fn renew(
    path: &Path,
    old: &Connection,
    known: &HashMap<LogId, Vec<u8>>,
    wanted: Option<&(LogId, Vec<u8>)>,
) -> Result<Identity, LockError> {
    // Ends the transaction that an earlier attempt may have left open.
    let _ = old.execute("ROLLBACK", ());
    // Prevents commits to the file that will be replaced.
    let held = old.execute("BEGIN IMMEDIATE", ());
    held.map_err(|e| failed(path, ACTION, message(&e)))?;
    let copied = copy(path, known, wanted);
    if copied.is_err() {
        let _ = old.execute("ROLLBACK", ());
    }
    copied
}

fn copy(
    path: &Path,
    known: &HashMap<LogId, Vec<u8>>,
    wanted: Option<&(LogId, Vec<u8>)>,
) -> Result<Identity, LockError> {
    let at = target(path);
    let new = beside(&at, ".new");
    blank(&at, &new)?;
    let said = |e: rusqlite::Error| failed(path, ACTION, message(&e));
    // Copies every row, including the rows of other processes.
    let reading = connection(&at).map_err(said)?;
    let name = new.display().to_string();
    let copied = reading.execute("VACUUM INTO ?", [name]);
    let _ = reading.close();
    copied.map_err(said)?;
    let rows = rows(&new).map_err(said)?;
    for (log, body) in known {
        let found = rows.get(&log[..]);
        let pending = wanted.filter(|(wanted, _)| wanted == log);
        if found != Some(body) && found != pending.map(|(_, body)| body) {
            return Err(unusable(
                path,
                "after a failed write, a row has neither its old nor its new content. Keep the \
                 file and its -wal, check the disk, and see docs/reference/errors.md",
            ));
        }
    }
    let finish = || -> io::Result<Identity> {
        let file = File::open(&new)?;
        file.sync_all()?;
        std::fs::rename(&new, beside(&at, ".renewed"))?;
        sync_directory(&at)?;
        complete_at(&at)?;
        Ok(identity(&file.metadata()?))
    };
    finish().map_err(|e| failed(path, ACTION, e.to_string()))
}

/// Creates an empty file for the copy, with the permissions of the database.
fn blank(at: &Path, new: &Path) -> Result<(), LockError> {
    let made = remove(new).and_then(|()| create_like(at, new));
    made.map(drop)
        .map_err(|e| failed(at, ACTION, e.to_string()))
}

/// Creates an empty file with the permissions and the owner of the database.
pub(super) fn create_like(at: &Path, new: &Path) -> io::Result<File> {
    let rights = at.metadata()?;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(rights.mode() & 0o777);
    let file = options.open(new)?;
    // Only root can change the owner, and only root needs to.
    let _ = std::os::unix::fs::fchown(&file, Some(rights.uid()), Some(rights.gid()));
    Ok(file)
}

fn rows(copy: &Path) -> rusqlite::Result<HashMap<Vec<u8>, Vec<u8>>> {
    // Read-only, because the copy must not get a write-ahead log under this name.
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut query = connection.prepare("SELECT logID, CAST(body AS BLOB) FROM checkpoints")?;
    let row = |row: &rusqlite::Row<'_>| {
        let column = |n| -> rusqlite::Result<_> { Ok(row.get_ref(n)?.as_bytes()?.to_vec()) };
        Ok((column(0)?, column(1)?))
    };
    query.query_map((), row)?.collect()
}

/// Finishes a renewal that a crash interrupted, if any.
pub(super) fn complete(path: &Path) -> io::Result<()> {
    match path.canonicalize() {
        Ok(at) => complete_at(&at),
        // The database does not exist, which the caller reports in more detail.
        Err(_) => Ok(()),
    }
}

fn complete_at(at: &Path) -> io::Result<()> {
    let renewed = beside(at, ".renewed");
    let file = match File::open(&renewed) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    // Two processes may complete the same renewal. The second process must not remove the
    // write-ahead log that the first process has started since.
    flock(&file, FlockOperation::LockExclusive)?;
    match renewed.metadata() {
        Ok(found) if found.ino() == file.metadata()?.ino() => {}
        _ => return Ok(()),
    }
    for suffix in ["-wal", "-shm"] {
        remove(&beside(at, suffix))?;
    }
    sync_directory(at)?;
    std::fs::rename(&renewed, at)?;
    sync_directory(at)?;
    tracing::warn!(path = %at.display(), "the lock database was replaced by a new file with all \
                                          its rows");
    Ok(())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(super) fn sync_directory(of: &Path) -> io::Result<()> {
    File::open(of.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = [7; 32];

    /// Creates a database with one row and renews it.
    async fn renewed(known: &[u8], wanted: &[u8]) -> (tempfile::TempDir, Result<(), LockError>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks.db");
        super::super::database_file::create(&path).unwrap();
        let old = connection(&path).unwrap();
        let insert = "INSERT INTO checkpoints VALUES (?, ?)";
        old.execute(insert, (&LOG[..], &b"row"[..])).unwrap();
        let known = HashMap::from([(LOG, known.to_vec())]);
        let wanted = (LOG, wanted.to_vec());
        let before = path.metadata().unwrap().ino();
        let renewed = renew(&path, &old, &known, Some(&wanted));
        let after = path.metadata().unwrap();
        assert_eq!(renewed.is_ok(), after.ino() != before);
        assert_eq!(after.mode() & 0o777, 0o600);
        old.close().unwrap();
        let now = connection(&path).unwrap();
        let body = "SELECT body FROM checkpoints";
        let row: Vec<u8> = now.query_row(body, (), |row| row.get(0)).unwrap();
        assert_eq!(row, b"row");
        now.close().unwrap();
        assert!(!beside(&path, "-wal").exists());
        (directory, renewed.map(|_| ()))
    }

    #[tokio::test]
    async fn a_row_is_what_it_was_or_what_it_was_to_become() {
        for (known, wanted) in [(b"row", b"new"), (b"old", b"row")] {
            let (directory, done) = renewed(known, wanted).await;
            done.unwrap();
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[tokio::test]
    async fn a_row_that_is_neither_is_left_where_it_is() {
        let (_directory, refused) = renewed(b"old", b"new").await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, LockError::Unusable { .. }), "{refused}");
    }
}
