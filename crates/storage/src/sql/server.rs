//! A lock on a database server: the common part of MySQL and PostgreSQL.
//!
//! A server may restart, fail over or hang, and connections break. A call reconnects and retries
//! until [`CALL_TIMEOUT`] has passed. If the response to a change was lost, the change may be
//! stored, or still in progress. A second attempt of the same change then matches no row.
//! Therefore, the call replaces the new value with itself: this succeeds only if the change is
//! stored, and returns after the change is durable.

use std::time::Duration;

use async_trait::async_trait;
use lucarne_net::{Trust, explain, shows_authority, tls_error};
use lucarne_x509::pem;
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::connections::Connections;
use super::dialect::Dialect;
use super::failure::{Failure, Unfit};
use super::{Change, Database, database_url};
use crate::{LockError, LogId, StoreDate};

/// Time limit of a whole call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for connecting and for each response. The server itself ends a statement one second
/// before this limit (see the dialects).
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout of [`Lock::check`](crate::Lock::check) and [`Lock::date`](crate::Lock::date), short
/// because the caller waits for the result.
const CHECK: Duration = Duration::from_secs(3);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A kind of database server.
#[async_trait]
pub(super) trait Engine: Sized + Send + Sync + 'static {
    type Connection: sqlx::Connection;

    /// The server's description of a column of the table.
    type Column: Send + Sync;

    const DIALECT: Dialect;

    fn new(url: &Url) -> Result<Self, sqlx::Error>;

    /// Opens a connection on which commits are durable. The settings are checked each time, because
    /// a server may have other settings after a restart.
    async fn connect(&self) -> Result<Self::Connection, Failure>;

    /// Returns the columns of the table; empty if there is no table.
    async fn columns(connection: &mut Self::Connection) -> Result<Vec<Self::Column>, sqlx::Error>;

    /// Returns `true` if a table with these columns compares bytes, has one row per log, and
    /// survives a crash.
    fn fits(columns: &[Self::Column]) -> bool;

    /// Fails for a table of another kind; returns `None` if there is no table.
    async fn examine(connection: &mut Self::Connection) -> Result<Option<()>, Failure> {
        let columns = Self::columns(connection).await?;
        if columns.is_empty() {
            return Ok(None);
        }
        if Self::fits(&columns) {
            Ok(Some(()))
        } else {
            Err(Unfit::Table {
                expected: Self::DIALECT.schema,
            }
            .into())
        }
    }

    async fn load(
        connection: &mut Self::Connection,
        log: &LogId,
    ) -> Result<Option<Vec<u8>>, sqlx::Error>;

    /// Returns the time of the server in Unix seconds.
    async fn now(connection: &mut Self::Connection) -> Result<i64, sqlx::Error>;

    /// Executes a statement and returns the number of matching rows.
    async fn execute(
        connection: &mut Self::Connection,
        statement: &'static str,
        parameters: &[&[u8]],
    ) -> Result<u64, sqlx::Error>;

    /// Classifies an error that the server returned.
    fn judge(error: &dyn DatabaseError) -> Diagnosis;

    fn diagnose(error: &sqlx::Error) -> Diagnosis {
        match error {
            sqlx::Error::Database(error) => Self::judge(&**error),
            sqlx::Error::Configuration(_) => Diagnosis::Refused(""),
            sqlx::Error::Tls(_) => Diagnosis::Refused(advice::TLS),
            sqlx::Error::Io(error) if is_tls(error) => Diagnosis::Refused(advice::TLS),
            _ => Diagnosis::Away,
        }
    }
}

/// Returns `true` if rustls rejected the server: the next attempt would fail in the same way.
fn is_tls(error: &std::io::Error) -> bool {
    use rustls::Error::{InvalidCertificate, PeerIncompatible};
    matches!(
        tls_error(error),
        Some(InvalidCertificate(_) | PeerIncompatible(_))
    )
}

/// Returns `true` if the URL has its own certificate authority for the server.
pub(super) fn names_authority(url: &Url) -> bool {
    let names = ["ssl-ca", "sslca", "sslrootcert", "ssl-root-cert"];
    url.query_pairs()
        .any(|(key, _)| names.contains(&key.as_ref()))
}

/// Returns the certificate authorities of this machine in PEM, as sqlx expects them.
pub(super) fn trusted_pem() -> Vec<u8> {
    let trust = Trust::system();
    let blocks = trust
        .certificates()
        .iter()
        .map(|der| pem::encode("CERTIFICATE", der));
    blocks.collect::<String>().into_bytes()
}

/// The meaning of a server's error.
pub(super) enum Diagnosis {
    /// The connection or the server is unavailable.
    Away,
    /// The statement had no effect, and the next attempt may succeed.
    Again,
    /// The statement had no effect; the text is the remedy, or empty.
    Refused(&'static str),
}

/// A database on a server.
pub(super) struct Server<E: Engine> {
    engine: E,
    location: String,
    connections: Connections<E::Connection>,
}

impl<E: Engine> Server<E> {
    /// Connects and checks the table.
    pub(super) async fn open(url: &Url) -> Result<Self, LockError> {
        let server = Self::new(url)?;
        let mut connection = server.first().await?;
        let found = server.answer(E::examine(&mut connection)).await?;
        if found.is_none() {
            return Err(server.unusable(&format!(
                "the table `checkpoints` does not exist in this database. If the URL is correct \
                 and no log was ever created with it, run `lucarne init`, or let an \
                 administrator run: {}",
                E::DIALECT.schema
            )));
        }
        if let Some(slot) = server.connections.slot().await {
            slot.keep(connection);
        }
        Ok(server)
    }

    /// Returns `true` if the table exists.
    pub(super) async fn is_there(url: &Url) -> Result<bool, LockError> {
        let server = Self::new(url)?;
        let mut connection = server.first().await?;
        let found = server.answer(E::examine(&mut connection)).await?;
        Ok(found.is_some())
    }

    /// Creates the table.
    pub(super) async fn create(url: &Url) -> Result<(), LockError> {
        let server = Self::new(url)?;
        let mut connection = server.first().await?;
        let found = server.answer(E::examine(&mut connection)).await?;
        if found.is_some() {
            return Err(server.unusable("exists already; a lock is never overwritten"));
        }
        let schema = async {
            let made = E::execute(&mut connection, E::DIALECT.schema, &[]).await;
            made.map_err(Failure::from)
        };
        server.answer(schema).await?;
        Ok(())
    }

    pub(super) fn new(url: &Url) -> Result<Self, LockError> {
        let location = database_url::location(url);
        let engine = E::new(url).map_err(|e| LockError::Unusable {
            location: location.clone(),
            reason: format!("invalid URL: {e}"),
        })?;
        Ok(Self {
            engine,
            location,
            connections: Connections::new(),
        })
    }

    /// Opens the first connection. Errors at this time are not retried.
    pub(super) async fn first(&self) -> Result<E::Connection, LockError> {
        self.answer(self.engine.connect()).await
    }

    /// Waits for one response while the lock is opened.
    pub(super) async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, LockError> {
        let answer = timeout_at(Instant::now() + RESPONSE_TIMEOUT, answer).await;
        let answer = answer.unwrap_or(Err(Failure::Silence));
        answer.map_err(|failure| {
            let reason = message::<E>(&failure);
            if passing::<E>(&failure) {
                LockError::Failed {
                    location: self.location.clone(),
                    action: "open the lock",
                    reason,
                }
            } else {
                self.unusable(&reason)
            }
        })
    }

    /// Retries until there is a response or the deadline passes.
    async fn call<C: Call<E>>(&self, call: &C) -> Result<C::Answer, LockError> {
        let deadline = Instant::now() + call.patience();
        let mut unknown = false;
        loop {
            let failure = match self.attempt(deadline, &mut unknown, call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if let Failure::Unfit(unfit) = &failure {
                return Err(self.unusable(&unfit.to_string()));
            }
            if !passing::<E>(&failure) || Instant::now() + PAUSE >= deadline {
                return Err(LockError::Failed {
                    location: self.location.clone(),
                    action: call.action(),
                    reason: message::<E>(&failure),
                });
            }
            // The pause avoids immediate retries against a restarting server.
            sleep(PAUSE).await;
        }
    }

    async fn attempt<C: Call<E>>(
        &self,
        deadline: Instant,
        unknown: &mut bool,
        call: &C,
    ) -> Result<C::Answer, Failure> {
        let limit = || deadline.min(Instant::now() + RESPONSE_TIMEOUT);
        let slot = timeout_at(deadline, self.connections.slot()).await;
        let Some(slot) = slot.map_err(|_| Failure::Silence)? else {
            return Err(Unfit::Closed.into());
        };
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let connecting = timeout_at(limit(), self.engine.connect()).await;
                connecting.map_err(|_| Failure::Silence)??
            }
        };
        let answer = timeout_at(limit(), call.attempt(&mut connection, *unknown)).await;
        match answer {
            Ok(Ok(answer)) => {
                slot.keep(connection);
                Ok(answer)
            }
            Ok(Err(error)) => {
                if matches!(E::diagnose(&error), Diagnosis::Away) {
                    *unknown = true;
                    self.connections.clear();
                }
                Err(Failure::Sql(error))
            }
            Err(_) => {
                *unknown = true;
                self.connections.clear();
                Err(Failure::Silence)
            }
        }
    }

    fn unusable(&self, reason: &str) -> LockError {
        LockError::Unusable {
            location: self.location.clone(),
            reason: reason.to_owned(),
        }
    }
}

#[async_trait]
impl<E: Engine> Database for Server<E> {
    fn dialect(&self) -> &Dialect {
        &E::DIALECT
    }

    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.call(&Load(log)).await
    }

    async fn change(&self, change: &Change<'_>) -> Result<bool, LockError> {
        self.call(change).await
    }

    async fn probe(&self) -> Result<(), LockError> {
        self.call(&Probe).await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.call(&Now).await.map(Some)
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    async fn close(&self) {
        for connection in self.connections.close() {
            let _ = timeout_at(Instant::now() + RESPONSE_TIMEOUT, connection.close()).await;
        }
    }
}

/// A statement that is sent again until there is a response.
#[async_trait]
trait Call<E: Engine>: Sync {
    type Answer: Send;

    /// Returns the action for messages.
    fn action(&self) -> &'static str;

    /// Returns the time limit of the whole call.
    fn patience(&self) -> Duration {
        CALL_TIMEOUT
    }

    /// Executes the call once. `unknown` is `true` if an earlier attempt may have changed the row.
    async fn attempt(
        &self,
        connection: &mut E::Connection,
        unknown: bool,
    ) -> Result<Self::Answer, sqlx::Error>;
}

struct Load<'l>(&'l LogId);

#[async_trait]
impl<E: Engine> Call<E> for Load<'_> {
    type Answer = Option<Vec<u8>>;

    fn action(&self) -> &'static str {
        "load the checkpoint"
    }

    async fn attempt(
        &self,
        connection: &mut E::Connection,
        _: bool,
    ) -> Result<Self::Answer, sqlx::Error> {
        E::load(connection, self.0).await
    }
}

#[async_trait]
impl<E: Engine> Call<E> for Change<'_> {
    type Answer = bool;

    fn action(&self) -> &'static str {
        self.action
    }

    async fn attempt(
        &self,
        connection: &mut E::Connection,
        unknown: bool,
    ) -> Result<bool, sqlx::Error> {
        let rows = E::execute(connection, self.statement, self.parameters).await?;
        if rows == 1 || !unknown {
            return Ok(rows == 1);
        }
        let ours = [self.body, self.log, self.body];
        let rows = E::execute(connection, E::DIALECT.replace, &ours).await?;
        Ok(rows == 1)
    }
}

struct Probe;

#[async_trait]
impl<E: Engine> Call<E> for Probe {
    type Answer = ();

    fn action(&self) -> &'static str {
        "write"
    }

    fn patience(&self) -> Duration {
        CHECK
    }

    async fn attempt(&self, connection: &mut E::Connection, _: bool) -> Result<(), sqlx::Error> {
        E::execute(connection, E::DIALECT.probe, &[]).await?;
        Ok(())
    }
}

struct Now;

#[async_trait]
impl<E: Engine> Call<E> for Now {
    type Answer = StoreDate;

    fn action(&self) -> &'static str {
        "read the clock"
    }

    fn patience(&self) -> Duration {
        CHECK
    }

    async fn attempt(
        &self,
        connection: &mut E::Connection,
        _: bool,
    ) -> Result<StoreDate, sqlx::Error> {
        let seconds = E::now(connection).await?;
        Ok(StoreDate {
            unix_ms: u64::try_from(seconds).unwrap_or(0) * 1000,
            at: std::time::Instant::now(),
        })
    }
}

/// Returns `true` if the next attempt may succeed.
fn passing<E: Engine>(failure: &Failure) -> bool {
    match failure {
        Failure::Unfit(_) => false,
        Failure::Silence => true,
        Failure::Sql(error) => !matches!(E::diagnose(error), Diagnosis::Refused(_)),
    }
}

/// Describes the failure and the remedy for the usual cases.
fn message<E: Engine>(failure: &Failure) -> String {
    match failure {
        Failure::Unfit(unfit) => unfit.to_string(),
        Failure::Silence => "no response: the server hangs or is overloaded, or the network \
                             drops packets. Check the server first"
            .into(),
        Failure::Sql(error) => {
            let said = match (error, tls_error(error)) {
                (sqlx::Error::Database(error), _) => error.message().to_owned(),
                (_, Some(reason)) if shows_authority(reason) => advice::AUTHORITY.to_owned(),
                (_, Some(reason)) => explain(reason),
                (error, None) => error.to_string(),
            };
            match E::diagnose(error) {
                Diagnosis::Refused("") | Diagnosis::Again => said,
                Diagnosis::Refused(advice) => format!("{said}; {advice}"),
                Diagnosis::Away => {
                    format!(
                        "{said}; is the server running, and is the URL in `checkpoints` \
                             correct?"
                    )
                }
            }
        }
    }
}

/// Remedies for both kinds of server.
pub(super) mod advice {
    pub(in super::super) const LOGIN: &str = "the URL in `checkpoints` has a wrong user or password, or the server does not let this \
         user in from here. Special characters of a password are percent-encoded in a URL";
    pub(in super::super) const TLS: &str = "the URL in `checkpoints` names the authorities whose certificates are trusted \
         (`ssl-ca=…`, `sslrootcert=…`; else the system's), and a host that must be in the \
         server's certificate. A certificate that is trusted itself must not be that of a CA: \
         create it with `-addext basicConstraints=critical,CA:FALSE` (openssl req -x509)";
    pub(in super::super) const AUTHORITY: &str = "the server's certificate is that of a CA \
                                                  (CA:TRUE): the database driver refuses it, \
                                                  whether the certificate is trusted or not";
    pub(in super::super) const NO_DATABASE: &str = "an administrator creates the database with \
                                                    CREATE DATABASE. If logs were created with it \
                                                    before, this is the wrong server: do not \
                                                    create the database again";
    pub(in super::super) const NO_TABLE: &str = "the table was removed while in use: restore the \
                                                 newest copy of the table, and never create \
                                                 the table again";
    pub(in super::super) const RIGHTS: &str = "this user needs the privileges SELECT, INSERT and \
                                               UPDATE on the table `checkpoints`, and CREATE to \
                                               create it";
    pub(in super::super) const READ_ONLY: &str = "this server is read-only: it is a replica, or \
                                                  is configured as read-only. The URL in \
                                                  `checkpoints` must lead to the primary";
    pub(in super::super) const FULL: &str = "free space on the server's disk";
    pub(in super::super) const HELD: &str =
        "another session of the server holds the row: find and end it";
}

#[cfg(test)]
mod tests;
