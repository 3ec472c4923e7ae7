//! [`ObjectLock`]: checkpoints in an object store, by conditional puts.
//!
//! `<prefix>/<Log ID in hex>` holds the checkpoint of a log, as it is. It is
//! replaced by a put that the store takes only if the object is still the one
//! that was read (its e-tag; on GCS its generation). Each put carries a random
//! mark, `writer`, in the object's metadata: a put whose answer was lost is
//! recognised by reading back, whoever repeated it on the way.

mod race;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use md5::{Digest, Md5};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, PutMode, PutOptions, UpdateVersion,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::object::{RequestPolicy, failure};
use crate::{Lock, LockError, LogId, ObjectStoreConfig, Observer, Stats};

/// Holds what any attempt has at least. A store that answers does it within this time, so
/// that what is told of a failure is what the store said, and not that it was cut off.
const LEAST: Duration = Duration::from_secs(1);

/// The time that [`Lock::check`] may take: who asks wants to know now.
const CHECK: Duration = Duration::from_secs(3);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The name of the mark in an object's metadata.
const WRITER: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("writer"));

/// The times for which a store is waited for.
#[derive(Clone, Copy)]
struct Limits {
    /// For a call in all.
    call: Duration,
    /// For the answer to one request: a call has time for a second one.
    answer: Duration,
}

impl Limits {
    fn of(policy: &RequestPolicy) -> Self {
        Self {
            call: policy.lock_call,
            answer: policy.lock_call * 2 / 5,
        }
    }
}

/// A lock in an object store, shared by all logs of a process.
///
/// A commit is one request as long as this process commits alone; whoever was
/// overtaken reads once more to say by what.
pub struct ObjectLock {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    location: String,
    /// True if the store's e-tags are the MD5 of what it stores, as the race has
    /// seen. Some stores (versitygw) keep them beside the object, and may return
    /// an object with the e-tag of the next: a reader who trusted it would
    /// replace what it has not seen. Where it can be told, it is.
    md5: AtomicBool,
    limits: Limits,
    /// Holds what this process put or read last, so that it need not read again.
    newest: Mutex<HashMap<LogId, (Vec<u8>, UpdateVersion)>>,
}

impl ObjectLock {
    /// Opens the lock that a configuration names: its requests are like those
    /// of [`ObjectAssets`](crate::ObjectAssets).
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`LockError::Unusable`] also for a
    /// configuration that cannot be one.
    pub async fn connect(config: &ObjectStoreConfig) -> Result<Self, LockError> {
        Self::connect_observed(config, Arc::new(())).await
    }

    /// The same; `observer` is told of every request.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_observed(
        config: &ObjectStoreConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LockError> {
        let lock = Self::reach(config, observer)?;
        race::run(&lock).await?;
        Ok(lock)
    }

    /// Reaches the lock to look into it. Nothing is put there: whether the store
    /// could hold a lock is not found out.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] for a configuration that cannot be one.
    pub fn look(config: &ObjectStoreConfig) -> Result<Self, LockError> {
        Self::reach(config, Arc::new(()))
    }

    fn reach(config: &ObjectStoreConfig, observer: Arc<dyn Observer>) -> Result<Self, LockError> {
        let location = config.location();
        // The client repeats for half the time that its answer is waited for: what
        // the store said arrives here, where a repetition cut off would be silence.
        let limits = Limits::of(&config.policy);
        let policy = RequestPolicy {
            request: limits.answer,
            retrying: limits.answer / 2,
            ..config.policy
        };
        let config = &ObjectStoreConfig {
            policy,
            ..config.clone()
        };
        let store = config
            .connect(Arc::new(Stats::observed(observer)))
            .map_err(|error| {
                let location = location.clone();
                let reason = error.to_string();
                LockError::Unusable { location, reason }
            })?;
        Ok(Self::at(limits, store, &config.key_prefix, location))
    }

    /// Opens the lock under a prefix of a bucket, which must not be in the
    /// data of a log, and races itself there: several creators, then several
    /// updaters of one key, of which exactly one may win each time. `location`
    /// is for messages, without secrets.
    ///
    /// # Errors
    ///
    /// [`LockError::Unusable`] if the store refuses, or its conditional puts
    /// are not atomic, as in several clones of S3: on such a store two
    /// processes could sign for one log. [`LockError::Failed`] if it does not
    /// answer.
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
            newest: Mutex::default(),
        }
    }

    /// The end of a call that begins now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.call
    }

    fn key(&self, log: &LogId) -> Path {
        self.prefix.clone().join(hex::encode(log))
    }

    /// One put, and the version that it made.
    async fn put(&self, put: &Put<'_>, mode: PutMode) -> Result<UpdateVersion, Failure> {
        let options = PutOptions {
            mode,
            attributes: Attributes::from_iter([(WRITER, put.writer.clone())]),
            ..PutOptions::default()
        };
        let body = Bytes::copy_from_slice(put.body).into();
        let answer = self.store.put_opts(&put.key, body, options);
        let done = timeout_at(put.limit(self.limits.answer), answer).await??;
        Ok(UpdateVersion {
            e_tag: done.e_tag,
            version: done.version,
        })
    }

    async fn read(&self, key: &Path, deadline: Instant) -> Result<Option<Stored>, Failure> {
        let limit = deadline.min(Instant::now() + self.limits.answer);
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
            match self.md5.load(Relaxed) && !stored.has_md5() {
                true => Err(Failure::Torn),
                false => Ok(Some(stored)),
            }
        };
        timeout_at(limit, read).await?
    }

    /// Waits before the next attempt, or gives up.
    async fn again(
        &self,
        action: &'static str,
        deadline: Instant,
        failure: &Failure,
    ) -> Result<(), LockError> {
        if failure.is_final() || Instant::now() + PAUSE + LEAST > deadline {
            return Err(LockError::Failed {
                location: self.location.clone(),
                action,
                reason: failure.message(),
            });
        }
        // A store that is away or overloaded is not asked at once again.
        sleep(PAUSE).await;
        Ok(())
    }

    /// Reads until there is an answer, or no more patience.
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

    /// The version of `old`, if it is what this process knows as the newest.
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
            match self.put(&put, PutMode::Update(version)).await {
                Ok(version) => {
                    self.remember(log, new, version);
                    return Ok(());
                }
                // It is read again at once: that tells by whom.
                Err(Failure::Lost) if Instant::now() < put.deadline => {}
                Err(failure) => self.again(ACTION, put.deadline, &failure).await?,
            }
        }
    }

    /// Puts an object of its own.
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

    fn location(&self) -> String {
        self.location.clone()
    }
}

/// A value to be stored, however many requests it takes.
struct Put<'p> {
    key: Path,
    body: &'p [u8],
    writer: String,
    deadline: Instant,
}

impl<'p> Put<'p> {
    fn new(key: Path, body: &'p [u8], deadline: Instant) -> Self {
        Self {
            key,
            body,
            writer: mark(),
            deadline,
        }
    }

    fn limit(&self, answer: Duration) -> Instant {
        self.deadline.min(Instant::now() + answer)
    }
}

/// The content of the store.
struct Stored {
    body: Vec<u8>,
    version: UpdateVersion,
    writer: Option<String>,
}

impl Stored {
    fn is_by(&self, put: &Put<'_>) -> bool {
        // The mark alone may have been stored ahead of its object.
        self.writer.as_deref() == Some(&put.writer) && self.body == put.body
    }

    /// Returns whether the e-tag is the MD5 of the object.
    fn has_md5(&self) -> bool {
        let tag = self.version.e_tag.as_deref().unwrap_or_default();
        tag.trim_matches('"') == hex::encode(Md5::digest(&self.body))
    }
}

/// A value that no other put has. It need not be hard to guess.
fn mark() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// The reasons why a request failed.
#[derive(Debug)]
enum Failure {
    /// The object is not the one that was to be replaced.
    Lost,
    /// The parts that were read are of two objects.
    Torn,
    Silence,
    Store(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match failure::is_lost(&error) {
            true => Self::Lost,
            false => Self::Store(error),
        }
    }
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Silence
    }
}

impl Failure {
    /// Returns whether the next attempt would fail alike.
    fn is_final(&self) -> bool {
        use crate::AssetError::{NoBucket, Refused, Untrusted};
        let Self::Store(error) = self else {
            return false;
        };
        let sorted = failure::sort("", String::new(), error);
        matches!(
            error,
            Error::NotFound { .. }
                | Error::InvalidPath { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::UnknownConfigurationKey { .. }
        ) || matches!(sorted, NoBucket { .. } | Refused { .. } | Untrusted { .. })
    }

    /// Returns whether the store does not serve anybody now.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Silence | Self::Store(Error::Generic { .. }))
    }

    /// The failure, and what to do about the usual cases.
    fn message(&self) -> String {
        let (said, advice) = match self {
            Self::Lost => (
                "others put the same object again and again",
                "find out who writes to this prefix",
            ),
            Self::Torn => (
                "an object and its e-tag do not belong together",
                "find out who writes to this prefix",
            ),
            Self::Silence => (
                "no answer in time",
                "the store hangs, or something on the way drops packets",
            ),
            Self::Store(error) => return said(error),
        };
        format!("{said}; {advice}")
    }
}

/// The store's answer, and what to do.
fn said(error: &Error) -> String {
    let detail = failure::detail(error);
    use crate::AssetError::{NoBucket, Store, Unavailable};
    match (error, failure::sort("", String::new(), error)) {
        // For a put, absence is that of the bucket.
        (_, NoBucket { .. }) | (Error::NotFound { .. }, Store { .. } | Unavailable { .. }) => {
            format!("{detail}; there is no such bucket: check its name, region and endpoint")
        }
        (_, crate::AssetError::ClockSkew { .. }) => format!(
            "this machine's clock and the store's are too far apart ({detail}); set the clock"
        ),
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _)
        | (_, crate::AssetError::Refused { .. }) => format!(
            "the store refuses ({detail}). Check the credentials, and that they may get, put and \
             delete objects under this prefix"
        ),
        (_, crate::AssetError::Untrusted { .. }) => format!(
            "the store's certificate is not trusted ({detail}). If the endpoint is right, its \
             authority goes into the system's certificates, or into a file that SSL_CERT_FILE names"
        ),
        (_, Unavailable { .. }) => {
            format!("the store does not serve us now ({detail})")
        }
        _ => detail,
    }
}
