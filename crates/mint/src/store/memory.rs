//! Certificate store in memory, alone or in front of another store.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use moka::Expiry;
use moka::notification::RemovalCause;
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;

use super::minted::{Age, Freshness};
use super::single_flight::{Joined, SingleFlight};
use super::stats::Counters;
use super::{
    CertificateStore, Generate, Minted, NoStore, Outcome, StoreKey, StoreOptions, StoreStats,
};

/// Caches the certificates of another store in memory. In front of a
/// [`DiskStore`](super::DiskStore), certificates need not be read for each connection, and sessions
/// resume.
pub struct LayeredStore(Arc<Layer>);

struct Layer {
    entries: Cache<StoreKey, CacheEntry>,
    fetches: Arc<SingleFlight>,
    counters: Arc<Counters>,
    options: StoreOptions,
    below: Arc<dyn CertificateStore>,
}

#[derive(Clone)]
struct CacheEntry {
    minted: Arc<Minted>,
    freshness: Freshness,
    /// Time after which the cache drops the entry.
    life: Duration,
}

impl LayeredStore {
    /// Creates an empty cache in front of `below`.
    pub fn new(options: StoreOptions, below: Arc<dyn CertificateStore>) -> Self {
        let counters = Arc::<Counters>::default();
        LayeredStore(Arc::new(Layer {
            entries: cache(&options, counters.clone()),
            fetches: SingleFlight::new(options.waiting),
            counters,
            options,
            below,
        }))
    }
}

fn cache(options: &StoreOptions, counters: Arc<Counters>) -> Cache<StoreKey, CacheEntry> {
    Cache::builder()
        .max_capacity(options.max_bytes)
        .weigher(|key: &StoreKey, entry: &CacheEntry| {
            let name = u32::try_from(key.host.as_str().len()).unwrap_or(u32::MAX);
            entry.minted.weight().saturating_add(name)
        })
        .expire_after(UntilItExpires)
        .eviction_listener(move |_, _, cause| match cause {
            RemovalCause::Size => counters.evicted.add_one(),
            RemovalCause::Expired => counters.expired.add_one(),
            RemovalCause::Explicit | RemovalCause::Replaced => (),
        })
        .build()
}

struct UntilItExpires;

impl Expiry<StoreKey, CacheEntry> for UntilItExpires {
    fn expire_after_create(
        &self,
        _: &StoreKey,
        entry: &CacheEntry,
        _: Instant,
    ) -> Option<Duration> {
        Some(entry.life)
    }

    fn expire_after_update(
        &self,
        _: &StoreKey,
        entry: &CacheEntry,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.life)
    }
}

#[async_trait::async_trait]
impl CertificateStore for LayeredStore {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Outcome {
        let layer = &self.0;
        if let Some((minted, age)) = layer.look(key) {
            layer.counters.hits.add_one();
            if age == Age::Ageing {
                layer.refresh(key, &minted, generate);
            }
            return Ok(minted);
        }
        let look = || layer.look(key).map(|(minted, _)| minted);
        let work = || layer.clone().fill(key.clone(), generate);
        match layer.fetches.join(key, look, work) {
            Joined::Found(minted) => {
                layer.counters.hits.add_one();
                Ok(minted)
            }
            Joined::Leader(waiter) => waiter.wait().await,
            Joined::Follower(waiter) => {
                layer.counters.coalesced.add_one();
                waiter.wait().await
            }
            Joined::Full(error) => {
                layer.counters.overloaded.add_one();
                Err(error)
            }
        }
    }

    fn stats(&self) -> StoreStats {
        let layer = &self.0;
        layer.entries.run_pending_tasks();
        StoreStats {
            in_flight: layer.fetches.len() as u64,
            entries: layer.entries.entry_count(),
            bytes: layer.entries.weighted_size(),
            ..layer.counters.snapshot()
        }
        .above(layer.below.stats())
    }
}

impl Layer {
    /// Returns a valid certificate from the cache, and drops an expired one.
    fn look(&self, key: &StoreKey) -> Option<(Arc<Minted>, Age)> {
        let entry = self.entries.get(key)?;
        match entry.freshness.at(self.options.clock.now()) {
            Age::Expired => {
                self.drop_expired(key);
                None
            }
            age => Some((entry.minted, age)),
        }
    }

    /// Drops an expired entry, unless it was just replaced.
    fn drop_expired(&self, key: &StoreKey) {
        let now = self.options.clock.now();
        let dropped = self.entries.entry_by_ref(key).and_compute_with(|entry| {
            match entry.map(|entry| entry.into_value().freshness.at(now)) {
                Some(Age::Expired) => Op::Remove,
                _ => Op::Nop,
            }
        });
        if let CompResult::Removed(_) = dropped {
            self.counters.expired.add_one();
        }
    }

    async fn fill(self: Arc<Self>, key: StoreKey, generate: Generate) -> Outcome {
        let minted = self.below.fetch(&key, generate).await?;
        let freshness = Freshness::of(&minted, &self.options);
        self.keep(key, minted.clone(), freshness);
        Ok(minted)
    }

    /// Starts the renewal of `current` in a background task.
    fn refresh(self: &Arc<Self>, key: &StoreKey, current: &Arc<Minted>, generate: Generate) {
        let work = || self.clone().renew(key.clone(), current.clone(), generate);
        // Nothing is started if a renewal is in progress, or too many keys are waiting.
        self.fetches.join(key, || None, work);
    }

    async fn renew(
        self: Arc<Self>,
        key: StoreKey,
        current: Arc<Minted>,
        generate: Generate,
    ) -> Outcome {
        let outcome = self.below.fetch(&key, generate).await;
        let successor = outcome.as_ref().unwrap_or(&current);
        let now = self.options.clock.now();
        let mut freshness = Freshness::of(successor, &self.options);
        if freshness.at(now) == Age::Ageing {
            // The renewal failed, or the store below has no successor yet.
            freshness = freshness.put_off(now);
        }
        if freshness.at(now) != Age::Expired {
            self.keep(key, successor.clone(), freshness);
        }
        if let Ok(successor) = &outcome
            && successor.serial != current.serial
        {
            self.counters.refreshed.add_one();
        }
        outcome
    }

    fn keep(&self, key: StoreKey, minted: Arc<Minted>, freshness: Freshness) {
        let left = |now: SystemTime| freshness.expires.duration_since(now);
        let life = left(self.options.clock.now()).unwrap_or(Duration::ZERO);
        if life.is_zero() {
            return;
        }
        let entry = CacheEntry {
            minted,
            freshness,
            life,
        };
        self.entries.insert(key, entry);
    }
}

impl fmt::Debug for LayeredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayeredStore")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

/// Stores certificates in memory within a limit. The least requested certificates are dropped
/// first. Many names that are requested once do not displace certificates in use.
#[derive(Debug)]
pub struct MemoryStore(LayeredStore);

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(options: StoreOptions) -> Self {
        let none = Arc::new(NoStore::new(&options));
        MemoryStore(LayeredStore::new(options, none))
    }
}

#[async_trait::async_trait]
impl CertificateStore for MemoryStore {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Outcome {
        self.0.fetch(key, generate).await
    }

    fn stats(&self) -> StoreStats {
        self.0.stats()
    }
}
