//! The file of an SQLite lock database: its creation, its checks, its connections and its error
//! messages.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::dialect::{Dialect, SQLITE};
use super::renewal;
use crate::LockError;

/// The table of older versions of Sunlight, with `body TEXT`. Values are written as text, so that
/// Sunlight can still read them.
const SQLITE_TEXT: Dialect = Dialect {
    create: "INSERT INTO checkpoints (logID, body) VALUES (?, CAST(? AS TEXT)) \
             ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = CAST(? AS TEXT) \
              WHERE logID = ? AND CAST(body AS BLOB) = ?",
    ..SQLITE
};

/// Query of the columns of the table: name and declared type.
const SQLITE_COLUMNS: &str = "SELECT name, type FROM pragma_table_info('checkpoints')";

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Action in the message for a lock that cannot be opened at the moment.
const OPEN: &str = "open it";

/// Time that a commit waits for other processes that write to the database, such as a backup or an
/// operator's shell.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A file with its identity at the time of opening.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// Whether the write-ahead log is missing, and with it perhaps the newest commits.
    pub(super) lacks_log: bool,
}

impl DatabaseFile {
    /// Fails unless `path` is an existing SQLite file.
    pub(super) fn examine(path: &Path) -> Result<Self, LockError> {
        let metadata = path.metadata().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => unusable(
                path,
                "the lock database does not exist. If the path is correct and no log was ever \
                 created with it, run `lucarne init`; otherwise restore the database or mount its \
                 file system",
            ),
            io::ErrorKind::PermissionDenied => {
                unusable(path, &format!("the lock database cannot be opened: {e}"))
            }
            _ => failed(path, OPEN, e.to_string()),
        })?;
        if metadata.is_dir() {
            let reason = "this is a directory; the lock database is a file";
            return Err(unusable(path, reason));
        }
        let mut start = [0; 64];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
        match read {
            Ok(()) if start.starts_with(MAGIC) => Ok(Self {
                path: path.to_owned(),
                identity: identity(&metadata),
                lacks_log: is_in_use(&start) && !renewal::beside(&target(path), "-wal").exists(),
            }),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(unusable(
                path,
                &format!("the lock database cannot be read: {e}"),
            )),
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => {
                Err(failed(path, OPEN, e.to_string()))
            }
            _ => Err(unusable(
                path,
                "this file is not an SQLite database. Check `checkpoints` in the configuration",
            )),
        }
    }

    /// See [`Lock::doubt`](crate::Lock::doubt).
    pub(super) fn doubt(&self) -> Option<String> {
        self.lacks_log.then(|| {
            "the lock database was not closed, and its -wal file is missing. If this is a copy of a \
             lock, its newest checkpoints may be missing, and no log must sign with it: copy the \
             lock with `lucarne lock copy`. If it is not a copy, start the server once, and \
             stop it"
                .into()
        })
    }

    /// Removes the mark of a database in use, unless the newest commits may be missing. Returns
    /// whether there was a mark.
    pub(super) fn unmark(&self, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(!self.lacks_log && mark(connection, false)?)
    }

    /// Removes the mark before the connection is closed: the last connection removes the
    /// write-ahead log. A file that is no longer the lock remains unchanged.
    pub(super) fn part(&self, connection: &Connection) {
        if self.still_there().is_ok() {
            let _ = self.unmark(connection);
        }
    }

    /// Fails if the path no longer leads to the open file. Otherwise, commits would go to a file
    /// that no process finds again.
    pub(super) fn still_there(&self) -> Result<(), LockError> {
        match self.path.metadata() {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            _ => Err(unusable(
                &self.path,
                "the lock database was removed or replaced while in use. Only this process has \
                 its newest state: save the checkpoints before you stop it, and see \
                 docs/reference/errors.md",
            )),
        }
    }
}

/// Creates the file with Sunlight's table. The file gets its name only when it is complete: a crash
/// leaves nothing that must be removed by hand.
pub(super) fn create(path: &Path) -> Result<(), LockError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    crate::posix::make_durably(directory, 0o755).map_err(|e| unusable(path, &e.to_string()))?;
    let failed =
        |e: io::Error| unusable(path, &format!("the lock database cannot be created: {e}"));
    nothing_left(path)?;
    let new = renewal::beside(path, ".new");
    renewal::remove(&new).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&new).map_err(failed)?;
    create_table(&new)?;
    // Unlike a rename, a hard link never replaces an existing file.
    let named = std::fs::hard_link(&new, path);
    renewal::remove(&new).map_err(failed)?;
    named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            unusable(path, "exists already; a lock database is never overwritten")
        }
        _ => failed(e),
    })?;
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|e| unusable(path, &format!("the directory cannot be synced: {e}")))
}

/// Fails if a removed database has left commits behind. SQLite would replay its write-ahead log
/// onto the new database; removing the log would lose the commits.
fn nothing_left(path: &Path) -> Result<(), LockError> {
    if path.exists() {
        // The database exists; the caller refuses to overwrite it later.
        return Ok(());
    }
    for suffix in ["-wal", ".renewed"] {
        let left = renewal::beside(path, suffix);
        if left.metadata().is_ok_and(|left| left.len() > 0) {
            let reason = format!(
                "the lock database is missing, and {} has its latest commits. Restore the database \
                 next to this file. Only if the database is lost, move this file away, and see \
                 \"The lock is lost\" in docs/how-to/disaster-recovery.md",
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
        // Without a write-ahead log, all content is in the file.
        connection.execute_batch("PRAGMA journal_mode = DELETE")?;
        connection.execute_batch(DURABLE)?;
        connection.execute(SQLITE.schema, ())?;
        connection.close().map_err(|(_, e)| e)
    };
    make().map_err(|e| unusable(path, &format!("the table cannot be created: {e}")))?;
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|e| unusable(path, &format!("the table cannot be synced: {e}")))
}

/// Returns the target of symbolic links, if there is one: SQLite keeps its other files next to the
/// target.
pub(super) fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Value of `PRAGMA user_version` while a process commits to the database. The write-ahead log then
/// has commits that the database lacks.
const IN_USE: i32 = i32::from_be_bytes(*b"Luca");

/// Returns whether the first bytes of a file are the header of a database in WAL mode whose process
/// has not closed it.
fn is_in_use(header: &[u8; 64]) -> bool {
    header[18] == 2 && header[60..] == IN_USE.to_be_bytes()
}

/// Marks the database as in use, or as closed, and returns whether the mark was changed. Other
/// values of `user_version` remain.
pub(super) fn mark(connection: &Connection, in_use: bool) -> rusqlite::Result<bool> {
    let (old, new) = if in_use { (0, IN_USE) } else { (IN_USE, 0) };
    let mut query = connection.prepare_cached("PRAGMA user_version")?;
    let found: i32 = query.query_row((), |row| row.get(0))?;
    if found == old {
        connection.pragma_update(None, "user_version", new)?;
    }
    Ok(found == old)
}

pub(super) fn connect(path: &Path) -> Result<Connection, LockError> {
    connection(path).map_err(|e| not_opened(path, "the lock database cannot be opened", &e))
}

/// Distinguishes a file that is not a lock database from temporary conditions: a full disk, an
/// exceeded quota, an I/O error or a busy file. After a temporary condition the lock is opened
/// again.
fn not_opened(path: &Path, problem: &str, error: &rusqlite::Error) -> LockError {
    let said = message(error);
    match code(error).map(|code| code & 0xff) {
        // SQLITE_BUSY, LOCKED, IOERR, FULL and CANTOPEN.
        Some(5 | 6 | 10 | 13 | 14) => failed(path, OPEN, said),
        _ => unusable(path, &format!("{problem}: {said}")),
    }
}

/// Returns the statements that fit the existing table.
pub(super) fn dialect(path: &Path, connection: &Connection) -> Result<Dialect, LockError> {
    let column = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let columns = connection
        .prepare(SQLITE_COLUMNS)
        .and_then(|mut query| query.query_map((), column)?.collect());
    let columns: Vec<(String, String)> =
        columns.map_err(|e| not_opened(path, "cannot be read", &e))?;
    let body = columns
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("body"));
    match body {
        Some((_, declared)) if declared.eq_ignore_ascii_case("TEXT") => Ok(SQLITE_TEXT),
        Some(_) => Ok(SQLITE),
        None => Err(unusable(
            path,
            "this SQLite database has no table `checkpoints(logID, body)`: it is not a \
             lock database. Check `checkpoints` in the configuration",
        )),
    }
}

/// Flags for opening an existing file. Each connection is used by one thread at a time.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The WAL mode needs one sync per commit instead of three or four, and readers do not wait.
const WAL: &str = "PRAGMA journal_mode = WAL";

const DURABLE: &str = "
    -- In WAL mode, only FULL syncs every commit.
    PRAGMA synchronous = FULL;
    -- On Apple's systems, fsync does not reach the disk, but these settings do.
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    -- Lucarne copies the log itself, and checks the result.
    PRAGMA wal_autocheckpoint = 0;
";

/// Opens the database at `path` and never creates it.
pub(super) fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, FLAGS)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch(WAL)?;
    connection.execute_batch(DURABLE)?;
    Ok(connection)
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

/// Returns SQLite's message, and the remedy for the usual cases.
pub(super) fn message(error: &rusqlite::Error) -> String {
    let Some(code) = code(error) else {
        return error.to_string();
    };
    let advice = match code & 0xff {
        5 | 6 => "; another process holds its write lock: find and end it",
        8 => "; file and directory must be writable by this user",
        13 => "; free space on its file system",
        11 | 26 => "; keep the file, and see docs/reference/errors.md",
        14 => "; its directory must be writable too, for the -wal file",
        _ => "",
    };
    format!("{error} (SQLite's code {code}){advice}")
}

/// Returns SQLite's extended result code.
fn code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Returns `true` if SQLite refused before it wrote anything: busy, locked, read-only, or a
/// constraint violation. After any other error the state of the file is unknown.
pub(super) fn is_refusal(error: &rusqlite::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & 0xff, 5 | 6 | 8 | 19))
}

/// Returns `true` if this connection can never write: it was opened while the file was read-only,
/// and stays read-only even if the file becomes writable. This is SQLITE_READONLY without an
/// extended code. With an extended code, the file was moved, for example, and only this process may
/// still have it open.
pub(super) fn is_read_only(error: &rusqlite::Error) -> bool {
    code(error) == Some(8)
}

/// Device and inode.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}
