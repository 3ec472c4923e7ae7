//! Failures of attempts to use a database server.

/// The reasons why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server or the table has the wrong settings.
    Unfit(Unfit),
    Sql(sqlx::Error),
    /// There was no response in time.
    Silence,
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// The wrong settings of a server or a table. Each text has the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("Lucarne cannot use its table `checkpoints`; expected: {expected}")]
    Table { expected: &'static str },
    #[error("the lock is closed")]
    Closed,
    #[cfg(feature = "mysql")]
    #[error(
        "the server has innodb_flush_log_at_trx_commit = {found}: it loses commits in a power \
         failure, and a log can fork if its lock loses a commit. Set \
         innodb_flush_log_at_trx_commit to 1 in the server's configuration, and run: SET GLOBAL \
         innodb_flush_log_at_trx_commit = 1"
    )]
    Flush { found: i64 },
    #[cfg(feature = "mysql")]
    #[error(
        "the server has a binary log with sync_binlog = {found}: it loses commits in a power \
         failure, and a log can fork if its lock loses a commit. Set sync_binlog to 1 in the \
         server's configuration, and run: SET GLOBAL sync_binlog = 1"
    )]
    BinaryLog { found: i64 },
    #[cfg(feature = "postgres")]
    #[error(
        "the server has fsync = off: it loses commits in a power failure, and a log can fork if \
         its lock loses a commit. Set fsync = on in the server's configuration, and restart the \
         server"
    )]
    Fsync,
    #[cfg(feature = "mysql")]
    #[error("TesseraCT's tables have version {found}: only version {supported} is supported")]
    TesseraVersion { found: u64, supported: u64 },
    #[cfg(feature = "mysql")]
    #[error("TesseraCT's tables have no log: TesseraCT was never started with these tables")]
    NoTesseraLog,
}
