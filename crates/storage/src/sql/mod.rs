//! [`SqlLock`]: checkpoints in an SQL database. SQLite for now; another
//! database brings its [`Dialect`], its way to open, and a type of pool.

mod dialect;
mod sqlite;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

use self::dialect::Dialect;
use self::sqlite::{DatabaseFile, Pools, message, unusable};
use crate::{Lock, LockError, LogId};

/// A lock in an SQL database, shared by all logs of a process.
///
/// A commit is one `UPDATE` in a transaction of its own, and one sync of the
/// database's write-ahead log.
pub struct SqlLock {
    file: DatabaseFile,
    pools: Pools,
    dialect: Dialect,
}

impl SqlLock {
    /// Opens an existing lock database: a path, or `sqlite:<path>`.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if there is none (it is never made here, so
    /// that a mistyped path never forks a log) or it is something else.
    pub async fn open(place: &str) -> Result<Self, LockError> {
        let path = path(place)?;
        let file = DatabaseFile::examine(&path)?;
        let pools = Pools::open(&path).await?;
        let dialect = pools.dialect(&path).await?;
        Ok(Self {
            file,
            pools,
            dialect,
        })
    }

    /// Makes a lock database that does not exist yet, readable by its owner
    /// only, and opens it.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if there is anything at that place.
    pub async fn create(place: &str) -> Result<Self, LockError> {
        sqlite::create(&path(place)?).await?;
        Self::open(place).await
    }

    /// Closes the connections and folds the write-ahead log into the database.
    /// Dropping the lock loses nothing either.
    pub async fn close(&self) {
        self.pools.read.close().await;
        self.pools.write.close().await;
    }

    fn failed(&self, action: &'static str) -> impl Fn(sqlx::Error) -> LockError {
        let location = self.location();
        move |e| LockError::Failed {
            location: location.clone(),
            action,
            reason: message(&e),
        }
    }

    /// Runs a statement that writes; the number of rows that it changed.
    async fn write(
        &self,
        action: &'static str,
        statement: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<u64, LockError> {
        let failed = self.failed(action);
        let mut connection = self.pools.write.acquire().await.map_err(&failed)?;
        let done = statement.execute(&mut *connection).await;
        if done.as_ref().is_err_and(sqlite::is_read_only) {
            // The next ones may write, if none of these is left.
            let _ = connection.close().await;
            if let Ok(reading) = self.pools.read.acquire().await {
                let _ = reading.close().await;
            }
        }
        done.map(|done| done.rows_affected()).map_err(failed)
    }

    async fn body<'e, E>(&self, executor: E, log: &LogId) -> Result<Option<Vec<u8>>, LockError>
    where
        E: sqlx::Executor<'e, Database = sqlx::Sqlite>,
    {
        let row = sqlx::query_scalar(self.dialect.load).bind(&log[..]);
        let row = row.fetch_optional(executor).await;
        row.map_err(self.failed("load the checkpoint"))
    }
}

#[async_trait]
impl Lock for SqlLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.body(&self.pools.read, log).await
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        let insert = sqlx::query(self.dialect.create).bind(&log[..]).bind(body);
        match self.write("create the log", insert).await? {
            1 => Ok(()),
            _ => Err(LockError::Exists {
                location: self.location(),
            }),
        }
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.file.still_there()?;
        let update = sqlx::query(self.dialect.replace)
            .bind(new)
            .bind(&log[..])
            .bind(old);
        match self.write("commit the checkpoint", update).await? {
            1 => Ok(()),
            _ => Err(LockError::Conflict {
                location: self.location(),
                found: self.load(log).await?,
            }),
        }
    }

    async fn check(&self) -> Result<(), LockError> {
        self.file.still_there()?;
        let probe = sqlx::query(self.dialect.probe);
        self.write("write", probe).await.map(|_| ())
    }

    fn location(&self) -> String {
        self.file.path().display().to_string()
    }
}

fn path(place: &str) -> Result<PathBuf, LockError> {
    let plain = place.strip_prefix("sqlite:").unwrap_or(place);
    let plain = plain
        .strip_prefix("//")
        .filter(|_| place != plain)
        .unwrap_or(plain);
    if plain.contains("://") {
        let scheme = plain.split("://").next().unwrap_or_default();
        return Err(unusable(
            Path::new(scheme),
            "this kind of lock is not supported; use the path of an SQLite database",
        ));
    }
    std::path::absolute(plain).map_err(|e| unusable(Path::new(plain), &e.to_string()))
}
