//! The state of the tree that TesseraCT on AWS keeps in its MySQL database: the sequenced entries,
//! and those integrated into tiles.

#[cfg(feature = "mysql")]
use {
    super::failure::{Failure, Unfit},
    super::mysql::MySql,
    super::server::Server,
    crate::LockError,
    sqlx::mysql::MySqlConnection,
    url::Url,
};

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

/// The supported version of TesseraCT's tables.
#[cfg(feature = "mysql")]
const VERSION: u64 = 1;

#[cfg(feature = "mysql")]
const TABLES: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.tables \
     WHERE table_schema = DATABASE() AND table_name IN ('Tessera', 'SeqCoord', 'IntCoord')";

#[cfg(feature = "mysql")]
const STATE: &str = "SELECT t.compatibilityVersion, s.next, i.seq, i.rootHash \
     FROM Tessera t JOIN SeqCoord s ON s.id = t.id JOIN IntCoord i ON i.id = t.id WHERE t.id = 0";

/// Reads the state; `None` if the tables do not exist.
#[cfg(feature = "mysql")]
pub(super) async fn read(url: &Url) -> Result<Option<TesseraState>, LockError> {
    let server = Server::<MySql>::new(url)?;
    let mut connection = server.first().await?;
    server.answer(state(&mut connection)).await
}

#[cfg(feature = "mysql")]
async fn state(connection: &mut MySqlConnection) -> Result<Option<TesseraState>, Failure> {
    let tables: i64 = sqlx::query_scalar(TABLES)
        .fetch_one(&mut *connection)
        .await?;
    if tables != 3 {
        return Ok(None);
    }
    let row: Option<(u64, u64, u64, Vec<u8>)> =
        sqlx::query_as(STATE).fetch_optional(connection).await?;
    match row {
        Some((VERSION, sequenced, integrated, root)) => Ok(Some(TesseraState {
            sequenced,
            integrated,
            root,
        })),
        Some((version, ..)) => Err(Unfit::TesseraVersion {
            found: version,
            supported: VERSION,
        }
        .into()),
        None => Err(Unfit::NoTesseraLog.into()),
    }
}
