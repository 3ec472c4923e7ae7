//! Certificate store on disk, shared between processes.

mod file;
mod folder;
mod private;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::folder::Folder;
use super::generator::{GenerateJob, Generator};
use super::minted::{Age, Freshness};
use super::single_flight::{Joined, SingleFlight};
use super::{
    CertificateStore, DEFAULT_ALPN, Generate, Minted, Outcome, StoreError, StoreKey, StoreOptions,
    StoreStats,
};
use crate::Exposed;

/// Limit of concurrent readers of files.
const READERS: usize = 16;

/// Options of a store on disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Limits of the store; the limit of memory does not apply.
    pub store: StoreOptions,
    /// Maximum number of certificates: 100,000 by default, about 2 kB each. Beyond the limit, the
    /// certificates that expire first are removed.
    pub max_files: usize,
    /// ALPN protocols of servers with the store's certificates, best first.
    pub alpn: Vec<String>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions {
            store: StoreOptions::default(),
            max_files: 100_000,
            alpn: DEFAULT_ALPN.map(str::to_owned).to_vec(),
        }
    }
}

/// Reasons why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file operation failed.
    #[error("cannot open the certificate store {}: {source}", path.display())]
    Io {
        /// Path of the store's directory, or of an entry in it.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Other users can access the directory.
    #[error("the certificate store {} {exposed}", path.display())]
    Exposed {
        /// Path of the store's directory.
        path: PathBuf,
        /// The users with access, and the remedy.
        exposed: Exposed,
    },
}

/// Stores certificates in a directory that several processes may share: each process finds the
/// certificates of the others, and waits while another process creates the requested certificate.
///
/// Combine this store with memory ([`LayeredStore`](super::LayeredStore)): alone, the store reads a
/// file for each call, and TLS sessions do not resume.
///
/// Only the owner can access the directory (0700) and its files (0600). Each file is written under
/// another name, synced and renamed. A file is verified when read: the key belongs to the
/// certificate, and the CA issued it for this host and the current time. An invalid file is
/// reported and recreated. If the disk fails, certificates are still created and returned, but not
/// stored: see [`problem`](Self::problem) and [`StoreStats::disk_errors`].
#[derive(Debug)]
pub struct DiskStore {
    cache: Arc<DiskCache>,
    fetches: Arc<SingleFlight>,
    renewals: Arc<SingleFlight>,
}

struct DiskCache {
    folder: Arc<Folder>,
    options: DiskOptions,
    generator: Generator,
    readers: Semaphore,
    problem: Mutex<Option<String>>,
}

/// Two reads of a file: without the lock, and with the lock of the key. Only the first read reports
/// and counts a problem, so that each problem is counted once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Locked,
}

impl DiskStore {
    /// Opens the store in `directory`, which is created if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be created, or other users can read it. A directory that is not
    /// writable is a [`problem`](Self::problem).
    pub fn open(directory: &Path, options: DiskOptions) -> Result<Self, OpenError> {
        let waiting = options.store.waiting;
        let cache = DiskCache {
            folder: Arc::new(Folder::open(directory)?),
            generator: Generator::new(options.store.generations),
            readers: Semaphore::new(READERS),
            problem: Mutex::default(),
            options,
        };
        if let Err(error) = cache.folder.check() {
            cache.trouble(&error.to_string());
        }
        Ok(DiskStore {
            cache: Arc::new(cache),
            fetches: SingleFlight::new(waiting),
            renewals: SingleFlight::new(waiting),
        })
    }

    /// Returns a description of the problem with the disk; `None` while the disk works.
    pub fn problem(&self) -> Option<String> {
        self.cache.problem.lock().clone()
    }

    /// Removes the files of expired certificates, and further files beyond
    /// [`DiskOptions::max_files`]. The store also calls this periodically. Blocks.
    pub fn sweep(&self) {
        self.cache.sweep();
    }
}

#[async_trait::async_trait]
impl CertificateStore for DiskStore {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Outcome {
        let renewals = self.renewals.clone();
        let work = || {
            self.cache
                .clone()
                .find_or_make(key.clone(), generate, renewals)
        };
        match self.fetches.join(key, || None, work) {
            Joined::Found(minted) => Ok(minted),
            Joined::Leader(waiter) => waiter.wait().await,
            Joined::Follower(waiter) => {
                self.cache.generator.counters.coalesced.add_one();
                waiter.wait().await
            }
            Joined::Full(error) => {
                self.cache.generator.counters.overloaded.add_one();
                Err(error)
            }
        }
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            in_flight: self.fetches.len() as u64,
            ..self.cache.generator.counters.snapshot()
        }
    }
}

impl DiskCache {
    async fn find_or_make(
        self: Arc<Self>,
        key: StoreKey,
        generate: Generate,
        renewals: Arc<SingleFlight>,
    ) -> Outcome {
        if let Some((minted, age)) = self.find(&key).await? {
            self.generator.counters.disk_hits.add_one();
            if age == Age::Ageing {
                let cache = self.clone();
                // A renewal that is already in progress is not started again.
                renewals.join(
                    &key,
                    || None,
                    || cache.make(key.clone(), generate, Age::Fresh),
                );
            }
            return Ok(minted);
        }
        self.make(key, generate, Age::Ageing).await
    }

    async fn find(
        self: &Arc<Self>,
        key: &StoreKey,
    ) -> Result<Option<(Arc<Minted>, Age)>, StoreError> {
        // The semaphore is never closed.
        let _turn = self.readers.acquire().await.ok();
        let (cache, wanted) = (self.clone(), key.clone());
        let read = move || cache.read(&wanted, Look::First);
        self.generator.run(key, read).await
    }

    /// Creates the certificate, unless another process has done so in the meantime: a certificate
    /// of at most the age `at_most` is used.
    async fn make(self: Arc<Self>, key: StoreKey, generate: Generate, at_most: Age) -> Outcome {
        let permit = self.generator.permit().await;
        let lock = match self.folder.lock(&key).await {
            Ok(lock) => Some(lock),
            Err(error) => {
                self.trouble(&format!("locking {key}: {error}"));
                None
            }
        };
        let job = self.generator.job(&key, generate);
        let (cache, wanted) = (self.clone(), key.clone());
        let work = move || {
            let _held = (permit, lock);
            cache.make_here(&wanted, &job, at_most)
        };
        self.generator.run(&key, work).await?
    }

    /// Creates the certificate, unless another process has stored it by now. Blocks. The caller has
    /// locked the key.
    fn make_here(&self, key: &StoreKey, job: &GenerateJob, at_most: Age) -> Outcome {
        let counters = &self.generator.counters;
        if let Some((minted, age)) = self.read(key, Look::Locked)
            && (age == Age::Fresh || at_most == Age::Ageing)
        {
            counters.disk_hits.add_one();
            return Ok(minted);
        }
        counters.misses.add_one();
        let minted = job.make()?;
        if at_most == Age::Fresh {
            counters.refreshed.add_one();
        }
        match self.folder.write(key, &minted) {
            Ok(sweep) => {
                self.works();
                if sweep {
                    self.sweep();
                }
            }
            Err(error) => self.trouble(&format!("storing a certificate: {error}")),
        }
        Ok(Arc::new(minted))
    }

    /// Reads and verifies the certificate of this key. Blocks.
    fn read(&self, key: &StoreKey, look: Look) -> Option<(Arc<Minted>, Age)> {
        let now = self.options.store.clock.now();
        let text = match self.folder.read(key) {
            Ok(text) => text?,
            Err(error) => {
                self.trouble(&error.to_string());
                return None;
            }
        };
        let minted = match file::parse(&text, key, now, &self.options.alpn) {
            Ok(minted) => minted,
            Err(error) => {
                if look == Look::First {
                    self.generator.counters.disk_errors.add_one();
                    let path = self.folder.path(key);
                    tracing::warn!(
                        "{}: {error}; the certificate is created again",
                        path.display()
                    );
                }
                return None;
            }
        };
        match Freshness::of(&minted, &self.options.store).at(now) {
            Age::Expired => {
                if look == Look::First {
                    self.generator.counters.expired.add_one();
                }
                None
            }
            age => Some((Arc::new(minted), age)),
        }
    }

    fn sweep(&self) {
        let now = self.options.store.clock.now();
        match self.folder.sweep(now, self.options.max_files) {
            Ok(swept) => {
                let counters = &self.generator.counters;
                (0..swept.expired).for_each(|_| counters.expired.add_one());
                (0..swept.evicted).for_each(|_| counters.evicted.add_one());
            }
            Err(error) => self.trouble(&format!("removing expired certificates: {error}")),
        }
    }

    /// Counts a failure, and logs the first failure after a success.
    fn trouble(&self, problem: &str) {
        self.generator.counters.disk_errors.add_one();
        let mut current = self.problem.lock();
        if current.is_none() {
            let directory = self.folder.directory().display();
            tracing::warn!(
                "{directory}: {problem}; certificates are created and served, but not stored"
            );
        }
        *current = Some(problem.to_owned());
    }

    /// Records that the disk works.
    fn works(&self) {
        let before = self.problem.lock().take();
        if before.is_some() {
            let directory = self.folder.directory().display();
            tracing::info!("{directory}: certificates are stored again");
        }
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache")
            .field("directory", &self.folder.directory())
            .finish_non_exhaustive()
    }
}
