//! A lock on a database server.
//!
//! A server may restart, fail over or hang, and connections break. A call reconnects and retries
//! until [`CALL_TIMEOUT`] has passed. If the response to a change was lost, the change may be
//! stored, or still in progress. A second attempt of the same change then matches no row.
//! Therefore, the call replaces the new value with itself: this succeeds only if the change is
//! stored, and returns after the change is durable.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sqlx::Connection as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::dialect::Dialect;
use super::engine::{Diagnosis, Engine, Failure, Unfit, message, passing};
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

/// Maximum number of connections, and so of concurrent commits. A server accepts 100 or 150
/// connections by default, and other instances need connections, too.
const MAX_CONNECTIONS: usize = 16;

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

/// Connections to a server, kept for the next statement, and a bound on their number.
///
/// This type replaces sqlx's pool, which retries every failed connection attempt and then reports a
/// timeout instead of the reason. sqlx's pool would also ping the server before each statement.
struct Connections<C> {
    idle: Mutex<Vec<C>>,
    slots: Semaphore,
}

/// The permission to use one connection.
struct Slot<'c, C> {
    idle: &'c Mutex<Vec<C>>,
    _permit: SemaphorePermit<'c>,
}

impl<C> Connections<C> {
    fn new() -> Self {
        Self {
            idle: Mutex::default(),
            slots: Semaphore::new(MAX_CONNECTIONS),
        }
    }

    /// Waits until fewer than [`MAX_CONNECTIONS`] connections are in use; returns `None` after
    /// [`close`](Self::close).
    async fn slot(&self) -> Option<Slot<'_, C>> {
        let permit = self.slots.acquire().await.ok()?;
        Some(Slot {
            idle: &self.idle,
            _permit: permit,
        })
    }

    /// Drops idle connections, because the server has closed them.
    fn clear(&self) {
        self.take_all();
    }

    /// Prevents all further use and returns the idle connections.
    fn close(&self) -> Vec<C> {
        self.slots.close();
        self.take_all()
    }

    fn take_all(&self) -> Vec<C> {
        std::mem::take(&mut *self.idle.lock())
    }
}

impl<C> Slot<'_, C> {
    /// Returns an idle connection; `None` if a new connection must be opened.
    fn take(&self) -> Option<C> {
        self.idle.lock().pop()
    }

    /// Keeps a connection for the next caller. The last response on the connection must have been
    /// read completely.
    fn keep(self, connection: C) {
        self.idle.lock().push(connection);
    }
}
