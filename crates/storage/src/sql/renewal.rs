//! A lock database after a write that failed: its rows go into a new file.
//!
//! ```text
//! <path>.new       the copy, while it is made; means nothing
//! <path>.renewed   the copy, whole and durable: it takes the place of <path>
//! ```
//!
//! What holds when the process or the machine dies:
//! - while `.new` is made: the old database, as it was. The next renewal, or
//!   nobody, removes what is left of the copy.
//! - once `.renewed` is there: it has every row that anybody was told of, and
//!   [`complete`] puts it in place, now or when the database is next opened.
//! - in [`complete`], in this order, each step durable before the next: the old
//!   write-ahead log is removed, for SQLite would play it back onto whatever
//!   file is beside it; the copy takes the database's name.
//!
//! The copy is in blocks of its own, and the old ones are never written again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use super::database_file::{Identity, connection, failed, identity, message, unusable};
use crate::{LockError, LogId};

const ACTION: &str = "renew it after a write that failed";

/// Copies the database at `path` and puts the copy in its place. `old` is the
/// connection whose write failed; it holds others off until then, and is of no
/// use afterwards. Returns which file is at `path` now.
///
/// A row that is in `known` must be what it was, or, if the write that failed
/// `wanted` that, what it was to become: nobody has been told which, so either
/// will do.
///
/// # Errors
/// [`LockError::Failed`] if it cannot be copied now, [`LockError::Unusable`] if
/// a row is neither. It may be tried again.
pub(super) fn renew(
    path: &Path,
    old: &Connection,
    known: &HashMap<LogId, Vec<u8>>,
    wanted: Option<&(LogId, Vec<u8>)>,
) -> Result<Identity, LockError> {
    // Of an attempt before; there may be none.
    let _ = old.execute("ROLLBACK", ());
    // Nobody commits to what will be replaced.
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
    let at = resolved(path)?;
    let new = beside(&at, ".new");
    blank(&at, &new)?;
    let said = |e: rusqlite::Error| failed(path, ACTION, message(&e));
    // All that is in it, whoever put it there.
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
                "after a write that failed, a row is neither what it was nor what it was to \
                 become. Keep the file and its -wal, check the disk, and see \
                 docs/reference/storage.md",
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

/// An empty file for the copy, with the rights of the database.
fn blank(at: &Path, new: &Path) -> Result<(), LockError> {
    let make = || -> io::Result<()> {
        remove(new)?;
        let rights = at.metadata()?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(rights.mode() & 0o777);
        let file = options.open(new)?;
        // Only root can give it to another user, and only then is it needed.
        let _ = std::os::unix::fs::fchown(&file, Some(rights.uid()), Some(rights.gid()));
        Ok(())
    };
    make().map_err(|e| failed(at, ACTION, e.to_string()))
}

fn rows(copy: &Path) -> rusqlite::Result<HashMap<Vec<u8>, Vec<u8>>> {
    // The copy has no write-ahead log, and must not get one under this name.
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut query = connection.prepare("SELECT logID, CAST(body AS BLOB) FROM checkpoints")?;
    let row = |row: &rusqlite::Row<'_>| {
        let column = |n| -> rusqlite::Result<_> { Ok(row.get_ref(n)?.as_bytes()?.to_vec()) };
        Ok((column(0)?, column(1)?))
    };
    query.query_map((), row)?.collect()
}

/// Finishes a renewal that a crash cut short, if there was one.
pub(super) fn complete(path: &Path) -> io::Result<()> {
    match path.canonicalize() {
        Ok(at) => complete_at(&at),
        // There is none, which its opening says better.
        Err(_) => Ok(()),
    }
}

fn complete_at(at: &Path) -> io::Result<()> {
    let renewed = beside(at, ".renewed");
    let file = match File::open(&renewed) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    // Two processes may come here. The second must not remove the write-ahead
    // log that the first has begun since.
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
    tracing::warn!(path = %at.display(), "the lock database is a new file, with all its rows");
    Ok(())
}

/// SQLite keeps its files beside what a symbolic link leads to.
fn resolved(path: &Path) -> Result<PathBuf, LockError> {
    path.canonicalize()
        .map_err(|e| failed(path, ACTION, e.to_string()))
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

fn sync_directory(of: &Path) -> io::Result<()> {
    File::open(of.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = [7; 32];

    /// A database with one row, and how it is renewed.
    async fn renewed(known: &[u8], wanted: &[u8]) -> (tempfile::TempDir, Result<(), LockError>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks.db");
        super::super::sqlite::create(&path).await.unwrap();
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
