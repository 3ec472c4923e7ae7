//! Lock databases of Lucarne and of Sunlight, and files that are not lock databases.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lucarne_storage::{Lock, LockError, SqlLock};
use rusqlite::Connection;
use tempfile::TempDir;

const LOG: [u8; 32] = [9; 32];

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    fn text(&self) -> String {
        self.path().display().to_string()
    }

    async fn refusal(&self) -> String {
        match SqlLock::open(&self.text()).await {
            Err(error @ LockError::Unusable { .. }) => {
                assert!(error.to_string().contains(&self.text()), "{error}");
                error.to_string()
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("it was opened"),
        }
    }

    /// Creates a database with a statement of another program.
    fn made_with(&self, statement: &str) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.execute(statement, ()).unwrap();
        connection
    }
}

fn kind_of_body(path: &Path) -> String {
    let query = "SELECT typeof(body) FROM checkpoints";
    let database = Connection::open(path).unwrap();
    database.query_row(query, (), |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_missing_database_is_never_made_by_opening() {
    let place = Place::new();
    assert!(place.refusal().await.contains("lucarne init"));
    assert!(!place.path().exists());
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    assert!(place.refusal().await.contains("directory"));
    std::fs::remove_dir(place.path()).unwrap();
    for bytes in ["", "SQLite", "not a database, but long enough to be one\n"] {
        std::fs::write(place.path(), bytes).unwrap();
        assert!(place.refusal().await.contains("not an SQLite database"));
        assert_eq!(std::fs::read_to_string(place.path()).unwrap(), bytes);
    }
}

#[tokio::test]
async fn another_database_is_refused() {
    let place = Place::new();
    place.made_with("CREATE TABLE certificates (body BLOB)");
    assert!(place.refusal().await.contains("not a lock database"));
}

#[tokio::test]
async fn a_damaged_database_is_an_error() {
    let place = Place::new();
    SqlLock::create(&place.text()).await.unwrap().close().await;
    let mut bytes = std::fs::read(place.path()).unwrap();
    bytes[100..].fill(0xa5);
    std::fs::write(place.path(), bytes).unwrap();
    assert!(place.refusal().await.contains("docs/reference/errors.md"));
}

#[tokio::test]
async fn a_new_database_is_for_its_owner_and_never_overwritten() {
    let place = Place::new();
    let lock = SqlLock::create(&place.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    for entry in std::fs::read_dir(place.0.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
    let again = SqlLock::create(&place.text()).await.err().unwrap();
    assert!(again.to_string().contains("never overwritten"), "{again}");
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
}

#[tokio::test]
async fn places_may_be_urls() {
    let place = Place::new();
    SqlLock::create(&place.text()).await.unwrap();
    for prefix in ["", "sqlite:", "sqlite://"] {
        let place = format!("{prefix}{}", place.text());
        assert!(SqlLock::open(&place).await.is_ok(), "{place}");
    }
    let refused = SqlLock::open("oracle://user:secret@host/db").await;
    let message = refused.err().unwrap().to_string();
    assert!(
        message.contains("not supported") && !message.contains("secret"),
        "{message}"
    );
}

/// A database in rollback-journal mode, as `sqlite3` creates it by Sunlight's README.
#[tokio::test]
async fn databases_of_sunlight_are_accepted() {
    let place = Place::new();
    let statement = "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT";
    place.made_with(statement).close().unwrap();
    let lock = SqlLock::open(&place.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    assert_eq!(kind_of_body(&place.path()), "blob");
}

#[tokio::test]
async fn old_databases_of_sunlight_stay_readable_for_it() {
    let place = Place::new();
    let statement = "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body TEXT)";
    let connection = place.made_with(statement);
    let body = "origin\n0\nroot\n\n— origin sig\n";
    let insert = "INSERT INTO checkpoints VALUES (?, ?)";
    connection.execute(insert, (LOG, body)).unwrap();
    connection.close().unwrap();

    let lock = SqlLock::open(&place.text()).await.unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), body.as_bytes());
    lock.replace(&LOG, body.as_bytes(), "— new".as_bytes())
        .await
        .unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), "— new".as_bytes());
    assert_eq!(kind_of_body(&place.path()), "text");
    let conflict = lock.replace(&LOG, b"other", b"x").await;
    assert!(matches!(
        conflict,
        Err(LockError::Conflict { found: Some(_), .. })
    ));
}

#[tokio::test]
async fn a_database_replaced_while_in_use_is_noticed() {
    let place = Place::new();
    let lock = SqlLock::create(&place.text()).await.unwrap();
    lock.check().await.unwrap();
    std::fs::rename(place.path(), place.0.path().join("away")).unwrap();
    assert!(
        lock.check()
            .await
            .unwrap_err()
            .to_string()
            .contains("replaced")
    );
    std::fs::copy(place.0.path().join("away"), place.path()).unwrap();
    assert!(
        lock.check()
            .await
            .unwrap_err()
            .to_string()
            .contains("replaced")
    );
}

#[tokio::test]
async fn a_database_that_another_process_holds_says_so() {
    let place = Place::new();
    let lock = SqlLock::create(&place.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let other = Connection::open(place.path()).unwrap();
    other.execute("BEGIN IMMEDIATE", ()).unwrap();
    let error = lock.replace(&LOG, b"0", b"1").await.unwrap_err();
    assert!(error.to_string().contains("write lock"), "{error}");
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    other.execute("ROLLBACK", ()).unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

/// A person who restores or deletes the file believes that its state is the newest. A commit to the
/// unlinked file would contradict that.
#[tokio::test]
async fn nothing_is_committed_to_a_database_that_was_unlinked() {
    let place = Place::new();
    let lock = SqlLock::create(&place.text()).await.unwrap();
    let log = [7; 32];
    lock.create(&log, b"first").await.unwrap();
    std::fs::remove_file(place.path()).unwrap();
    let refused = lock.replace(&log, b"first", b"second").await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("removed or replaced")
    );
    assert_eq!(lock.load(&log).await.unwrap().unwrap(), b"first");
}

/// Copies a database with SQLite's other files, as a crash leaves them.
fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        if beside(from).exists() {
            std::fs::copy(beside(from), beside(to)).unwrap();
        }
    }
}

/// The copy takes the name only after the write-ahead log of the old database was removed, because
/// SQLite would replay that log onto the new database.
#[tokio::test]
async fn a_renewal_that_a_crash_cut_short_is_finished() {
    let (working, crashed) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"old").await.unwrap();
    // The old row is in the write-ahead log.
    copy(&working.path(), &crashed.path());
    assert!(
        crashed
            .0
            .path()
            .join("locks.db-wal")
            .metadata()
            .unwrap()
            .len()
            > 0
    );
    lock.replace(&LOG, b"old", b"new").await.unwrap();
    lock.close().await;
    let renewed = crashed.0.path().join("locks.db.renewed");
    std::fs::copy(working.path(), &renewed).unwrap();
    std::fs::write(crashed.0.path().join("locks.db.new"), "half a copy").unwrap();

    let lock = SqlLock::open(&crashed.text()).await.unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"new");
    assert!(!renewed.exists());
    lock.replace(&LOG, b"new", b"newer").await.unwrap();
    lock.close().await;
    let lock = SqlLock::open(&crashed.text()).await.unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"newer");
}

/// The write-ahead log of a dead process may be in the kernel's memory only: nothing is appended to
/// it.
#[tokio::test]
async fn a_log_left_behind_is_folded_before_it_is_used() {
    let (working, crashed) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    copy(&working.path(), &crashed.path());
    let log = crashed.0.path().join("locks.db-wal");
    let left = std::fs::read(&log).unwrap();
    let lock = SqlLock::open(&crashed.text()).await.unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    assert_eq!(log.metadata().unwrap().len(), 0);
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    // The earlier content is complete.
    let now = std::fs::read(&log).unwrap();
    assert!(!now.is_empty() && now != left);
    lock.close().await;
    assert!(!log.exists(), "all of it is in the database");
}

/// The process was killed at any moment while it created the database.
#[tokio::test]
async fn a_database_half_made_is_made() {
    for left in ["", "SQLite format 3\0 and no more"] {
        let place = Place::new();
        std::fs::write(place.0.path().join("locks.db.new"), left).unwrap();
        assert!(place.refusal().await.contains("lucarne init"));
        let lock = SqlLock::create(&place.text()).await.unwrap();
        lock.create(&LOG, b"0").await.unwrap();
        lock.close().await;
        assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1);
    }
}

/// SQLite would replay the write-ahead log onto the new database.
#[tokio::test]
async fn no_database_is_made_beside_commits_of_one_that_is_gone() {
    let (working, robbed) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    copy(&working.path(), &robbed.path());
    std::fs::remove_file(robbed.path()).unwrap();
    let error = SqlLock::create(&robbed.text()).await.err().unwrap();
    assert!(error.to_string().contains("locks.db-wal"), "{error}");
    assert!(!robbed.path().exists());
}

/// A file of a database in use was copied without its write-ahead log.
#[tokio::test]
async fn a_copy_without_the_newest_commits_is_named() {
    let (working, copied) = (Place::new(), Place::new());
    let doubt = |place: &Place| {
        let text = place.text();
        async move { SqlLock::look(&text).await.unwrap().doubt() }
    };
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    assert_eq!(doubt(&working).await, None);
    std::fs::copy(working.path(), copied.path()).unwrap();
    let said = doubt(&copied).await.unwrap();
    assert!(said.contains("-wal file is missing"), "{said}");
    let opened = SqlLock::open(&copied.text()).await.unwrap();
    assert_eq!(opened.doubt(), Some(said));
    assert_eq!(opened.load(&LOG).await.unwrap().unwrap(), b"0");
    opened.close().await;
    let to = copied.0.path().join("copy.db");
    let refused = SqlLock::copy(&copied.text(), &to).await.unwrap_err();
    assert!(refused.to_string().contains("-wal"), "{refused}");

    // With its log, and after it is closed, the database is complete.
    let complete = Place::new();
    copy(&working.path(), &complete.path());
    let opened = SqlLock::open(&complete.text()).await.unwrap();
    assert_eq!(opened.load(&LOG).await.unwrap().unwrap(), b"1");
    opened.close().await;
    assert_eq!(doubt(&complete).await, None);
    lock.close().await;
    assert_eq!(doubt(&working).await, None);
}

/// Copies the file of a database without its write-ahead log, and returns the doubt about the copy.
async fn doubt_without_log(place: &Place) -> Option<String> {
    let copied = Place::new();
    std::fs::copy(place.path(), copied.path()).unwrap();
    SqlLock::look(&copied.text()).await.unwrap().doubt()
}

/// `lucarne check` opens and closes the lock of a running server.
#[tokio::test]
async fn a_server_marks_its_database_again_after_another_process_has_closed_it() {
    let place = Place::new();
    let lock = SqlLock::create(&place.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let other = SqlLock::open(&place.text()).await.unwrap();
    other.load(&LOG).await.unwrap();
    other.close().await;
    // Without the mark, the database has all commits.
    let copied = Place::new();
    std::fs::copy(place.path(), copied.path()).unwrap();
    let copy = SqlLock::look(&copied.text()).await.unwrap();
    assert_eq!(copy.doubt(), None);
    assert_eq!(copy.load(&LOG).await.unwrap().unwrap(), b"0");
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    lock.replace(&LOG, b"1", b"2").await.unwrap();
    assert!(doubt_without_log(&place).await.is_some());
    lock.close().await;
    assert_eq!(doubt_without_log(&place).await, None);
}

#[tokio::test]
async fn no_mark_remains_after_a_complete_database_is_closed() {
    // A server was killed, and another process opens and closes the database without a read.
    let (working, place) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    copy(&working.path(), &place.path());
    SqlLock::open(&place.text()).await.unwrap().close().await;
    assert!(!place.0.path().join("locks.db-wal").exists());
    assert_eq!(doubt_without_log(&place).await, None);

    // Another program has removed the log, and the server continues with the database.
    std::fs::copy(working.path(), place.path()).unwrap();
    assert!(doubt_without_log(&place).await.is_some());
    let opened = SqlLock::open(&place.text()).await.unwrap();
    opened.replace(&LOG, b"0", b"1").await.unwrap();
    opened.close().await;
    assert_eq!(doubt_without_log(&place).await, None);
}

/// SQLite keeps its other files next to the target of a symbolic link.
#[tokio::test]
async fn a_lock_behind_a_symbolic_link_is_complete() {
    let (working, link) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    std::os::unix::fs::symlink(working.path(), link.path()).unwrap();
    let looking = SqlLock::look(&link.text()).await.unwrap();
    assert_eq!(looking.doubt(), None);
    assert_eq!(looking.load(&LOG).await.unwrap().unwrap(), b"1");
    assert_eq!(looking.location(), link.text());
    let to = link.0.path().join("copy.db");
    SqlLock::copy(&link.text(), &to).await.unwrap();
    let copy = SqlLock::look(&to.display().to_string()).await.unwrap();
    assert_eq!(copy.load(&LOG).await.unwrap().unwrap(), b"1");
}

#[tokio::test]
async fn a_lock_in_use_is_copied_with_all_its_commits() {
    let (working, copied) = (Place::new(), Place::new());
    let lock = SqlLock::create(&working.text()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    for n in 1..300_u32 {
        let (old, new) = ((n - 1).to_string(), n.to_string());
        lock.replace(&LOG, old.as_bytes(), new.as_bytes())
            .await
            .unwrap();
    }
    SqlLock::copy(&working.text(), &copied.path())
        .await
        .unwrap();
    assert_eq!(
        copied.path().metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = SqlLock::copy(&working.text(), &copied.path()).await;
    assert!(again.is_err(), "a file is never overwritten");
    let copy = SqlLock::open(&copied.text()).await.unwrap();
    assert_eq!(copy.doubt(), None);
    assert_eq!(copy.load(&LOG).await.unwrap().unwrap(), b"299");
    copy.close().await;
}
