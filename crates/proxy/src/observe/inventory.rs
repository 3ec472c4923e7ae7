//! Inventory: the observed hosts and certificates, the entries that logs promised for them, and the
//! events about them, in an SQLite database that survives restarts.
//!
//! A thread of its own writes the [`Note`]s of the worker in batches. If the disk is full or hangs,
//! notes are dropped and counted; the proxy and the observer do not wait.

pub(crate) mod entries;
mod events;
mod note;
mod rows;
mod writer;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwap;
use lucarne_ct::LogId;
use lucarne_mint::now_ms;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ffi};
use tokio::sync::Notify;

use super::metrics::{KindLabels, Metrics};

pub(crate) use entries::{Due, Finding, Head};
pub(crate) use events::{Event, Outcome, next as next_event, settle as settle_event};
pub(crate) use note::Note;
pub(crate) use rows::Inventoried;

/// Version of the tables, in `user_version`.
const VERSION: i64 = 1;
/// `application_id` of an inventory.
const APPLICATION: i32 = i32::from_be_bytes(*b"LuIn");
/// Limit of the notes that wait for the writer.
const MAX_NOTES: usize = 4096;
/// Time after which a page reports that the database cannot be read.
const PAGE_TIME: Duration = Duration::from_secs(10);
/// Limit of the events, also of those that were sent.
const MAX_EVENTS: i64 = 10_000;

const TABLES: &str = "
    CREATE TABLE certificates (
        fingerprint BLOB PRIMARY KEY, der BLOB, issuer TEXT NOT NULL, issuer_key BLOB,
        not_after INTEGER, standing TEXT NOT NULL, logged INTEGER NOT NULL,
        policy_failed INTEGER NOT NULL, scts INTEGER NOT NULL DEFAULT 0, first INTEGER NOT NULL,
        last INTEGER NOT NULL, reported INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX certificates_last ON certificates (last);
    CREATE INDEX certificates_expiry ON certificates (not_after);
    CREATE TABLE hosts (
        name TEXT NOT NULL, fingerprint BLOB NOT NULL, first INTEGER NOT NULL,
        last INTEGER NOT NULL, handshakes INTEGER NOT NULL,
        PRIMARY KEY (name, fingerprint)) WITHOUT ROWID;
    CREATE INDEX hosts_last ON hosts (last);
    CREATE INDEX hosts_certificate ON hosts (fingerprint);
    CREATE TABLE entries (
        log BLOB NOT NULL, leaf BLOB NOT NULL, fingerprint BLOB NOT NULL, sct BLOB NOT NULL,
        due INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending',
        tries INTEGER NOT NULL DEFAULT 0, again INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (log, leaf)) WITHOUT ROWID;
    CREATE INDEX entries_due ON entries (log, due) WHERE state = 'pending';
    CREATE INDEX entries_state ON entries (state);
    CREATE INDEX entries_certificate ON entries (fingerprint);
    CREATE TABLE heads (
        log BLOB PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL,
        timestamp INTEGER NOT NULL, note BLOB NOT NULL);
    CREATE TABLE events (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0, next INTEGER, outcome TEXT NOT NULL);
    CREATE INDEX events_next ON events (next) WHERE next IS NOT NULL;
    CREATE INDEX events_at ON events (at);";

/// Reasons why an inventory cannot be opened. The name of the key and the file precede the text.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The database was written by a newer version.
    #[error(
        "the database has version {0}, and this program reads version {VERSION}: use a newer \
         Lucarne, or another file"
    )]
    Newer(i64),
    /// The file is an SQLite database of another program.
    #[error("this is a database of another program: use another file")]
    Foreign,
    /// The path leads to something other than a file.
    #[error("this is not a regular file: use another path")]
    NotAFile,
    /// The database is damaged, or the file is not a database.
    #[error("the database is damaged ({0}): restore a copy, or move the file away")]
    Damaged(String),
    /// Another process uses the database.
    #[error("another process uses the database: use a separate file for each proxy")]
    InUse,
    /// The file cannot be opened or created.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// SQLite failed.
    #[error("SQLite: {0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for InventoryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase) => {
                InventoryError::Damaged(error.to_string())
            }
            Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked) => {
                InventoryError::InUse
            }
            _ => InventoryError::Sqlite(error),
        }
    }
}

/// Settings of an inventory.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Limit of the certificates, and of the pairs of host and certificate.
    pub(crate) rows: i64,
    /// Time before the expiry of a certificate at which it is reported.
    pub(crate) expiry_ms: i64,
    /// Whether a webhook receives the events.
    pub(crate) hooked: bool,
}

/// An open inventory.
#[derive(Debug)]
pub(crate) struct Inventory {
    connection: Mutex<Connection>,
    path: PathBuf,
    bounds: Bounds,
    notes: SyncSender<Note>,
    metrics: Metrics,
    /// Reason why the last write failed; empty after a success.
    trouble: ArcSwap<String>,
    /// Logs whose entries cannot be looked up at the moment: name, and reason.
    pub(crate) log_troubles: Mutex<BTreeMap<LogId, (String, String)>>,
    /// Wakes the webhook after a new event.
    pub(crate) wake: Notify,
}

impl Inventory {
    /// Opens the database, or creates it, and starts the thread that writes notes.
    pub(crate) fn open(
        path: &Path,
        bounds: Bounds,
        metrics: Metrics,
    ) -> Result<Arc<Self>, InventoryError> {
        let connection = Mutex::new(connect(path)?);
        let (notes, received) = sync_channel(MAX_NOTES);
        let inventory = Arc::new(Inventory {
            connection,
            path: path.to_owned(),
            bounds,
            notes,
            metrics,
            trouble: ArcSwap::default(),
            log_troubles: Mutex::default(),
            wake: Notify::new(),
        });
        writer::spawn(&inventory, received)?;
        Ok(inventory)
    }

    /// Queues a note. If the queue is full, the note is dropped and counted.
    pub(crate) fn note(&self, note: Note) {
        if self.notes.try_send(note).is_err() {
            self.metrics.drop("inventory-notes");
        }
    }

    /// Returns the present problems: of the database, and of logs.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let database = self.trouble.load();
        let database = (!database.is_empty())
            .then(|| format!("inventory {}: {database}", self.path.display()));
        let logs = self.log_troubles.lock();
        let logs = logs
            .values()
            .map(|(log, why)| format!("audit of {log}: {why}"));
        database.into_iter().chain(logs).collect()
    }

    /// Runs `work` in a transaction on a thread that may block. Failures are remembered for
    /// [`troubles`](Self::troubles).
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Inventory, &Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<T> {
        let inventory = self.clone();
        let working = tokio::task::spawn_blocking(move || inventory.within(work));
        working.await.ok().flatten()
    }

    /// Runs `work` in a transaction. Returns `None` after a failure, which changes nothing.
    fn within<T>(
        &self,
        work: impl FnOnce(&Inventory, &Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        self.within_locked(self.connection.lock(), work)
    }

    /// Runs `work` like [`within`](Self::within), but returns `None` if the disk hangs: pages that
    /// wait would occupy all threads that may block.
    fn within_time<T>(
        &self,
        work: impl FnOnce(&Inventory, &Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        self.within_locked(self.connection.try_lock_for(PAGE_TIME)?, work)
    }

    fn within_locked<T>(
        &self,
        mut connection: MutexGuard<'_, Connection>,
        work: impl FnOnce(&Inventory, &Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        let attempt = || {
            let transaction = connection.transaction()?;
            let done = work(self, &transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        let done: rusqlite::Result<T> = attempt();
        done.map_err(|why| self.failed(&why.to_string())).ok()
    }

    /// Remembers a failure until the next batch of notes is written: a read may succeed on a full
    /// disk.
    fn failed(&self, why: &str) {
        if **self.trouble.load() != *why {
            tracing::error!(
                "inventory {}: {why}; the proxy continues",
                self.path.display()
            );
            self.trouble.store(Arc::new(why.to_owned()));
        }
    }

    fn gauge(&self, what: &'static str, count: i64) {
        self.metrics
            .inventory
            .get_or_create(&KindLabels { what })
            .set(count);
    }
}

fn connect(path: &Path) -> Result<Connection, InventoryError> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(InventoryError::NotAFile);
    }
    // SQLite would create the file readable by other users.
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // With exclusive locking, a second process fails here, and there is no shared memory.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables = "SELECT 1 FROM sqlite_schema LIMIT 1";
    let is_new = connection
        .query_row(tables, [], |_| Ok(()))
        .optional()?
        .is_none();
    if application != i64::from(APPLICATION) && !is_new {
        return Err(InventoryError::Foreign);
    }
    if version > VERSION {
        return Err(InventoryError::Newer(version));
    }
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if check != "ok" {
        return Err(InventoryError::Damaged(check));
    }
    // A crash of the machine may lose the last transactions, but not damage the database.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let create = if is_new { TABLES } else { "" };
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {create}; PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION}; COMMIT"
    ))?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Returns the present time as SQLite stores it.
fn now() -> i64 {
    stored(now_ms())
}

/// Returns a stored time or size.
fn loaded(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns a time or a size as SQLite stores it.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
