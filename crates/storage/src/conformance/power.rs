//! Simulation of a power failure on a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Asset, AssetError, Assets, PosixAssets, Repairs, Stats};

/// The fate of a file that was written but not settled when the power fails. Real file systems show
/// all of these outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The new content reached the disk.
    Kept,
    /// The file is as it was when it was last settled: its former content, or absent. A removed
    /// file exists again.
    Undone,
    /// The name and the first `n` bytes reached the disk; `Truncated(0)` is the most common case.
    Truncated(usize),
    /// The name and the length reached the disk; the bytes are zero.
    Zeroed,
}

/// [`PosixAssets`] that record all unsettled files, so that a test can simulate a power failure.
/// Run the log on these assets, drop the log, then decide the fate of each file.
///
/// ```ignore
/// let assets = Arc::new(PowerLoss::new(PosixAssets::open(&directory)?));
/// … a log runs on `assets`, and is dropped …
/// assets.fail_power(|path| fates.next());
/// drop(assets);
/// … the log is opened again on `directory`: nothing acknowledged is lost …
/// ```
///
/// Journal segments keep their content, because staged records were synced.
/// [`tear_journal`](Self::tear_journal) adds an unfinished append.
pub struct PowerLoss {
    inner: PosixAssets,
    /// Path and settled content of each file changed since the last settle.
    before: Mutex<BTreeMap<String, Option<Bytes>>>,
}

impl PowerLoss {
    /// Records changes to `assets` from now on. Files that were published before are treated as
    /// durable, even if they were not settled.
    pub fn new(assets: PosixAssets) -> Self {
        Self {
            inner: assets,
            before: Mutex::default(),
        }
    }

    /// Returns the files that a power failure could remove or restore now.
    pub fn unsettled(&self) -> Vec<String> {
        self.before.lock().keys().cloned().collect()
    }

    /// Simulates a power failure. `fate` decides for each unsettled file, in the order of
    /// [`unsettled`](Self::unsettled). The assets must not be used afterwards.
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

    /// Appends `bytes` to the newest journal segment, like an append that a power failure
    /// interrupted.
    pub fn tear_journal(&self, bytes: &[u8]) {
        let segment = newest_segment(self.inner.directory());
        change(&segment.unwrap(), |b| b.extend_from_slice(bytes));
    }

    /// Records the current content of each path, unless the path has changed before.
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
    // A file that was removed since then stays removed.
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
        // Repeated because a concurrent `settle` may have missed the files.
        self.keep(noted);
        result
    }

    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        self.note(vec!["checkpoint".into()]).await?;
        self.inner.amend_checkpoint(old, new).await
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        // Files that are published during the settle stay unsettled.
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
