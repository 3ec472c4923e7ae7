//! Certificates on disk, shared between processes.

mod file;
mod folder;
mod lock;
mod private;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::folder::Folder;
use super::freshness::{Age, Freshness};
use super::generator::{GenerateJob, Generator};
use super::single_flight::{Joined, SingleFlight};
use super::{
    CertificateStore, DEFAULT_ALPN, Generate, Minted, Outcome, StoreError, StoreKey, StoreOptions,
    StoreStats,
};

/// The number of files that are read at a time.
const READERS: usize = 16;

/// The options of a store on disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Its bounds; that on memory does not count here.
    pub store: StoreOptions,
    /// The number of certificates that it keeps: 100,000 (of some 2 kB each). Beyond it
    /// those go that end first.
    pub max_files: usize,
    /// The protocols that servers of its certificates offer, best first.
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

/// The reasons why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system refused.
    #[error("cannot open the certificate store {}: {source}", path.display())]
    Io {
        /// The store's directory, or what in it is at fault.
        path: PathBuf,
        /// The error it gave.
        source: io::Error,
    },
    /// Others could read the private keys.
    #[error("{} is open to other users (mode {mode:o}): it holds private keys, so run: chmod 700 {}",
        path.display(), path.display())]
    Exposed {
        /// The store's directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Keeps certificates in a directory of its own, which several processes may
/// share: a certificate that one has made, the others find. One that is being
/// made by one process is waited for by the others.
///
/// Put memory before it ([`LayeredStore`](super::LayeredStore)): by itself it
/// reads a file for each call, and sessions do not resume.
///
/// The directory is the user's alone (0700), so are the files (0600). Each is
/// written beside its place, synced and renamed. What is read is checked (that
/// the key is the certificate's, that the CA issued it, for this host, and its
/// time); what fails is said and made anew. Where the disk fails, certificates
/// are made all the same, and given out without being kept: see
/// [`problem`](Self::problem) and
/// [`StoreStats::disk_errors`].
#[derive(Debug)]
pub struct DiskStore {
    cache: Arc<DiskCache>,
    fetches: Arc<SingleFlight>,
    /// Successors being made.
    renewals: Arc<SingleFlight>,
}

struct DiskCache {
    folder: Arc<Folder>,
    options: DiskOptions,
    generator: Generator,
    readers: Semaphore,
    problem: Mutex<Option<String>>,
}

/// The problem with a file is said and counted when it is first looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Locked,
}

impl DiskStore {
    /// Opens the store in `directory`, which is made if need be.
    ///
    /// # Errors
    /// A directory that is not there and cannot be made, or that others can read. One that
    /// cannot be written to is a [`problem`](Self::problem).
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

    /// The problem with the disk, for people; `None` while it works.
    pub fn problem(&self) -> Option<String> {
        self.cache.problem.lock().clone()
    }

    /// Removes the files whose certificates have ended, and so many others
    /// that the bound holds. The store does it itself now and then. Blocks.
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
                // Where it is under way already, it is not begun again.
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
        // It is never closed.
        let _turn = self.readers.acquire().await.ok();
        let (cache, wanted) = (self.clone(), key.clone());
        let read = move || cache.read(&wanted, Look::First);
        self.generator.run(key, read).await
    }

    /// Makes the certificate, unless another process has done it meanwhile:
    /// one that is at most as old as `at_most` is taken.
    async fn make(self: Arc<Self>, key: StoreKey, generate: Generate, at_most: Age) -> Outcome {
        let permit = self.generator.permit().await;
        let lock = match self.folder.lock(&key).await {
            Ok(lock) => Some(lock),
            Err(error) => {
                self.trouble(&format!("cannot lock {key}: {error}"));
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

    /// Blocks. The key is locked.
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
            Err(error) => self.trouble(&format!("cannot keep a certificate: {error}")),
        }
        Ok(Arc::new(minted))
    }

    /// Returns what the disk has of this key, if it is what it should be. Blocks.
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
                    tracing::warn!("{}: {error}; made anew", path.display());
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
            Err(error) => self.trouble(&format!("cannot remove what is old: {error}")),
        }
    }

    /// Something failed. It is said when it begins, and counted each time.
    fn trouble(&self, problem: &str) {
        self.generator.counters.disk_errors.add_one();
        let mut current = self.problem.lock();
        if current.is_none() {
            let directory = self.folder.directory().display();
            tracing::warn!(
                "{directory}: {problem}; certificates are made and given out, but not kept there"
            );
        }
        *current = Some(problem.to_owned());
    }

    /// The disk did what it was asked to.
    fn works(&self) {
        let before = self.problem.lock().take();
        if before.is_some() {
            let directory = self.folder.directory().display();
            tracing::info!("{directory}: certificates are kept again");
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
