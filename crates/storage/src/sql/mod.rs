//! [`SqlLock`]: checkpoints in an SQL database: SQLite, MySQL or MariaDB, or
//! PostgreSQL. What they do is here, how each of them says it is its
//! [`Dialect`], how to reach one is its [`Database`].

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod connections;
#[cfg(feature = "sqlite")]
mod database_file;
mod database_url;
mod dialect;
#[cfg(feature = "sqlite")]
mod looking;
#[cfg(feature = "mysql")]
mod mysql;
mod opening;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod renewal;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tessera;

use async_trait::async_trait;

use self::database_url::DatabaseUrl;
use self::dialect::Dialect;
pub use self::tessera::TesseraState;
use crate::{Lock, LockError, LogId};

/// A lock in an SQL database, shared by all logs of a process.
///
/// A commit is one `UPDATE` in a transaction of its own, and one sync of the
/// database's log. Logs wait for each other as little as the database allows:
/// not at all on a server, in turn where SQLite has one writer.
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
    ///
    /// [`LockError::Unusable`] if there is none (it is never made here, so
    /// that a mistyped path never forks a log), it is something else, or would
    /// lose commits in a power failure, or this build has no support for it
    /// ([`NotBuilt`](crate::NotBuilt)); [`LockError::Failed`] if its server cannot
    /// be reached.
    pub async fn open(place: &str) -> Result<Self, LockError> {
        let database = opening::open(&DatabaseUrl::parse(place)?).await?;
        Ok(Self { database })
    }

    /// Opens an existing lock to look into it, beside whatever process commits to
    /// it: [`load`](Lock::load) is all that it can do.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn look(place: &str) -> Result<Self, LockError> {
        let database = opening::look(&DatabaseUrl::parse(place)?).await?;
        Ok(Self { database })
    }

    /// Makes what [`open`](Self::open) needs, and opens it: a database file
    /// that does not exist yet, readable by its owner only; on a server, a
    /// table in a database that an administrator has made (see
    /// [`schema`](Self::schema)).
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if the file or table is there already.
    pub async fn create(place: &str) -> Result<Self, LockError> {
        opening::create(&DatabaseUrl::parse(place)?).await?;
        Self::open(place).await
    }

    /// Returns whether there is one, of whatever log: a file, or on a server the table.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn is_there(place: &str) -> Result<bool, LockError> {
        opening::is_there(&DatabaseUrl::parse(place)?).await
    }

    /// Returns the state of the tree that TesseraCT keeps in this database, which is
    /// to hold the lock of its log; `None` if it keeps none there.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if it is of a version that is not known.
    pub async fn tessera(place: &str) -> Result<Option<TesseraState>, LockError> {
        opening::tessera(&DatabaseUrl::parse(place)?).await
    }

    /// The statement by which an administrator makes the table, where the
    /// log's own user may not.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if it is no place of a lock.
    pub fn schema(place: &str) -> Result<&'static str, LockError> {
        Ok(match DatabaseUrl::parse(place)? {
            DatabaseUrl::Sqlite(_) => dialect::SQLITE.schema,
            DatabaseUrl::MySql(_) => dialect::MYSQL.schema,
            DatabaseUrl::Postgres(_) => dialect::POSTGRES.schema,
        })
    }

    /// The URL of a server, with this password in it.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if it has one already, or is no URL of a server.
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

    /// Returns the place that `place` leads to, for messages: without
    /// passwords. What is no place is not shown at all.
    pub fn shown(place: &str) -> String {
        match DatabaseUrl::parse(place) {
            Ok(place) => place.to_string(),
            Err(_) => "a lock that cannot be shown".into(),
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
        match self.database.change(&insert).await? {
            true => Ok(()),
            false => Err(LockError::Exists {
                location: self.location(),
            }),
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
        match self.database.change(&update).await? {
            true => Ok(()),
            false => Err(LockError::Conflict {
                location: self.location(),
                found: self.load(log).await?,
            }),
        }
    }

    async fn check(&self) -> Result<(), LockError> {
        self.database.probe().await
    }

    /// Closes the connections; SQLite folds its write-ahead log into the
    /// database.
    async fn close(&self) {
        self.database.close().await;
    }

    fn location(&self) -> String {
        self.database.location()
    }
}

/// One open database.
#[async_trait]
trait Database: Send + Sync + 'static {
    /// Its statements.
    fn dialect(&self) -> &Dialect;

    /// See [`Lock::load`].
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError>;

    /// Returns whether the change was made; durable if so.
    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError>;

    /// See [`Lock::check`].
    async fn probe(&self) -> Result<(), LockError>;

    /// See [`Lock::location`].
    fn location(&self) -> String;

    async fn close(&self);
}

/// A statement that changes one row, or none.
struct Change<'c> {
    /// For messages.
    action: &'static str,
    statement: &'static str,
    /// Of the statement, in its order.
    parameters: &'c [&'c [u8]],
    log: &'c LogId,
    /// Holds what is stored for the log afterwards.
    body: &'c [u8],
}
