//! [`ObjectLock`]: checkpoints in an object store, replaced by conditional puts.
//!
//! `<prefix>/<Log ID in hex>` holds the checkpoint of a log. A put replaces the checkpoint only if
//! the object is unchanged since it was read (compared by e-tag; on GCS by generation). Each put
//! stores a random mark, `writer`, in the object's metadata. A put whose response was lost is
//! recognised by this mark, no matter which layer repeated the put.

mod put;
mod race;
mod request_failure;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, PutMode, PutOptions, UpdateVersion,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::put::mark;
use self::put::{Put, Stored};
use self::request_failure::Failure;
use crate::object::{RequestPolicy, failure};
use crate::{Lock, LockError, LogId, ObjectStoreConfig, Observer, Stats, StoreDate};

/// Minimum time of an attempt. A working store responds within this time, so that the error has the
/// store's response and not a timeout.
const MIN_ATTEMPT: Duration = Duration::from_secs(1);

/// Timeout of [`Lock::check`], short because the caller waits for the result.
const CHECK: Duration = Duration::from_secs(3);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Name of the mark in an object's metadata.
const WRITER: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("writer"));

/// The timeouts of a lock.
#[derive(Clone, Copy)]
struct Limits {
    /// Time for a whole call.
    call: Duration,
    /// Time for one response: a call has time for a second request.
    response: Duration,
}

impl Limits {
    fn of(policy: &RequestPolicy) -> Self {
        Self {
            call: policy.lock_call,
            response: policy.lock_call * 2 / 5,
        }
    }
}

/// A lock in an object store, shared by all logs of a process.
///
/// A commit is one request as long as no other process commits. After a conflict, one more read
/// finds the new checkpoint.
pub struct ObjectLock {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    location: String,
    /// Whether the store's e-tags are the MD5 of the content, as observed during the race. Some
    /// stores (versitygw) keep the e-tag separately from the object, and may return an object with
    /// the e-tag of the next object. A process that trusted this e-tag would replace an object that
    /// it has not seen. With MD5 e-tags, the mismatch is detected.
    md5: AtomicBool,
    limits: Limits,
    stats: Arc<Stats>,
    /// The values that this process put last. The next commit then needs no read.
    newest: Mutex<HashMap<LogId, (Vec<u8>, UpdateVersion)>>,
}

impl ObjectLock {
    /// Opens the configured lock. The requests of the lock are like the requests of
    /// [`ObjectAssets`](crate::ObjectAssets).
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`LockError::Unusable`] also for an invalid
    /// configuration.
    pub async fn connect(config: &ObjectStoreConfig) -> Result<Self, LockError> {
        Self::connect_observed(config, Arc::new(())).await
    }

    /// Opens the lock like [`connect`](Self::connect) and reports every request to `observer`.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect).
    pub async fn connect_observed(
        config: &ObjectStoreConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LockError> {
        let lock = Self::reach(config, observer)?;
        race::run(&lock).await?;
        Ok(lock)
    }

    /// Opens the lock for reading. Nothing is written, so it is not tested whether the store can
    /// hold a lock.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] for an invalid configuration.
    pub fn look(config: &ObjectStoreConfig) -> Result<Self, LockError> {
        Self::reach(config, Arc::new(()))
    }

    fn reach(config: &ObjectStoreConfig, observer: Arc<dyn Observer>) -> Result<Self, LockError> {
        let location = config.location();
        // The client retries for half of the response timeout. The store's error then arrives here,
        // whereas an interrupted retry would look like silence.
        let limits = Limits::of(&config.policy);
        let policy = RequestPolicy {
            request: limits.response,
            retrying: limits.response / 2,
            ..config.policy
        };
        let config = &ObjectStoreConfig {
            policy,
            ..config.clone()
        };
        let stats = Arc::new(Stats::observed(observer));
        let store = config.connect(stats.clone()).map_err(|error| {
            let location = location.clone();
            let reason = error.to_string();
            LockError::Unusable { location, reason }
        })?;
        Ok(Self {
            stats,
            ..Self::at(limits, store, &config.key_prefix, location)
        })
    }

    /// Opens the lock under a prefix of a bucket, outside the data of any log. To test the store,
    /// `open` runs several races, each with its own key: several concurrent creators, then several
    /// concurrent updaters. Exactly one creator and one updater must win. `location` is for
    /// messages and has no secrets.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if the store refuses, or if its conditional puts are not shown to be
    /// atomic, as in several clones of S3: on such a store two processes could sign for one log.
    /// [`LockError::Failed`] if the store does not respond.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        location: String,
    ) -> Result<Self, LockError> {
        let limits = Limits::of(&RequestPolicy::default());
        let lock = Self::at(limits, store, prefix, location);
        race::run(&lock).await?;
        Ok(lock)
    }

    fn at(limits: Limits, store: Arc<dyn ObjectStore>, prefix: &str, location: String) -> Self {
        Self {
            store,
            prefix: Path::from(prefix),
            location,
            md5: AtomicBool::new(false),
            limits,
            stats: Arc::default(),
            newest: Mutex::default(),
        }
    }

    /// Returns the deadline of a call that begins now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.call
    }

    fn key(&self, log: &LogId) -> Path {
        self.prefix.clone().join(hex::encode(log))
    }

    /// Puts an object once and returns the new version.
    async fn put(&self, put: &Put<'_>, mode: PutMode) -> Result<UpdateVersion, Failure> {
        let options = PutOptions {
            mode,
            attributes: Attributes::from_iter([(WRITER, put.writer.clone())]),
            ..PutOptions::default()
        };
        let body = Bytes::copy_from_slice(put.body).into();
        let response = self.store.put_opts(&put.key, body, options);
        let done = timeout_at(put.limit(self.limits.response), response).await??;
        Ok(UpdateVersion {
            e_tag: done.e_tag,
            version: done.version,
        })
    }

    async fn read(&self, key: &Path, deadline: Instant) -> Result<Option<Stored>, Failure> {
        let limit = deadline.min(Instant::now() + self.limits.response);
        let read = async {
            let got = match self.store.get_opts(key, GetOptions::default()).await {
                Err(error) if failure::is_absent(&error) => return Ok(None),
                got => got?,
            };
            let version = UpdateVersion {
                e_tag: got.meta.e_tag.clone(),
                version: got.meta.version.clone(),
            };
            let writer = got.attributes.get(&WRITER).map(|w| w.as_ref().to_owned());
            let body = got.bytes().await?.to_vec();
            let stored = Stored {
                body,
                version,
                writer,
            };
            if self.md5.load(Relaxed) && !stored.has_md5() {
                Err(Failure::Torn)
            } else {
                Ok(Some(stored))
            }
        };
        timeout_at(limit, read).await?
    }

    /// Waits before the next attempt, or returns an error after the deadline.
    async fn again(
        &self,
        action: &'static str,
        deadline: Instant,
        failure: &Failure,
    ) -> Result<(), LockError> {
        if failure.is_final() || Instant::now() + PAUSE + MIN_ATTEMPT > deadline {
            return Err(LockError::Failed {
                location: self.location.clone(),
                action,
                reason: failure.message(),
            });
        }
        // The pause avoids immediate retries against an unavailable or overloaded store.
        sleep(PAUSE).await;
        Ok(())
    }

    /// Reads until the store responds or the deadline passes.
    async fn reread(
        &self,
        action: &'static str,
        key: &Path,
        deadline: Instant,
    ) -> Result<Option<Stored>, LockError> {
        loop {
            match self.read(key, deadline).await {
                Ok(stored) => return Ok(stored),
                Err(failure) => self.again(action, deadline, &failure).await?,
            }
        }
    }

    fn remember(&self, log: &LogId, body: &[u8], version: UpdateVersion) {
        self.newest.lock().insert(*log, (body.to_vec(), version));
    }

    /// Removes the last known value of this log, and returns its version if the value is `old`.
    fn known(&self, log: &LogId, old: &[u8]) -> Option<UpdateVersion> {
        let newest = self.newest.lock().remove(log)?;
        (newest.0 == old).then_some(newest.1)
    }

    fn conflict(&self, found: Option<Vec<u8>>) -> LockError {
        LockError::Conflict {
            location: self.location.clone(),
            found,
        }
    }
}

#[async_trait]
impl Lock for ObjectLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let deadline = self.deadline();
        let key = self.key(log);
        let stored = self.reread("load the checkpoint", &key, deadline).await?;
        Ok(stored.map(|stored| stored.body))
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        const ACTION: &str = "create the log";
        let put = Put::new(self.key(log), body, self.deadline());
        loop {
            match self.put(&put, PutMode::Create).await {
                Ok(version) => {
                    self.remember(log, body, version);
                    return Ok(());
                }
                Err(Failure::Lost) => {}
                Err(failure) => {
                    self.again(ACTION, put.deadline, &failure).await?;
                    continue;
                }
            }
            match self.reread(ACTION, &put.key, put.deadline).await? {
                Some(stored) if stored.is_by(&put) => return Ok(()),
                Some(_) => {
                    return Err(LockError::Exists {
                        location: self.location(),
                    });
                }
                None => self.again(ACTION, put.deadline, &Failure::Lost).await?,
            }
        }
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        const ACTION: &str = "commit the checkpoint";
        let put = Put::new(self.key(log), new, self.deadline());
        let mut known = self.known(log, old);
        loop {
            let version = match known.take() {
                Some(version) => version,
                None => match self.reread(ACTION, &put.key, put.deadline).await? {
                    None => return Err(self.conflict(None)),
                    Some(stored) if stored.is_by(&put) => {
                        self.remember(log, new, stored.version);
                        return Ok(());
                    }
                    Some(stored) if stored.body != old => {
                        return Err(self.conflict(Some(stored.body)));
                    }
                    Some(stored) => stored.version,
                },
            };
            match self.put(&put, PutMode::Update(version.clone())).await {
                // Another checkpoint has another e-tag. The caller loads the stored checkpoint.
                Ok(stored) if stored == version && new != old => {
                    self.again(ACTION, put.deadline, &Failure::NotStored)
                        .await?;
                }
                Ok(stored) => {
                    self.remember(log, new, stored);
                    return Ok(());
                }
                // The next iteration reads the object at once, to find the new checkpoint.
                Err(Failure::Lost) if Instant::now() < put.deadline => {}
                Err(failure) => self.again(ACTION, put.deadline, &failure).await?,
            }
        }
    }

    /// Puts a separate test object.
    async fn check(&self) -> Result<(), LockError> {
        let deadline = Instant::now() + CHECK;
        let put = Put::new(self.prefix.clone().join("check"), b"", deadline);
        loop {
            match self.put(&put, PutMode::Overwrite).await {
                Ok(_) => return Ok(()),
                Err(failure) => self.again("write", put.deadline, &failure).await?,
            }
        }
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        Ok(self.stats.date())
    }

    fn location(&self) -> String {
        self.location.clone()
    }
}
