//! Functions that open the databases of this build, as selected by cargo features.

use std::path::Path;

use super::Database;
use super::TesseraState;
use super::database_url::DatabaseUrl;
#[cfg(feature = "sqlite")]
use super::looking::Looking;
#[cfg(feature = "mysql")]
use super::mysql::MySql;
#[cfg(feature = "postgres")]
use super::postgres::Postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use super::server::Server;
#[cfg(feature = "sqlite")]
use super::sqlite::{self, Sqlite};
#[cfg(feature = "mysql")]
use super::tessera;
use crate::LockError;

/// See [`SqlLock::open`](super::SqlLock::open).
pub(super) async fn open(place: &DatabaseUrl) -> Result<Box<dyn Database>, LockError> {
    match place {
        #[cfg(feature = "sqlite")]
        DatabaseUrl::Sqlite(path) => Ok(Box::new(Sqlite::open(path).await?)),
        #[cfg(feature = "mysql")]
        DatabaseUrl::MySql(url) => Ok(Box::new(Server::<MySql>::open(url).await?)),
        #[cfg(feature = "postgres")]
        DatabaseUrl::Postgres(url) => Ok(Box::new(Server::<Postgres>::open(url).await?)),
        #[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
        absent => Err(absent.left_out()),
    }
}

/// See [`SqlLock::look`](super::SqlLock::look). A server is opened in the usual way, which writes
/// nothing.
pub(super) async fn look(place: &DatabaseUrl) -> Result<Box<dyn Database>, LockError> {
    match place {
        #[cfg(feature = "sqlite")]
        DatabaseUrl::Sqlite(path) => Ok(Box::new(Looking::into(path).await?)),
        server => open(server).await,
    }
}

/// See [`SqlLock::copy`](super::SqlLock::copy).
pub(super) async fn copy(place: &DatabaseUrl, to: &Path) -> Result<(), LockError> {
    match place {
        #[cfg(feature = "sqlite")]
        DatabaseUrl::Sqlite(path) => Looking::into(path).await?.copy(to).await,
        #[cfg(not(feature = "sqlite"))]
        DatabaseUrl::Sqlite(_) => {
            let _ = to;
            Err(place.left_out())
        }
        server => Err(LockError::Unusable {
            location: server.to_string(),
            reason: "only an SQLite lock is a file. Copy the database with the tools of its server"
                .into(),
        }),
    }
}

/// See [`SqlLock::is_there`](super::SqlLock::is_there).
pub(super) async fn is_there(place: &DatabaseUrl) -> Result<bool, LockError> {
    match place {
        DatabaseUrl::Sqlite(path) => Ok(path.exists()),
        #[cfg(feature = "mysql")]
        DatabaseUrl::MySql(url) => Server::<MySql>::is_there(url).await,
        #[cfg(feature = "postgres")]
        DatabaseUrl::Postgres(url) => Server::<Postgres>::is_there(url).await,
        #[cfg(not(all(feature = "mysql", feature = "postgres")))]
        absent => Err(absent.left_out()),
    }
}

/// See [`SqlLock::tessera`](super::SqlLock::tessera).
pub(super) async fn tessera(place: &DatabaseUrl) -> Result<Option<TesseraState>, LockError> {
    match place {
        #[cfg(feature = "mysql")]
        DatabaseUrl::MySql(url) => tessera::read(url).await,
        _ => Ok(None),
    }
}

/// Creates the lock that [`open`] opens.
pub(super) async fn create(place: &DatabaseUrl) -> Result<(), LockError> {
    match place {
        #[cfg(feature = "sqlite")]
        DatabaseUrl::Sqlite(path) => sqlite::create(path).await,
        #[cfg(feature = "mysql")]
        DatabaseUrl::MySql(url) => Server::<MySql>::create(url).await,
        #[cfg(feature = "postgres")]
        DatabaseUrl::Postgres(url) => Server::<Postgres>::create(url).await,
        #[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
        absent => Err(absent.left_out()),
    }
}
