//! The statements, where databases differ.
//!
//! Each has the table `checkpoints` with one row per log, so that an operator
//! reads any of them with the same query. `checkpoints(logID, body)` is
//! Sunlight's, whose lock databases are accepted as they are.

/// Statements with their parameters in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Makes the table.
    pub(super) schema: &'static str,
    /// (log) → body
    pub(super) load: &'static str,
    /// (log, body); changes no row if the log exists.
    pub(super) create: &'static str,
    /// (new body, log, old body); changes one row, or none. It is written
    /// and synced even if old and new are the same.
    pub(super) replace: &'static str,
    /// Changes nothing, and fails where nothing can be changed. (`BEGIN
    /// IMMEDIATE` would not do: SQLite lets it pass on a read-only file.)
    pub(super) probe: &'static str,
}

/// SQLite as we and newer versions of Sunlight make it.
///
/// A BLOB never equals a TEXT in SQLite, whatever the bytes: rows written when
/// the column was TEXT are cast before they are compared.
pub(super) const SQLITE: Dialect = Dialect {
    // Sunlight's table.
    schema: "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT",
    load: "SELECT CAST(body AS BLOB) FROM checkpoints WHERE logID = ?",
    create: "INSERT INTO checkpoints (logID, body) VALUES (?, ?) ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = ? WHERE logID = ? AND CAST(body AS BLOB) = ?",
    probe: "UPDATE checkpoints SET body = body WHERE FALSE",
};

/// SQLite as older versions of Sunlight made it, with `body TEXT`: written as
/// text, so that it stays readable for them.
pub(super) const SQLITE_TEXT: Dialect = Dialect {
    create: "INSERT INTO checkpoints (logID, body) VALUES (?, CAST(? AS TEXT)) \
             ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = CAST(? AS TEXT) \
              WHERE logID = ? AND CAST(body AS BLOB) = ?",
    ..SQLITE
};

/// (table) → name and declared type of each column.
pub(super) const SQLITE_COLUMNS: &str = "SELECT name, type FROM pragma_table_info('checkpoints')";

/// MySQL and MariaDB.
///
/// Binary columns compare byte for byte, without collations or padding. InnoDB
/// writes and syncs nothing where a row stays the same; counting the commits
/// makes each of them one. (`ON DUPLICATE KEY` would not tell an insertion
/// from none, and `IGNORE` ignores more than duplicates: [`create`] fails, and
/// the failure is recognised.)
///
/// [`create`]: Dialect::create
pub(super) const MYSQL: Dialect = Dialect {
    schema: "CREATE TABLE checkpoints (logID BINARY(32) PRIMARY KEY, body MEDIUMBLOB NOT NULL, \
             commits BIGINT UNSIGNED NOT NULL DEFAULT 0) ENGINE = InnoDB",
    load: "SELECT body FROM checkpoints WHERE logID = ?",
    create: "INSERT INTO checkpoints (logID, body) VALUES (?, ?)",
    replace: "UPDATE checkpoints SET body = ?, commits = commits + 1 WHERE logID = ? AND body = ?",
    probe: "UPDATE checkpoints SET body = body WHERE logID = ''",
};

/// Each column with its type, its key, and the table's engine.
pub(super) const MYSQL_COLUMNS: &str = "SELECT CAST(c.column_name AS CHAR), \
     CAST(c.data_type AS CHAR), CAST(c.column_key AS CHAR), CAST(t.engine AS CHAR) \
     FROM information_schema.columns c JOIN information_schema.tables t \
     ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
     WHERE c.table_schema = DATABASE() AND c.table_name = 'checkpoints'";

/// What decides whether a commit is lost in a power failure. The first is not
/// to be had for one session only, nor is the last.
pub(super) const MYSQL_DURABILITY: &str = "SELECT \
     CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), \
     CAST(@@GLOBAL.log_bin AS SIGNED), CAST(@@GLOBAL.sync_binlog AS SIGNED)";

/// For our connections only. A statement must end by itself before we stop
/// waiting for it.
pub(super) const MYSQL_SESSION: &str =
    "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 3";

/// PostgreSQL. A row that is updated to what it was is still a commit.
pub(super) const POSTGRES: Dialect = Dialect {
    schema: "CREATE TABLE checkpoints (logID BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
    load: "SELECT body FROM checkpoints WHERE logID = $1",
    create: "INSERT INTO checkpoints (logID, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = $1 WHERE logID = $2 AND body = $3",
    probe: "UPDATE checkpoints SET body = body WHERE FALSE",
};

/// Each column with its type, whether it alone is unique, and whether the
/// table is one whose changes are logged.
pub(super) const POSTGRES_COLUMNS: &str = "SELECT a.attname::text, \
     format_type(a.atttypid, NULL), \
     EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid \
             AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum), \
     c.relpersistence = 'p' \
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
     WHERE c.oid = to_regclass('checkpoints') AND a.attnum > 0 AND NOT a.attisdropped";

/// What decides whether a commit is lost in a power failure.
pub(super) const POSTGRES_DURABILITY: &str =
    "SELECT current_setting('fsync')::bool, current_setting('synchronous_commit')";

/// The session's part of that, if it was set to less.
pub(super) const POSTGRES_SYNCHRONOUS: &str = "SET synchronous_commit = on";

/// For our connections only. Under stricter isolation a lost race would be an
/// error instead of a row that is not changed.
pub(super) const POSTGRES_SESSION: &str = "SET statement_timeout = '3s'; \
     SET lock_timeout = '3s'; SET default_transaction_isolation = 'read committed'";
