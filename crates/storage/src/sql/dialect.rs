//! The statements, where databases differ.
//!
//! Each has the table `checkpoints` with one row per log, so that an operator
//! reads any of them with the same query. `checkpoints(logID, body)` is
//! Sunlight's, whose lock databases are accepted as they are.

/// Statements with their parameters in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// (log) → body
    pub(super) load: &'static str,
    /// (log, body); changes no row if the log exists.
    pub(super) create: &'static str,
    /// (new body, log, old body); changes one row, or none.
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

/// Sunlight's table.
pub(super) const SQLITE_SCHEMA: &str =
    "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT";

/// (table) → name and declared type of each column.
pub(super) const SQLITE_COLUMNS: &str = "SELECT name, type FROM pragma_table_info('checkpoints')";
