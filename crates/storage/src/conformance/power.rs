//! The effect of a power failure on a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Asset, AssetError, Assets, PosixAssets, Repairs, Stats};

/// The fate of a file that was written but not settled when the power fails. All of
/// these happen on real file systems; which one, nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It had reached the disk.
    Kept,
    /// As it was when it was last settled: its former content, or absent. A
    /// removed file is back.
    Undone,
    /// Its name and its first so many bytes had; `Truncated(0)` is the
    /// commonest of all.
    Truncated(usize),
    /// Its name and length had, its bytes are zero.
    Zeroed,
}

/// [`PosixAssets`] that note what is not settled, so that a test can fail the
/// power: use them as the log's assets, drop the log, then decide the fate of
/// each file.
///
/// ```ignore
/// let assets = Arc::new(PowerLoss::new(PosixAssets::open(&directory)?));
/// … a log runs on `assets`, and is dropped …
/// assets.fail_power(|path| fates.next());
/// drop(assets);
/// … the log is opened again on `directory`: nothing acknowledged is lost …
/// ```
///
/// Journal segments are not touched beyond their end: what was staged was
/// synced. [`tear_journal`](Self::tear_journal) adds the unfinished append.
pub struct PowerLoss {
    inner: PosixAssets,
    /// Path and settled content of each file changed since the last settle.
    before: Mutex<BTreeMap<String, Option<Bytes>>>,
}

impl PowerLoss {
    /// Watches `assets` from now on. What was published before and not
    /// settled is taken for durable.
    pub fn new(assets: PosixAssets) -> Self {
        Self {
            inner: assets,
            before: Mutex::default(),
        }
    }

    /// The files that a power failure could take or bring back now.
    pub fn unsettled(&self) -> Vec<String> {
        self.before.lock().keys().cloned().collect()
    }

    /// Fails the power: `fate` decides for each unsettled file, in the order of
    /// [`unsettled`](Self::unsettled). Nothing may use the assets any more.
    pub fn fail_power(&self, mut fate: impl FnMut(&str) -> Fate) {
        for (path, before) in std::mem::take(&mut *self.before.lock()) {
            let fate = fate(&path);
            let path = self.inner.directory().join(path);
            match (fate, before) {
                (Fate::Kept, _) => {}
                (Fate::Undone, None) => {
                    let _ = std::fs::remove_file(path);
                }
                (Fate::Undone, Some(before)) => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, before).unwrap();
                }
                (Fate::Truncated(length), _) => change(&path, |b| b.truncate(length)),
                (Fate::Zeroed, _) => change(&path, |bytes| bytes.fill(0)),
            }
        }
    }

    /// Appends `bytes` to the newest journal segment, as an append does that
    /// the power failed in.
    pub fn tear_journal(&self, bytes: &[u8]) {
        let segment = newest_segment(self.inner.directory());
        change(&segment.unwrap(), |b| b.extend_from_slice(bytes));
    }

    /// Notes what is at each path now, unless it has changed before.
    async fn note(&self, paths: Vec<String>) -> Result<Noted, AssetError> {
        let mut noted = Vec::new();
        for path in paths {
            let before = self.inner.get(&path).await?;
            noted.push((path, before));
        }
        self.keep(noted.clone());
        Ok(noted)
    }

    fn keep(&self, noted: Noted) {
        let mut all = self.before.lock();
        for (path, before) in noted {
            all.entry(path).or_insert(before);
        }
    }
}

type Noted = Vec<(String, Option<Bytes>)>;

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    // A file that was removed meanwhile stays so.
    if let Ok(mut bytes) = std::fs::read(path) {
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }
}

fn newest_segment(directory: &Path) -> Option<PathBuf> {
    let segments = std::fs::read_dir(directory.join(".lucarne/journal")).ok()?;
    segments.map(|entry| entry.unwrap().path()).max()
}

#[async_trait]
impl Repairs for PowerLoss {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.inner.replace(asset).await
    }
}

#[async_trait]
impl Assets for PowerLoss {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.inner.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.inner.staged().await
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        self.inner.staged_now().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        let noted = self.note(assets.iter().map(|a| a.path.clone()).collect());
        let noted = noted.await?;
        let result = self.inner.publish(assets).await;
        // Again: a `settle` that ran meanwhile may have missed the files.
        self.keep(noted);
        result
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        // What is published while this runs stays unsettled.
        let before = std::mem::take(&mut *self.before.lock());
        let result = self.inner.settle(size).await;
        if result.is_err() {
            self.before.lock().extend(before);
        }
        result
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.inner.get(path).await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        for tile in tiles {
            for width in self.inner.partials(tile).await? {
                self.note(vec![format!("{tile}.p/{width}")]).await?;
            }
        }
        self.inner.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.inner.partials(tile_path).await
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        self.inner.beside(tile_path).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.inner.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.inner.stats()
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
