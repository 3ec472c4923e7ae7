//! [`SqlLock`]: checkpoints in an SQL database: SQLite, MySQL or MariaDB, or PostgreSQL. This
//! module has the common logic; [`Dialect`] has the statements of each database, and [`Database`]
//! its connections.

#[cfg(feature = "sqlite")]
mod database_file;
mod database_url;
mod dialect;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod engine;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod renewal;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::path::Path;

use async_trait::async_trait;

use self::database_url::DatabaseUrl;
use self::dialect::Dialect;
#[cfg(feature = "mysql")]
use self::mysql::MySql;
#[cfg(feature = "postgres")]
use self::postgres::Postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use self::server::Server;
#[cfg(feature = "sqlite")]
use self::sqlite::{Looking, Sqlite};
use crate::{Lock, LockError, LogId, StoreDate};

/// A lock in an SQL database, shared by all logs of a process.
///
/// A commit is one `UPDATE` in a separate transaction, and one sync of the database's log. On a
/// server, commits of different logs do not wait for each other. SQLite has one writer, so commits
/// run one after the other.
///
/// # Examples
///
/// ```
/// use lucarne_storage::{Lock, LockError, SqlLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let directory = tempfile::tempdir()?;
/// let place = directory.path().join("locks.db").display().to_string();
/// let (lock, log) = (SqlLock::create(&place).await?, [7; 32]);
/// lock.create(&log, b"checkpoint 0").await?;
/// lock.replace(&log, b"checkpoint 0", b"checkpoint 1").await?;
/// assert_eq!(lock.load(&log).await?.as_deref(), Some(&b"checkpoint 1"[..]));
///
/// let lost = lock.replace(&log, b"checkpoint 0", b"a fork").await;
/// assert!(matches!(lost, Err(LockError::Conflict { .. })));
/// lock.close().await;
/// # Ok(())
/// # }
/// ```
pub struct SqlLock {
    database: Box<dyn Database>,
}

impl SqlLock {
    /// Opens an existing lock database:
    ///
    /// - a path or `sqlite:<path>`,
    /// - `mysql://user:password@host/database` (or `mariadb://`); by a socket:
    ///   `mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock`,
    /// - `postgres://user:password@host/database` (or `postgresql://`); by a
    ///   socket: `postgres:///database?host=/run/postgresql&user=user`.
    ///
    /// Special characters of a password are percent-encoded.
    ///
    /// # Errors
    /// [`LockError::Unusable`] if the database does not exist (this function never creates a
    /// database, so that a mistyped path cannot fork a log), is not a lock, would lose commits in a
    /// power failure, or if this build does not support it ([`NotBuilt`](crate::NotBuilt));
    /// [`LockError::Failed`] if the server cannot be reached.
    pub async fn open(place: &str) -> Result<Self, LockError> {
        let database = DatabaseUrl::parse(place)?.open().await?;
        Ok(Self { database })
    }

    /// Opens an existing lock for reading while another process commits to it. Only
    /// [`load`](Lock::load) works.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub async fn look(place: &str) -> Result<Self, LockError> {
        let database = DatabaseUrl::parse(place)?.look().await?;
        Ok(Self { database })
    }

    /// Creates a lock and opens it. For SQLite, creates a new database file that only its owner can
    /// read. On a server, creates a table in a database that an administrator has created (see
    /// [`schema`](Self::schema)).
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if the file or table exists already.
    pub async fn create(place: &str) -> Result<Self, LockError> {
        DatabaseUrl::parse(place)?.create().await?;
        Self::open(place).await
    }

    /// Writes a copy of an SQLite lock to a new file, with all commits up to now.
    ///
    /// # Errors
    ///
    /// The errors of [`look`](Self::look). [`LockError::Unusable`] if the file exists, if the lock
    /// is on a server, or if its newest commits may be missing.
    pub async fn copy(place: &str, to: &Path) -> Result<(), LockError> {
        DatabaseUrl::parse(place)?.copy(to).await
    }

    /// Returns `true` if a lock exists, of any log: a file, or the table on a server.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub async fn is_there(place: &str) -> Result<bool, LockError> {
        DatabaseUrl::parse(place)?.is_there().await
    }

    /// Returns the state of the tree that TesseraCT keeps in this database; `None` if the database
    /// has no tables of TesseraCT. Used before the database becomes the lock of the same log.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and an error for an unknown version of TesseraCT's
    /// tables.
    pub async fn tessera(place: &str) -> Result<Option<TesseraState>, LockError> {
        DatabaseUrl::parse(place)?.tessera().await
    }

    /// Returns the statement that creates the table. An administrator needs the statement if the
    /// log's user lacks the permission.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if `place` is not a valid location of a lock.
    pub fn schema(place: &str) -> Result<&'static str, LockError> {
        Ok(match DatabaseUrl::parse(place)? {
            DatabaseUrl::Sqlite(_) => dialect::SQLITE.schema,
            DatabaseUrl::MySql(_) => dialect::MYSQL.schema,
            DatabaseUrl::Postgres(_) => dialect::POSTGRES.schema,
        })
    }

    /// Returns the URL of a server with this password added.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if the URL has a password already, or is not the URL of a server.
    pub fn with_password(place: &str, password: &str) -> Result<String, LockError> {
        match DatabaseUrl::parse(place)? {
            DatabaseUrl::MySql(url) | DatabaseUrl::Postgres(url) => {
                database_url::with_password(url, password)
            }
            DatabaseUrl::Sqlite(path) => Err(LockError::Unusable {
                location: path.display().to_string(),
                reason: "an SQLite database has no password".into(),
            }),
        }
    }

    /// Returns `place` without passwords, for messages. An invalid location is not shown at all.
    pub fn shown(place: &str) -> String {
        match DatabaseUrl::parse(place) {
            Ok(place) => place.to_string(),
            Err(_) => "a lock with an invalid location".into(),
        }
    }
}

#[async_trait]
impl Lock for SqlLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.database.load(log).await
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        let insert = Change {
            action: "create the log",
            statement: self.database.dialect().create,
            parameters: &[log, body],
            log,
            body,
        };
        if self.database.change(&insert).await? {
            Ok(())
        } else {
            Err(LockError::Exists {
                location: self.location(),
            })
        }
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        let update = Change {
            action: "commit the checkpoint",
            statement: self.database.dialect().replace,
            parameters: &[new, log, old],
            log,
            body: new,
        };
        if self.database.change(&update).await? {
            Ok(())
        } else {
            Err(LockError::Conflict {
                location: self.location(),
                found: self.load(log).await?,
            })
        }
    }

    async fn check(&self) -> Result<(), LockError> {
        self.database.probe().await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.database.date().await
    }

    /// Closes the connections. SQLite copies its write-ahead log into the database.
    async fn close(&self) {
        self.database.close().await;
    }

    fn doubt(&self) -> Option<String> {
        self.database.doubt()
    }

    fn location(&self) -> String {
        self.database.location()
    }
}

/// An open database.
#[async_trait]
trait Database: Send + Sync + 'static {
    /// Returns the statements of the database.
    fn dialect(&self) -> &Dialect;

    /// See [`Lock::load`].
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError>;

    /// Executes a change; returns `true` if a row was changed, durably.
    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError>;

    /// See [`Lock::check`].
    async fn probe(&self) -> Result<(), LockError>;

    /// See [`Lock::date`].
    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        Ok(None)
    }

    /// See [`Lock::doubt`].
    fn doubt(&self) -> Option<String> {
        None
    }

    /// See [`Lock::location`].
    fn location(&self) -> String;

    async fn close(&self);
}

/// A statement that changes one row, or none.
struct Change<'c> {
    /// The operation, for messages.
    action: &'static str,
    statement: &'static str,
    /// Parameters of the statement, in order.
    parameters: &'c [&'c [u8]],
    log: &'c LogId,
    /// The body that is stored for the log afterwards.
    body: &'c [u8],
}

/// The databases of this build, as selected by cargo features.
impl DatabaseUrl {
    /// See [`SqlLock::open`].
    async fn open(&self) -> Result<Box<dyn Database>, LockError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Box::new(Sqlite::open(path).await?)),
            #[cfg(feature = "mysql")]
            Self::MySql(url) => Ok(Box::new(Server::<MySql>::open(url).await?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Box::new(Server::<Postgres>::open(url).await?)),
            #[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
            absent => Err(absent.left_out()),
        }
    }

    /// See [`SqlLock::look`]. A server is opened in the usual way, which writes
    /// nothing.
    async fn look(&self) -> Result<Box<dyn Database>, LockError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Box::new(Looking::into(path).await?)),
            server => server.open().await,
        }
    }

    /// See [`SqlLock::copy`].
    async fn copy(&self, to: &Path) -> Result<(), LockError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Looking::into(path).await?.copy(to).await,
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(_) => {
                let _ = to;
                Err(self.left_out())
            }
            server => Err(LockError::Unusable {
                location: server.to_string(),
                reason:
                    "only an SQLite lock is a file. Copy the database with the tools of its server"
                        .into(),
            }),
        }
    }

    /// See [`SqlLock::is_there`].
    async fn is_there(&self) -> Result<bool, LockError> {
        match self {
            Self::Sqlite(path) => Ok(path.exists()),
            #[cfg(feature = "mysql")]
            Self::MySql(url) => Server::<MySql>::is_there(url).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Server::<Postgres>::is_there(url).await,
            #[cfg(not(all(feature = "mysql", feature = "postgres")))]
            absent => Err(absent.left_out()),
        }
    }

    /// See [`SqlLock::tessera`].
    async fn tessera(&self) -> Result<Option<TesseraState>, LockError> {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql(url) => mysql::tessera(url).await,
            _ => Ok(None),
        }
    }

    /// Creates the lock that [`open`](Self::open) opens.
    async fn create(&self) -> Result<(), LockError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Sqlite::create(path).await,
            #[cfg(feature = "mysql")]
            Self::MySql(url) => Server::<MySql>::create(url).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Server::<Postgres>::create(url).await,
            #[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
            absent => Err(absent.left_out()),
        }
    }
}

/// The state of a tree that TesseraCT left in a bucket, according to its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesseraState {
    /// Number of entries with an index in the log. The log may have issued SCTs of these entries.
    pub sequenced: u64,
    /// Number of entries in tiles.
    pub integrated: u64,
    /// Root hash of the integrated tree.
    pub root: Vec<u8>,
}
