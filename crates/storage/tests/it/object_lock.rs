//! Locks in object stores that must be refused or that lose responses, with simulated stores in
//! memory. `objects/` has the tests with real servers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use lucarne_storage::conformance::LockBackend;
use lucarne_storage::{Lock, LockError, ObjectLock};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

const LOG: [u8; 32] = [9; 32];

/// A store with one fault.
#[derive(Clone, Debug)]
struct Double {
    store: Arc<InMemory>,
    fault: Fault,
    puts: Arc<AtomicU32>,
    gets: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Accepts every put, regardless of its condition.
    Blind,
    /// Accepts every update.
    BlindUpdates,
    /// Lets a creation overwrite an existing object.
    BlindCreation,
    /// Checks the condition first and writes a moment later.
    Racy,
    /// Returns no e-tag.
    NoTags,
    /// Returns an error for every other put, after its effect.
    LosesAnswers,
    /// Like `LosesAnswers`, and a lower layer repeats the put, as HTTP clients do.
    Repeats,
    /// Fails every other put without effect.
    Flaky,
    /// Rejects conditions as unsupported.
    Unconditional,
    /// Rejects every update.
    NoUpdates,
    /// Never responds to puts, which have their effect.
    Silent,
    /// Does not allow puts.
    Forbidden,
    /// Confirms updates with the present e-tag, and does not store them.
    Forgets,
    /// Flips a bit in every other response with an object.
    Corrupts,
}

impl Double {
    fn new(fault: Fault) -> Self {
        Self {
            store: Arc::default(),
            fault,
            puts: Arc::default(),
            gets: Arc::default(),
        }
    }

    async fn lock(&self) -> Result<ObjectLock, LockError> {
        let location = format!("a store that is {:?}", self.fault);
        ObjectLock::open(Arc::new(self.clone()), "locks/here", location).await
    }

    /// Returns a store with the same objects and another fault.
    fn with(&self, fault: Fault) -> Self {
        let mut other = self.clone();
        other.fault = fault;
        other
    }

    async fn refusal(&self) -> String {
        match self.lock().await {
            Err(error @ LockError::Unusable { .. }) => error.to_string(),
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("a store that is {:?} was taken", self.fault),
        }
    }
}

impl fmt::Display for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.fault)
    }
}

fn lost() -> Error {
    Error::Generic {
        store: "double",
        source: "503 Slow Down".into(),
    }
}

async fn corrupted(got: GetResult) -> Result<GetResult> {
    let (meta, range) = (got.meta.clone(), got.range.clone());
    let (attributes, extensions) = (got.attributes.clone(), got.extensions.clone());
    let mut bytes = got.bytes().await?.to_vec();
    bytes[0] ^= 1;
    let bytes = futures_util::stream::iter([Ok(bytes.into())]);
    Ok(GetResult {
        payload: GetResultPayload::Stream(Box::pin(bytes)),
        meta,
        range,
        attributes,
        extensions,
    })
}

#[async_trait]
impl ObjectStore for Double {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let odd = self.puts.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let mut all = options.clone();
        all.mode = PutMode::Overwrite;
        let put = |options| self.store.put_opts(location, payload.clone(), options);
        let fault = match self.fault {
            // These stores are atomic: their faults begin after the race.
            Fault::LosesAnswers
            | Fault::Repeats
            | Fault::Flaky
            | Fault::Silent
            | Fault::Forgets
                if location.as_ref().contains("probe-") =>
            {
                Fault::None
            }
            fault => fault,
        };
        match (fault, &options.mode) {
            (Fault::Blind, _)
            | (Fault::BlindUpdates, PutMode::Update(_))
            | (Fault::BlindCreation, PutMode::Create) => put(all).await,
            (Fault::Racy, mode) => {
                let found = self.store.head(location).await.ok();
                let fits = match mode {
                    PutMode::Overwrite => true,
                    PutMode::Create => found.is_none(),
                    PutMode::Update(v) => found.is_some_and(|found| found.e_tag == v.e_tag),
                };
                // The pause between check and write is the fault itself. A busy machine makes it
                // longer.
                tokio::time::sleep(Duration::from_millis(2)).await;
                if fits {
                    put(all).await
                } else {
                    Err(Error::Precondition {
                        path: location.to_string(),
                        source: "412".into(),
                    })
                }
            }
            (Fault::NoTags, _) => put(options).await.map(|done| PutResult {
                e_tag: None,
                ..done
            }),
            (Fault::LosesAnswers, _) if odd => {
                let _ = put(options).await;
                Err(lost())
            }
            (Fault::Repeats, _) if odd => {
                let _ = put(options.clone()).await;
                put(options).await
            }
            (Fault::Flaky, _) if odd => Err(lost()),
            (Fault::Unconditional, PutMode::Create | PutMode::Update(_)) => {
                Err(Error::NotImplemented {
                    operation: "conditional put".into(),
                    implementer: "double".into(),
                })
            }
            (Fault::NoUpdates, PutMode::Update(_)) => Err(Error::Precondition {
                path: location.to_string(),
                source: "412".into(),
            }),
            (Fault::Silent, _) => {
                let _ = put(options).await;
                std::future::pending().await
            }
            (Fault::Forgets, PutMode::Update(version)) => Ok(PutResult {
                e_tag: version.e_tag.clone(),
                version: version.version.clone(),
                extensions: Default::default(),
            }),
            (Fault::Forbidden, _) => Err(Error::PermissionDenied {
                path: location.to_string(),
                source: "403".into(),
            }),
            _ => put(options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.store.get_opts(location, options).await?;
        if matches!(self.fault, Fault::NoTags) {
            got.meta.e_tag = None;
        }
        let odd = self.gets.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        match self.fault {
            Fault::Corrupts if !odd => corrupted(got).await,
            _ => Ok(got),
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl LockBackend for Double {
    async fn open(&self) -> Box<dyn Lock> {
        Box::new(self.lock().await.unwrap())
    }
}

mod in_memory {
    use super::*;
    lucarne_storage::lock_conformance!(Double::new(Fault::None));
}

/// Lost responses have no visible effect.
mod losing_answers {
    use super::*;
    lucarne_storage::lock_conformance!(Double::new(Fault::LosesAnswers));
}

mod repeating {
    use super::*;
    lucarne_storage::lock_conformance!(Double::new(Fault::Repeats));
}

mod flaky {
    use super::*;
    lucarne_storage::lock_conformance!(Double::new(Fault::Flaky));
}

#[tokio::test]
async fn a_store_that_is_not_atomic_is_refused() {
    for fault in [
        Fault::Blind,
        Fault::BlindUpdates,
        Fault::BlindCreation,
        Fault::Racy,
    ] {
        let refused = Double::new(fault).refusal().await;
        assert!(refused.contains("not atomic"), "{fault:?}: {refused}");
        assert!(refused.contains("SQL database"), "{refused}");
    }
}

/// A corrupted response proves nothing about the store's conditional puts.
#[tokio::test]
async fn a_corrupted_response_in_the_race_is_read_again() {
    Double::new(Fault::Corrupts).lock().await.unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_show_it_is_refused() {
    for (fault, said) in [
        (Fault::NoTags, "no e-tags"),
        (Fault::Unconditional, "conditional put"),
        (Fault::NoUpdates, "refuses puts with the right condition"),
        (Fault::Forbidden, "credentials"),
    ] {
        let refused = Double::new(fault).refusal().await;
        assert!(refused.contains(said), "{fault:?}: {refused}");
    }
}

#[tokio::test]
async fn the_race_leaves_nothing_behind() {
    use futures_util::StreamExt;
    for fault in [Fault::None, Fault::Racy, Fault::LosesAnswers] {
        let double = Double::new(fault);
        let _ = double.lock().await;
        assert_eq!(double.list(None).count().await, 0, "{fault:?}");
    }
}

/// The response of the first creation is lost after its effect: `Exists` would be wrong.
#[tokio::test]
async fn what_was_put_is_recognised_by_its_mark() {
    let double = Double::new(Fault::LosesAnswers);
    let lock = double.lock().await.unwrap();
    for log in 0..8 {
        let log = [log; 32];
        lock.create(&log, b"0").await.unwrap();
        let again = lock.create(&log, b"0").await;
        assert!(matches!(again, Err(LockError::Exists { .. })), "{again:?}");
        for _ in 0..3 {
            lock.replace(&log, b"0", b"0").await.unwrap();
        }
    }
}

/// A process that commits alone never repeats a request.
#[tokio::test]
async fn a_commit_is_one_request() {
    let double = Double::new(Fault::None);
    let lock = double.lock().await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let before = double.puts.load(Ordering::Relaxed);
    for step in 0..10 {
        let (old, new) = (step.to_string(), (step + 1).to_string());
        lock.replace(&LOG, old.as_bytes(), new.as_bytes())
            .await
            .unwrap();
    }
    assert_eq!(double.puts.load(Ordering::Relaxed) - before, 10);
}

/// The e-tag of the response shows that the store has kept the old checkpoint.
#[tokio::test]
async fn a_put_that_is_confirmed_and_not_stored_is_no_commit() {
    let double = Double::new(Fault::None);
    let lock = double.lock().await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let forgetful = double.with(Fault::Forgets).lock().await.unwrap();
    let failed = forgetful.replace(&LOG, b"0", b"1").await.unwrap_err();
    assert!(
        failed.to_string().contains("kept the old object"),
        "{failed}"
    );
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

/// An abandoned put may still have its effect.
#[tokio::test]
async fn a_store_that_hangs_is_waited_for_but_not_for_ever() {
    let double = Double::new(Fault::None);
    let lock = double.lock().await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let hanging = double.with(Fault::Silent).lock().await.unwrap();
    let start = std::time::Instant::now();
    // The next call reads back the stored value.
    hanging.replace(&LOG, b"0", b"1").await.unwrap();
    let failed = hanging.check().await.unwrap_err();
    assert!(failed.to_string().contains("no response"), "{failed}");
    assert!(start.elapsed() < Duration::from_secs(60));
    lock.replace(&LOG, b"1", b"2").await.unwrap();
}
