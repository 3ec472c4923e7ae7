//! The tree as TesseraCT on AWS keeps it in its MySQL database: what it has given
//! places to, and what of that is in tiles.

#[cfg(feature = "mysql")]
use {
    super::mysql::MySql,
    super::server::{Failure, Server},
    crate::LockError,
    sqlx::mysql::MySqlConnection,
    url::Url,
};

/// A tree that TesseraCT left in a bucket, in the words of its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesseraState {
    /// Entries that have a place in the log. Their SCTs may be out.
    pub sequenced: u64,
    /// Entries that are in tiles.
    pub integrated: u64,
    /// The root of those.
    pub root: Vec<u8>,
}

/// The layout that is known.
#[cfg(feature = "mysql")]
const VERSION: u64 = 1;

#[cfg(feature = "mysql")]
const TABLES: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.tables \
     WHERE table_schema = DATABASE() AND table_name IN ('Tessera', 'SeqCoord', 'IntCoord')";

#[cfg(feature = "mysql")]
const STATE: &str = "SELECT t.compatibilityVersion, s.next, i.seq, i.rootHash \
     FROM Tessera t JOIN SeqCoord s ON s.id = t.id JOIN IntCoord i ON i.id = t.id WHERE t.id = 0";

/// Reads it; `None` if these tables are not there.
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
        Some((version, ..)) => Err(Failure::Unfit(format!(
            "TesseraCT's tables there are of version {version}: only {VERSION} is known"
        ))),
        None => Err(Failure::Unfit(
            "TesseraCT's tables there have no log: they are not of one that was ever started"
                .into(),
        )),
    }
}
