//! The SQL statements of each database.
//!
//! Each database has the table `checkpoints` with one row per log, so that an operator can read all
//! of them with the same query. `checkpoints(logID, body)` is the schema of Sunlight, whose lock
//! databases are accepted without conversion.

/// Statements; each comment lists the parameters in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Creates the table.
    pub(super) schema: &'static str,
    /// (log) → body
    pub(super) load: &'static str,
    /// (log, body); changes no row if the log exists.
    pub(super) create: &'static str,
    /// (new body, log, old body); changes one row, or none. The row is written and synced even if
    /// the old and new bodies are equal.
    pub(super) replace: &'static str,
    /// Changes nothing, and fails if the database is not writable. `BEGIN IMMEDIATE` would not be
    /// sufficient: SQLite accepts it on a read-only file.
    pub(super) probe: &'static str,
}

/// The SQLite table of Lucarne and of newer versions of Sunlight.
///
/// In SQLite a BLOB never equals a TEXT, regardless of the bytes. Rows written when the column was
/// TEXT are therefore cast before they are compared.
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
/// Binary columns compare byte for byte, without collations or padding. InnoDB writes and syncs
/// nothing if a row stays the same; the counter of commits changes the row each time.
/// `ON DUPLICATE KEY` could not distinguish an insertion from a duplicate, and `IGNORE` ignores
/// other errors as well. So [`create`] fails for a duplicate, and the error is recognised.
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

/// PostgreSQL. An update that does not change the row is still a commit.
pub(super) const POSTGRES: Dialect = Dialect {
    schema: "CREATE TABLE checkpoints (logID BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
    load: "SELECT body FROM checkpoints WHERE logID = $1",
    create: "INSERT INTO checkpoints (logID, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    replace: "UPDATE checkpoints SET body = $1 WHERE logID = $2 AND body = $3",
    probe: "UPDATE checkpoints SET body = body WHERE FALSE",
};
