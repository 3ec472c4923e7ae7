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

/// PostgreSQL. A row that is updated to what it was is still a commit.
pub(super) const POSTGRES: Dialect = Dialect {
    schema: "CREATE TABLE checkpoints (logID BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
    load: "SELECT body FROM checkpoints WHERE logID = $1",
    create: "INSERT INTO checkpoints (logID, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = $1 WHERE logID = $2 AND body = $3",
    probe: "UPDATE checkpoints SET body = body WHERE FALSE",
};
