//! MySQL and MariaDB, and the state that TesseraCT on AWS keeps in MySQL.

use async_trait::async_trait;
use sqlx::ConnectOptions;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};
use url::Url;

use super::TesseraState;
use super::dialect::{Dialect, MYSQL};
use super::engine::{Diagnosis, Engine, Failure, Unfit, advice, names_authority, trusted_pem};
use super::server::Server;
use crate::{LockError, LogId};

/// Query of the columns: name, type, key, and the table's engine.
const MYSQL_COLUMNS: &str = "SELECT CAST(c.column_name AS CHAR), \
     CAST(c.data_type AS CHAR), CAST(c.column_key AS CHAR), CAST(t.engine AS CHAR) \
     FROM information_schema.columns c JOIN information_schema.tables t \
     ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
     WHERE c.table_schema = DATABASE() AND c.table_name = 'checkpoints'";

/// Query of the settings that decide whether a power failure loses commits. The first and the last
/// setting cannot be set for one session only.
const MYSQL_DURABILITY: &str = "SELECT \
     CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), \
     CAST(@@GLOBAL.log_bin AS SIGNED), CAST(@@GLOBAL.sync_binlog AS SIGNED)";

/// Settings of Lucarne's sessions. A statement must time out on the server before Lucarne stops
/// waiting for its result.
const MYSQL_SESSION: &str = "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 3";

/// A database on a server of MySQL or MariaDB.
pub(super) struct MySql(MySqlConnectOptions);

#[async_trait]
impl Engine for MySql {
    type Connection = MySqlConnection;
    type Column = Column;

    const DIALECT: Dialect = MYSQL;

    fn new(url: &Url) -> Result<Self, sqlx::Error> {
        let mut options = MySqlConnectOptions::from_url(url)?;
        // By default, sqlx only knows the public certificate authorities.
        if !names_authority(url) {
            options = options.ssl_ca_from_pem(trusted_pem());
        }
        Ok(Self(options.disable_statement_logging()))
    }

    async fn connect(&self) -> Result<MySqlConnection, Failure> {
        let mut connection = self.0.connect().await?;
        sqlx::raw_sql(MYSQL_SESSION)
            .execute(&mut connection)
            .await?;
        let settings = sqlx::query_as(MYSQL_DURABILITY);
        durable(settings.fetch_one(&mut connection).await?)?;
        Ok(connection)
    }

    async fn columns(connection: &mut MySqlConnection) -> Result<Vec<Column>, sqlx::Error> {
        sqlx::query_as(MYSQL_COLUMNS).fetch_all(connection).await
    }

    fn fits(columns: &[Column]) -> bool {
        let column = |name: &str| columns.iter().find(|(n, ..)| n.eq_ignore_ascii_case(name));
        let binary = |kind: &str| kind.ends_with("binary") || kind.ends_with("blob");
        let of_primary_key = columns.iter().filter(|(_, _, key, _)| key == "PRI").count();
        let (log, body) = (column("logID"), column("body"));
        column("commits").is_some()
            && body.is_some_and(|(_, kind, ..)| binary(kind))
            && log.is_some_and(|(_, kind, key, _)| binary(kind) && key == "PRI")
            && of_primary_key == 1
            && columns
                .iter()
                .all(|(.., engine)| engine.as_deref() == Some("InnoDB"))
    }

    async fn load(
        connection: &mut MySqlConnection,
        log: &LogId,
    ) -> Result<Option<Vec<u8>>, sqlx::Error> {
        let row = sqlx::query_scalar(MYSQL.load).bind(&log[..]);
        row.fetch_optional(connection).await
    }

    async fn now(connection: &mut MySqlConnection) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT CAST(UNIX_TIMESTAMP() AS SIGNED)")
            .fetch_one(connection)
            .await
    }

    async fn execute(
        connection: &mut MySqlConnection,
        statement: &'static str,
        parameters: &[&[u8]],
    ) -> Result<u64, sqlx::Error> {
        let mut query = sqlx::query(statement);
        for parameter in parameters {
            query = query.bind(*parameter);
        }
        match query.execute(connection).await {
            Ok(done) => Ok(done.rows_affected()),
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The numbers are error codes of MySQL and MariaDB servers.
    fn judge(error: &dyn DatabaseError) -> Diagnosis {
        let error = error.try_downcast_ref::<MySqlDatabaseError>();
        match error.map_or(0, MySqlDatabaseError::number) {
            // Shutdown, kill, too many connections, broken packets.
            1040 | 1053 | 1077 | 1079 | 1080 | 1152..=1161 | 1184 | 1317 | 1927 | 4031 => {
                Diagnosis::Away
            }
            // A deadlock, or a conflict in a cluster.
            1213 => Diagnosis::Again,
            1045 | 1130 | 1698 => Diagnosis::Refused(advice::LOGIN),
            1049 => Diagnosis::Refused(advice::NO_DATABASE),
            1146 => Diagnosis::Refused(advice::NO_TABLE),
            1044 | 1142 | 1143 => Diagnosis::Refused(advice::RIGHTS),
            1290 | 1792 | 1836 => Diagnosis::Refused(advice::READ_ONLY),
            3 | 1021 | 1114 => Diagnosis::Refused(advice::FULL),
            1205 => Diagnosis::Refused(advice::HELD),
            _ => Diagnosis::Refused(""),
        }
    }
}

/// Name, type, key (`PRI`), and the engine of the table.
type Column = (String, String, String, Option<String>);

/// Fails for a server that loses commits in a power failure. `log_bin` matters because the binary
/// log, if enabled, decides after a restart which transactions have happened.
fn durable((flush, log_bin, sync_binlog): (i64, i64, i64)) -> Result<(), Unfit> {
    // 3 is an additional value of MariaDB: like 1, with more syncs.
    if flush != 1 && flush != 3 {
        return Err(Unfit::Flush { found: flush });
    }
    if log_bin != 0 && sync_binlog != 1 {
        return Err(Unfit::BinaryLog { found: sync_binlog });
    }
    Ok(())
}

/// The supported version of TesseraCT's tables.
const TESSERA_VERSION: u64 = 1;

const TESSERA_TABLES: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.tables \
     WHERE table_schema = DATABASE() AND table_name IN ('Tessera', 'SeqCoord', 'IntCoord')";

const TESSERA_STATE: &str = "SELECT t.compatibilityVersion, s.next, i.seq, i.rootHash \
     FROM Tessera t JOIN SeqCoord s ON s.id = t.id JOIN IntCoord i ON i.id = t.id WHERE t.id = 0";

/// Reads the state of TesseraCT's tree; `None` if its tables do not exist.
pub(super) async fn tessera(url: &Url) -> Result<Option<TesseraState>, LockError> {
    let server = Server::<MySql>::new(url)?;
    let mut connection = server.first().await?;
    server.answer(tessera_state(&mut connection)).await
}

async fn tessera_state(connection: &mut MySqlConnection) -> Result<Option<TesseraState>, Failure> {
    let tables: i64 = sqlx::query_scalar(TESSERA_TABLES)
        .fetch_one(&mut *connection)
        .await?;
    if tables != 3 {
        return Ok(None);
    }
    let row: Option<(u64, u64, u64, Vec<u8>)> = sqlx::query_as(TESSERA_STATE)
        .fetch_optional(connection)
        .await?;
    match row {
        Some((TESSERA_VERSION, sequenced, integrated, root)) => Ok(Some(TesseraState {
            sequenced,
            integrated,
            root,
        })),
        Some((version, ..)) => Err(Unfit::TesseraVersion {
            found: version,
            supported: TESSERA_VERSION,
        }
        .into()),
        None => Err(Unfit::NoTesseraLog.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_synced_commits_are_durable() {
        for fit in [(1, 0, 0), (3, 0, 0), (1, 1, 1)] {
            assert!(durable(fit).is_ok(), "{fit:?}");
        }
        for unfit in [(0, 0, 1), (2, 0, 1), (1, 1, 0), (1, 1, 100), (2, 1, 1)] {
            assert!(durable(unfit).is_err(), "{unfit:?}");
        }
    }
}
