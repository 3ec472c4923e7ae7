//! PostgreSQL.

use async_trait::async_trait;
use sqlx::ConnectOptions;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use url::Url;

use super::dialect::{Dialect, POSTGRES};
use super::engine::{Diagnosis, Engine, Failure, Unfit, advice, names_authority, trusted_pem};
use crate::LogId;

/// Query of the columns: name, type, whether the column alone is unique, and whether changes of the
/// table are logged.
const POSTGRES_COLUMNS: &str = "SELECT a.attname::text, \
     format_type(a.atttypid, NULL), \
     EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid \
             AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum), \
     c.relpersistence = 'p' \
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
     WHERE c.oid = to_regclass('checkpoints') AND a.attnum > 0 AND NOT a.attisdropped";

/// Query of the settings that decide whether a power failure loses commits.
const POSTGRES_DURABILITY: &str =
    "SELECT current_setting('fsync')::bool, current_setting('synchronous_commit')";

/// Sets the session's part of these settings.
const POSTGRES_SYNCHRONOUS: &str = "SET synchronous_commit = on";

/// Settings of Lucarne's sessions. Under stricter isolation, a lost race would be an error instead
/// of an unchanged row.
const POSTGRES_SESSION: &str = "SET statement_timeout = '3s'; \
     SET lock_timeout = '3s'; SET default_transaction_isolation = 'read committed'";

/// A database on a server of PostgreSQL.
pub(super) struct Postgres(PgConnectOptions);

#[async_trait]
impl Engine for Postgres {
    type Connection = PgConnection;
    type Column = Column;

    const DIALECT: Dialect = POSTGRES;

    fn new(url: &Url) -> Result<Self, sqlx::Error> {
        let mut options = PgConnectOptions::from_url(url)?.application_name("lucarne");
        // By default, sqlx only knows the public certificate authorities.
        if !names_authority(url) && std::env::var_os("PGSSLROOTCERT").is_none() {
            options = options.ssl_root_cert_from_pem(trusted_pem());
        }
        Ok(Self(options.disable_statement_logging()))
    }

    async fn connect(&self) -> Result<PgConnection, Failure> {
        let mut connection = self.0.connect().await?;
        sqlx::raw_sql(POSTGRES_SESSION)
            .execute(&mut connection)
            .await?;
        let settings = sqlx::query_as(POSTGRES_DURABILITY);
        let (fsync, commit): (bool, String) = settings.fetch_one(&mut connection).await?;
        if !fsync {
            return Err(Unfit::Fsync.into());
        }
        if !["on", "remote_apply"].contains(&&*commit) {
            let synchronous = sqlx::raw_sql(POSTGRES_SYNCHRONOUS);
            synchronous.execute(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn columns(connection: &mut PgConnection) -> Result<Vec<Column>, sqlx::Error> {
        sqlx::query_as(POSTGRES_COLUMNS).fetch_all(connection).await
    }

    fn fits(columns: &[Column]) -> bool {
        let bytes = |name: &str| {
            let column = columns.iter().find(|(n, ..)| n == name);
            column.filter(|(_, kind, ..)| kind == "bytea")
        };
        let (log, body) = (bytes("logid"), bytes("body"));
        matches!((log, body), (Some((_, _, true, true)), Some(_)))
    }

    async fn load(
        connection: &mut PgConnection,
        log: &LogId,
    ) -> Result<Option<Vec<u8>>, sqlx::Error> {
        let row = sqlx::query_scalar(POSTGRES.load).bind(&log[..]);
        row.fetch_optional(connection).await
    }

    async fn now(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint")
            .fetch_one(connection)
            .await
    }

    async fn execute(
        connection: &mut PgConnection,
        statement: &'static str,
        parameters: &[&[u8]],
    ) -> Result<u64, sqlx::Error> {
        let mut query = sqlx::query(statement);
        for parameter in parameters {
            query = query.bind(*parameter);
        }
        Ok(query.execute(connection).await?.rows_affected())
    }

    /// The codes are PostgreSQL's (appendix A of its manual).
    fn judge(error: &dyn DatabaseError) -> Diagnosis {
        match error.code().as_deref().unwrap_or_default() {
            // Shutdown, crash, startup, too many connections; connection errors.
            "57P01" | "57P02" | "57P03" | "57P05" | "53300" => Diagnosis::Away,
            code if code.starts_with("08") => Diagnosis::Away,
            "40001" | "40P01" => Diagnosis::Again,
            "28P01" | "28000" => Diagnosis::Refused(advice::LOGIN),
            "3D000" => Diagnosis::Refused(advice::NO_DATABASE),
            "42P01" => Diagnosis::Refused(advice::NO_TABLE),
            "42501" => Diagnosis::Refused(advice::RIGHTS),
            "25006" => Diagnosis::Refused(advice::READ_ONLY),
            "53100" => Diagnosis::Refused(advice::FULL),
            "55P03" | "57014" => Diagnosis::Refused(advice::HELD),
            _ => Diagnosis::Refused(""),
        }
    }
}

/// Name, type, whether the column alone is unique, and whether the table's changes survive a crash.
type Column = (String, String, bool, bool);
