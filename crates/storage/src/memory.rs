//! [`MemoryAssets`] and [`MemoryLock`] for tests. Both types fulfil the contracts of the traits,
//! but their contents do not outlive the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::assets::KEPT;
use crate::{Asset, AssetError, Assets, Lock, LockError, LogId, Repairs, Stats, StoreDate, path};

/// A call on [`MemoryAssets`], for [`MemoryAssets::inject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Assets::stage`]
    Stage,
    /// [`Assets::staged`]
    Staged,
    /// [`Assets::publish`]
    Publish,
    /// [`Assets::amend_checkpoint`]
    Amend,
    /// [`Assets::settle`]
    Settle,
    /// [`Assets::get`]
    Get,
    /// [`Repairs::replace`]
    Replace,
}

type Fault = dyn Fn(Operation) -> Option<AssetError> + Send + Sync;

/// Assets in memory. Clones share their content: a clone represents the same directory, opened
/// again.
#[derive(Clone, Default)]
pub struct MemoryAssets {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    files: Mutex<BTreeMap<String, Bytes>>,
    journal: Mutex<Journal>,
    fault: Mutex<Option<Arc<Fault>>>,
    stats: Stats,
}

#[derive(Default)]
struct Journal {
    records: Vec<(u64, Bytes)>,
    poisoned: Option<String>,
}

impl MemoryAssets {
    /// Creates empty assets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Injects faults: each call first calls `fault` and returns the error that `fault` returns. A
    /// failed `stage` or `settle` poisons the assets, as on a disk.
    pub fn inject(&self, fault: impl Fn(Operation) -> Option<AssetError> + Send + Sync + 'static) {
        *self.inner.fault.lock() = Some(Arc::new(fault));
    }

    /// Stops the fault injection that [`inject`](Self::inject) has started.
    pub fn heal(&self) {
        *self.inner.fault.lock() = None;
    }

    /// Returns all published paths, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.inner.files.lock().keys().cloned().collect()
    }

    /// Writes or (with `None`) removes a file without the log's knowledge.
    pub fn tamper(&self, path: &str, bytes: Option<Bytes>) {
        let mut files = self.inner.files.lock();
        match bytes {
            Some(bytes) => files.insert(path.into(), bytes),
            None => files.remove(path),
        };
    }

    /// Returns an independent copy, like a backup.
    pub fn snapshot(&self) -> Self {
        let copy = Self::new();
        *copy.inner.files.lock() = self.inner.files.lock().clone();
        copy.inner.journal.lock().records = self.inner.journal.lock().records.clone();
        copy
    }

    fn fault(&self, operation: Operation) -> Result<(), AssetError> {
        let fault = self.inner.fault.lock().clone();
        fault.and_then(|f| f(operation)).map_or(Ok(()), Err)
    }

    fn journaled(&self, operation: Operation) -> Result<(), AssetError> {
        if let Some(reason) = &self.inner.journal.lock().poisoned {
            return Err(AssetError::Poisoned {
                location: self.location(),
                reason: reason.clone(),
            });
        }
        self.fault(operation).inspect_err(|error| {
            self.inner.journal.lock().poisoned = Some(error.to_string());
        })
    }
}

#[async_trait]
impl Repairs for MemoryAssets {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        path::check(&asset.path)?;
        self.fault(Operation::Replace)?;
        let mut files = self.inner.files.lock();
        let mut kept = None;
        if let Some(wrong) = files.remove(&asset.path) {
            let name = (1..).map(|number| format!("{KEPT}/{}-{number}", asset.path));
            kept = name.into_iter().find(|name| !files.contains_key(name));
            files.extend(kept.clone().map(|name| (name, wrong)));
        }
        files.insert(asset.path, asset.bytes);
        Ok(kept)
    }
}

#[async_trait]
impl Assets for MemoryAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.journaled(Operation::Stage)?;
        self.inner.stats.appended(record.len() as u64);
        self.inner.stats.synced();
        self.inner.journal.lock().records.push((new_size, record));
        Ok(())
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.fault(Operation::Staged)?;
        let mut journal = self.inner.journal.lock();
        journal.poisoned = None;
        Ok(journal.records.iter().map(|(_, r)| r.clone()).collect())
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        let journal = self.inner.journal.lock();
        Ok(journal.records.iter().map(|(_, r)| r.clone()).collect())
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        for asset in &assets {
            path::check(&asset.path)?;
        }
        for asset in assets {
            self.fault(Operation::Publish)?;
            self.inner.stats.published(asset.bytes.len() as u64);
            self.inner.files.lock().insert(asset.path, asset.bytes);
        }
        Ok(())
    }

    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        self.fault(Operation::Amend)?;
        let mut files = self.inner.files.lock();
        let found = files.get_mut("checkpoint").filter(|found| *found == old);
        Ok(found.map(|found| *found = new).is_some())
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.journaled(Operation::Settle)?;
        self.inner.stats.synced();
        let mut journal = self.inner.journal.lock();
        journal.records.retain(|(new_size, _)| *new_size > size);
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        path::check(path)?;
        self.fault(Operation::Get)?;
        Ok(self.inner.files.lock().get(path).cloned())
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        for tile in tiles {
            path::check(tile)?;
            let prefix = format!("{tile}.p/");
            self.inner.files.lock().retain(|path, _| {
                let superseded = path.starts_with(&prefix);
                if superseded {
                    self.inner.stats.removed();
                }
                !superseded
            });
        }
        Ok(())
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        path::check(tile_path)?;
        let prefix = format!("{tile_path}.p/");
        let files = self.inner.files.lock();
        let names = files.keys().filter_map(|path| path.strip_prefix(&prefix));
        let mut widths: Vec<u16> = names.filter_map(path::width).collect();
        widths.sort_unstable();
        Ok(widths)
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        self.fault(Operation::Get)?;
        let directory = path::directory(tile_path)?;
        let files = self.inner.files.lock();
        let paths = files.keys().filter_map(|path| path.strip_prefix(directory));
        let names: BTreeSet<&str> = paths.filter_map(|rest| rest.split('/').next()).collect();
        Ok(Some(names.into_iter().map(Into::into).collect()))
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.fault(Operation::Get)?;
        Ok(None)
    }

    fn stats(&self) -> &Stats {
        &self.inner.stats
    }

    fn location(&self) -> String {
        "memory".into()
    }
}

/// A lock in memory. Clones share their content.
#[derive(Clone, Default)]
pub struct MemoryLock {
    inner: Arc<LockInner>,
}

#[derive(Default)]
struct LockInner {
    rows: Mutex<HashMap<LogId, Vec<u8>>>,
    fault: Mutex<Option<String>>,
    date: Mutex<Option<StoreDate>>,
    /// The location for messages; `None` for "memory".
    location: Option<&'static str>,
}

impl MemoryLock {
    /// Creates a lock without any log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a lock without any log, with this location for messages.
    pub fn at(location: &'static str) -> Self {
        let inner = LockInner {
            location: Some(location),
            ..LockInner::default()
        };
        MemoryLock {
            inner: Arc::new(inner),
        }
    }

    /// Makes every call fail with this reason; `None` restores normal operation.
    pub fn fail(&self, reason: Option<&str>) {
        *self.inner.fault.lock() = reason.map(Into::into);
    }

    /// Writes or (with `None`) removes a checkpoint without the log's knowledge.
    pub fn tamper(&self, log: &LogId, body: Option<Vec<u8>>) {
        let mut rows = self.inner.rows.lock();
        match body {
            Some(body) => rows.insert(*log, body),
            None => rows.remove(log),
        };
    }

    /// Gives the lock a clock of its own, with this reading.
    pub fn set_date(&self, date: StoreDate) {
        *self.inner.date.lock() = Some(date);
    }

    fn fault(&self, action: &'static str) -> Result<(), LockError> {
        match self.inner.fault.lock().clone() {
            Some(reason) => Err(LockError::Failed {
                location: self.location(),
                action,
                reason,
            }),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Lock for MemoryLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.fault("load the checkpoint")?;
        Ok(self.inner.rows.lock().get(log).cloned())
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        self.fault("create the log")?;
        let mut rows = self.inner.rows.lock();
        if rows.contains_key(log) {
            return Err(LockError::Exists {
                location: self.location(),
            });
        }
        rows.insert(*log, body.to_vec());
        Ok(())
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.fault("commit the checkpoint")?;
        match self.inner.rows.lock().get_mut(log) {
            Some(body) if body == old => {
                *body = new.to_vec();
                Ok(())
            }
            other => Err(LockError::Conflict {
                location: self.location(),
                found: other.cloned(),
            }),
        }
    }

    async fn check(&self) -> Result<(), LockError> {
        self.fault("write")
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.fault("read the clock")?;
        Ok(*self.inner.date.lock())
    }

    fn location(&self) -> String {
        self.inner.location.unwrap_or("memory").into()
    }
}
