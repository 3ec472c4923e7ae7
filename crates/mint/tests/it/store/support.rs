//! A CA, a clock that the test sets, and a store that observes another store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use lucarne_mint::store::{
    CertificateStore, Clock, Generate, Host, MintOptions, Minted, Minter, StoreError, StoreKey,
    StoreStats,
};
use lucarne_mint::{Authority, CaOptions, KeyType, MintError};
use parking_lot::Mutex;

pub(crate) fn ca() -> Authority {
    static CA: LazyLock<Authority> = LazyLock::new(new_ca);
    CA.clone()
}

pub(crate) fn new_ca() -> Authority {
    Authority::root(&CaOptions::local(KeyType::EcdsaP256).unwrap()).unwrap()
}

pub(crate) fn host(name: &str) -> Host {
    Host::parse(name).unwrap()
}

pub(crate) fn minter(store: Arc<dyn CertificateStore>) -> Minter {
    Minter::new(ca(), store, MintOptions::default()).unwrap()
}

/// A clock that stands still until the test moves it.
#[derive(Clone, Default)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let (start, hands) = (SystemTime::now(), self.clone());
        Clock::new(move || start + Duration::from_secs(hands.0.load(SeqCst)))
    }
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A custom store that forwards everything, and observes the created certificates.
pub(crate) struct Spy {
    below: Arc<dyn CertificateStore>,
    pub made: Arc<Made>,
}

#[derive(Default)]
pub(crate) struct Made {
    /// Number of creations of each key, successful or not.
    by_key: Mutex<HashMap<StoreKey, u32>>,
    pub now: AtomicUsize,
    /// Largest number of concurrent creations.
    pub most: AtomicUsize,
    /// No creation finishes while this is true.
    held: AtomicBool,
    /// Error of creations, if they fail.
    pub fails: Mutex<Option<Failure>>,
}

/// Releases the held creations when it is dropped.
pub(crate) struct Hold<'m>(&'m AtomicBool);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Failure {
    Error,
    Panic,
}

impl Spy {
    pub(crate) fn on(below: impl CertificateStore) -> Arc<Self> {
        Arc::new(Spy {
            below: Arc::new(below),
            made: Arc::default(),
        })
    }
}

impl Made {
    pub(crate) fn total(&self) -> u32 {
        self.by_key.lock().values().sum()
    }

    pub(crate) fn each(&self) -> Vec<u32> {
        self.by_key.lock().values().copied().collect()
    }

    /// Holds all creations until the guard is dropped.
    pub(crate) fn hold(&self) -> Hold<'_> {
        self.held.store(true, SeqCst);
        Hold(&self.held)
    }

    fn make(&self, key: &StoreKey, generate: &Generate) -> Result<Minted, MintError> {
        *self.by_key.lock().entry(key.clone()).or_default() += 1;
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        while self.held.load(SeqCst) {
            // Polls until the test releases the creation. The result does not depend on the speed.
            std::thread::sleep(Duration::from_millis(1));
        }
        let failure = *self.fails.lock();
        let made = match failure {
            None => generate(key),
            Some(Failure::Error) => Err(MintError::Crypto("as the test wants")),
            Some(Failure::Panic) => {
                self.now.fetch_sub(1, SeqCst);
                panic!("as the test wants");
            }
        };
        self.now.fetch_sub(1, SeqCst);
        made
    }
}

#[async_trait::async_trait]
impl CertificateStore for Spy {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Result<Arc<Minted>, StoreError> {
        let made = self.made.clone();
        let watched = Arc::new(move |key: &StoreKey| made.make(key, &generate));
        self.below.fetch(key, watched).await
    }

    fn stats(&self) -> StoreStats {
        self.below.stats()
    }
}

/// Longest wait of a test for one event.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for the condition `what`, which other tasks fulfil.
pub(crate) async fn until(what: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + EVENT_TIMEOUT;
    while !what() {
        assert!(
            std::time::Instant::now() < deadline,
            "it did not come to be within {EVENT_TIMEOUT:?}"
        );
        // Polls until the deadline. The result does not depend on the speed.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
