//! [`DiskCache`]: files of an object store that readers requested, cached on disk.
//!
//! ```text
//! <directory>/<two digits>/<path, with + for />     sum, then the bytes
//! ```
//!
//! Only immutable files are cached: full tiles and issuers, each under its path. Only bytes that
//! match the tree of the log are cached. Otherwise, a single wrong response would outlive the
//! repair of the store. The log itself ([`Assets::get`](crate::Assets::get)) always reads the
//! store, so that it notices an emptied store although readers could still get some of the files.
//!
//! Files are not synced: a file that a power failure leaves torn does not match its sum and is
//! fetched again. An error of the directory only means that a file is not cached.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::Observer;
use crate::blocking_pool::BlockingPool;

/// Length of the sum in bytes.
const HEADER: usize = 16;

/// Maximum number of concurrent writes. Further files are not cached while all writers are busy.
/// Popular files are requested again, and cached then.
const WRITERS: usize = 4;

/// Maximum number of concurrent reads and removals, and their timeout. A file that cannot be read
/// in time is not served from the cache: a hung disk costs readers the cache, but never stops the
/// log.
const READERS: usize = 8;
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Prefix of a file's name until the file is complete.
const UNFINISHED: &str = "unfinished-";

/// Age of an unfinished file that no process writes any more. Younger files may belong to the
/// process that hands the log over to this process.
const ABANDONED: Duration = Duration::from_secs(10 * 60);

/// A cache of immutable files in a directory, bounded in bytes.
///
/// The cache is empty, and leaves its directory alone, until its [start](Self::start).
pub struct DiskCache {
    disk: Arc<Disk>,
    observer: Arc<dyn Observer>,
    is_started: AtomicBool,
}

impl DiskCache {
    /// Creates a cache of at most `bytes` in `directory`. No other log may use the directory,
    /// because its files are served as this log's.
    pub fn new(directory: &Path, bytes: u64, observer: Arc<dyn Observer>) -> Self {
        Self {
            disk: Arc::new(Disk::new(directory, bytes)),
            observer,
            is_started: AtomicBool::new(false),
        }
    }

    /// Starts to cache files. Creates the directory if necessary. Files of an earlier process are
    /// registered in the background.
    ///
    /// Must be called within a tokio runtime. If the directory cannot be written, the cache logs a
    /// warning and stores nothing.
    pub fn start(&self) {
        if self.is_started.swap(true, Relaxed) {
            return;
        }
        let (scanned, reported) = (self.disk.clone(), self.observer.clone());
        spawn_blocking(move || {
            scanned.scan();
            reported.cache_holds(scanned.bytes());
        });
    }

    /// Returns the cached bytes of this path; `None` if the cache does not have the file.
    pub(crate) async fn get(&self, path: &str) -> Option<Bytes> {
        if !self.caches(path) {
            return None;
        }
        let found = self.disk.read(path).await;
        self.observer.cache(found.is_some());
        found
    }

    /// Caches these bytes in the background.
    pub(crate) fn keep(&self, path: &str, bytes: &Bytes) {
        if self.caches(path) {
            let (path, bytes) = (path.to_owned(), bytes.clone());
            let observer = self.observer.clone();
            self.disk
                .clone()
                .keep(path, bytes, move |held| observer.cache_holds(held));
        }
    }

    /// Removes this path from the cache.
    pub(crate) async fn forget(&self, path: &str) {
        if self.is_started.load(Relaxed) {
            self.disk.clone().discard(path.to_owned()).await;
            self.observer.cache_holds(self.disk.bytes());
        }
    }

    fn caches(&self, path: &str) -> bool {
        self.is_started.load(Relaxed) && is_immutable(path)
    }
}

/// Returns `true` if the file at this path never changes and is likely to be requested again.
fn is_immutable(path: &str) -> bool {
    let tile = path.starts_with("tile/") && !path.contains(".p/");
    tile || path.starts_with("issuer/")
}

/// The files of the cache.
struct Disk {
    directory: PathBuf,
    lru: Mutex<Lru>,
    writers: Arc<Semaphore>,
    reading: BlockingPool,
    /// Prefix of this process's unfinished files. Part of the prefix is random, because two
    /// processes write to the directory during a hand-over.
    unfinished: String,
    next: AtomicU64,
    warned: AtomicBool,
}

impl Disk {
    fn new(directory: &Path, bytes: u64) -> Self {
        let start = RandomState::new().hash_one(std::process::id());
        Self {
            directory: directory.to_owned(),
            lru: Mutex::new(Lru::new(bytes)),
            writers: Arc::new(Semaphore::new(WRITERS)),
            reading: BlockingPool::new(READERS, READ_TIMEOUT),
            unfinished: format!("{UNFINISHED}{start:016x}-"),
            next: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        }
    }

    fn bytes(&self) -> u64 {
        self.lru.lock().bytes()
    }

    /// Registers the files of an earlier process, the newest last. This process, and an earlier
    /// process that still runs, may write files at the same time.
    fn scan(&self) {
        let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
        for folder in entries(&self.directory) {
            for file in entries(&folder) {
                let name = file.file_name().and_then(|name| name.to_str());
                let Some((name, data)) = name.zip(fs::metadata(&file).ok()) else {
                    continue;
                };
                let written = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let is_unfinished = name.starts_with(UNFINISHED);
                if is_unfinished && !is_abandoned(written) {
                    continue;
                }
                if is_unfinished || !data.is_file() {
                    // An earlier process did not finish this file, or the cache did not create it.
                    // The cache never reads the file, so a failed removal only costs disk space.
                    let _ = fs::remove_file(&file);
                    continue;
                }
                found.push((written, name.replace('+', "/"), data.len()));
            }
        }
        found.sort();
        for (_, path, size) in found {
            let gone = self.lru.lock().insert(&path, size);
            gone.iter().for_each(|path| self.forget(path));
        }
    }

    /// Returns the cached bytes of this path if they are complete.
    async fn read(self: &Arc<Self>, path: &str) -> Option<Bytes> {
        if !self.lru.lock().touch(path) {
            return None;
        }
        let file = self.file(path);
        let read = self.reading.run(move || fs::read(file)).await;
        let whole = read.ok()?.ok().and_then(whole);
        if whole.is_none() {
            self.clone().discard(path.to_owned()).await;
        }
        whole
    }

    /// Removes this path from the cache.
    async fn discard(self: Arc<Self>, path: String) {
        self.lru.lock().remove(&path);
        // A file that cannot be removed is found again at the next start and compared with the
        // tree.
        let disk = self.clone();
        let _ = self.reading.run(move || disk.forget(&path)).await;
    }

    /// Caches the bytes in the background unless they are cached already, then reports the size of
    /// the cache.
    fn keep(self: Arc<Self>, path: String, bytes: Bytes, held: impl FnOnce(u64) + Send + 'static) {
        let size = (bytes.len() + HEADER) as u64;
        {
            let lru = self.lru.lock();
            if lru.has(&path) || !lru.takes(size) {
                return;
            }
        }
        let Ok(permit) = self.writers.clone().try_acquire_owned() else {
            return;
        };
        spawn_blocking(move || {
            let _permit = permit;
            match self.write(&path, &bytes) {
                Ok(()) => {
                    let gone = self.lru.lock().insert(&path, size);
                    gone.iter().for_each(|path| self.forget(path));
                    held(self.bytes());
                }
                Err(error) if !self.warned.swap(true, Relaxed) => tracing::warn!(
                    directory = %self.directory.display(), %error,
                    "cannot cache the tiles that readers request: check the directory. Reads \
                     continue without the cache"
                ),
                Err(_) => {}
            }
        });
    }

    fn write(&self, path: &str, bytes: &[u8]) -> std::io::Result<()> {
        let file = self.file(path);
        let folder = file.parent().unwrap_or(&self.directory);
        fs::create_dir_all(folder)?;
        let unfinished = self.next_unfinished(folder);
        let write = || {
            let mut file = fs::File::create(&unfinished)?;
            file.write_all(&xxh3_128(bytes).to_be_bytes())?;
            file.write_all(bytes)
        };
        let written = write().and_then(|()| fs::rename(&unfinished, &file));
        if written.is_err() {
            // Only the error of the write is reported.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Returns an unused path in the folder for a file that is being written.
    fn next_unfinished(&self, folder: &Path) -> PathBuf {
        let number = self.next.fetch_add(1, Relaxed);
        folder.join(format!("{}{number}", self.unfinished))
    }

    /// Removes a file that is no longer needed; a missing file is no error.
    fn forget(&self, path: &str) {
        let _ = fs::remove_file(self.file(path));
    }

    fn file(&self, path: &str) -> PathBuf {
        let folder = format!("{:02x}", xxh3_64(path.as_bytes()) & 0xff);
        self.directory.join(folder).join(path.replace('/', "+"))
    }
}

/// Returns the bytes after the sum if the sum matches.
fn whole(file: Vec<u8>) -> Option<Bytes> {
    let sum: [u8; HEADER] = file.get(..HEADER)?.try_into().ok()?;
    let bytes = Bytes::from(file).slice(HEADER..);
    (xxh3_128(&bytes).to_be_bytes() == sum).then_some(bytes)
}

/// Returns `true` if no process writes an unfinished file of this time any more. A time in the
/// future has no age: the clock of a file server may be ahead.
fn is_abandoned(written: SystemTime) -> bool {
    written.elapsed().is_ok_and(|age| age >= ABANDONED)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// The names of the cached files in the order of their last use, bounded by the total size of the
/// files.
struct Lru {
    max: u64,
    bytes: u64,
    /// Names with the sizes of their files.
    sizes: LruCache<String, u64>,
}

impl Lru {
    fn new(max: u64) -> Self {
        Self {
            max,
            bytes: 0,
            sizes: LruCache::unbounded(),
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if a file of this size fits at all.
    fn takes(&self, size: u64) -> bool {
        size <= self.max
    }

    /// Returns `true` if the name is in the set.
    fn has(&self, name: &str) -> bool {
        self.sizes.contains(name)
    }

    /// Returns `true` if the name is in the set, and marks it as the most recent.
    fn touch(&mut self, name: &str) -> bool {
        self.sizes.promote(name)
    }

    /// Adds a name and returns the names that must be removed to make room.
    fn insert(&mut self, name: &str, size: u64) -> Vec<String> {
        self.remove(name);
        self.sizes.put(name.to_owned(), size);
        self.bytes += size;
        let mut gone = Vec::new();
        while self.bytes > self.max
            && let Some((oldest, size)) = self.sizes.pop_lru()
        {
            self.bytes -= size;
            gone.push(oldest);
        }
        gone
    }

    fn remove(&mut self, name: &str) {
        if let Some(size) = self.sizes.pop(name) {
            self.bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use lucarne_testkit::eventually;

    use super::*;

    const TILE: &str = "tile/0/000";

    /// The earlier process of a hand-over uses the directory until the next process starts its
    /// cache.
    #[tokio::test]
    async fn the_directory_is_left_alone_before_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("cache");
        let [earlier, next] = [(); 2].map(|()| DiskCache::new(&directory, 1 << 20, Arc::new(())));
        let tile = Bytes::from_static(b"a tile");
        next.keep(TILE, &tile);
        assert_eq!(next.get(TILE).await, None);
        assert!(!directory.exists());

        earlier.start();
        earlier.keep(TILE, &tile);
        eventually("the tile is cached", async || {
            earlier.get(TILE).await.is_some()
        })
        .await;
        next.keep("tile/0/001", &tile);
        next.forget(TILE).await;
        assert_eq!(next.get(TILE).await, None);
        assert_eq!(earlier.get(TILE).await, Some(tile.clone()));
        let folders = fs::read_dir(&directory).unwrap();
        assert_eq!(folders.count(), 1, "only the file of the earlier process");

        next.start();
        eventually("the file of the earlier process is found", async || {
            next.get(TILE).await.as_ref() == Some(&tile)
        })
        .await;
        assert_eq!(earlier.get(TILE).await, Some(tile.clone()));
    }

    /// A process that hands its log over still writes to the directory.
    #[test]
    fn a_scan_removes_abandoned_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("00");
        fs::create_dir(&folder).unwrap();
        let [disk, earlier] = [(); 2].map(|()| Disk::new(directory.path(), 1 << 20));
        let unfinished = [&disk, &earlier, &earlier].map(|disk| disk.next_unfinished(&folder));
        for file in &unfinished {
            fs::write(file, "half").unwrap();
        }
        let [own, others, abandoned] = unfinished;
        let before = SystemTime::now() - 2 * ABANDONED;
        let file = fs::File::options().write(true).open(&abandoned).unwrap();
        file.set_modified(before).unwrap();
        disk.scan();
        assert!(
            own.exists() && others.exists(),
            "a process may write the file"
        );
        assert!(!abandoned.exists());
        assert_eq!(disk.bytes(), 0, "unfinished files are not registered");
    }

    #[test]
    fn the_one_nobody_asks_for_makes_room() {
        let mut lru = Lru::new(10);
        assert!(lru.insert("a", 4).is_empty());
        assert!(lru.insert("b", 4).is_empty());
        assert!(lru.touch("a"));
        assert_eq!(lru.insert("c", 4), ["b"]);
        assert!(lru.touch("a") && !lru.touch("b"));
        assert_eq!(lru.bytes(), 8);
        // Inserting the same name again counts it once.
        assert!(lru.insert("c", 6).is_empty());
        assert_eq!(lru.bytes(), 10);
        lru.remove("c");
        assert_eq!(lru.bytes(), 4);
        assert!(!lru.takes(11));
    }
}
