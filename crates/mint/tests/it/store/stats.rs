//! All figures of a store.

use std::sync::Arc;

use lucarne_mint::store::{
    DiskOptions, DiskStore, GenerationTime, LayeredStore, MemoryStore, NoStore, StoreOptions,
};

use super::support::{Failure, Spy, host, minter};

#[tokio::test]
async fn memory_counts_hits_misses_and_what_it_makes() {
    let spy = Spy::on(MemoryStore::new(StoreOptions::default()));
    let minter = minter(spy.clone());
    for name in ["a.example", "A.example.", "b.example", "a.example"] {
        minter.certificate(&host(name)).await.unwrap();
    }
    *spy.made.fails.lock() = Some(Failure::Error);
    assert!(minter.certificate(&host("c.example")).await.is_err());
    let stats = minter.stats();
    assert_eq!((stats.hits, stats.misses, stats.generated), (2, 3, 2));
    assert_eq!((stats.errors, stats.coalesced, stats.in_flight), (1, 0, 0));
    assert_eq!((stats.evicted, stats.expired, stats.disk_hits), (0, 0, 0));
    assert_eq!(stats.entries, 2);
    assert!(stats.bytes > 2 * 1024);
    let time = stats.generation;
    assert_eq!((time.count, time.buckets.iter().sum::<u64>()), (2, 2));
    assert!(time.mean() <= time.longest && time.longest <= time.total);
    assert!(GenerationTime::BOUNDS.is_sorted());
}

#[tokio::test]
async fn layers_count_as_one_store() {
    let home = tempfile::tempdir().unwrap();
    let layered = || {
        let disk = DiskStore::open(&home.path().join("store"), DiskOptions::default()).unwrap();
        Arc::new(LayeredStore::new(StoreOptions::default(), Arc::new(disk)))
    };
    let first = minter(layered());
    let made = first.certificate(&host("a.example")).await.unwrap();
    first.certificate(&host("a.example")).await.unwrap();
    let stats = first.stats();
    assert_eq!((stats.hits, stats.disk_hits), (1, 0));
    assert_eq!((stats.misses, stats.generated), (1, 1));

    // The next store finds the certificate on disk once, and then in memory.
    let second = minter(layered());
    for _ in 0..3 {
        let found = second.certificate(&host("a.example")).await.unwrap();
        assert_eq!(found.serial, made.serial);
    }
    let stats = second.stats();
    assert_eq!((stats.hits, stats.disk_hits), (2, 1));
    assert_eq!((stats.misses, stats.generated), (0, 0));
}

#[tokio::test]
async fn without_a_store_each_call_makes_one() {
    let minter = minter(Arc::new(NoStore::new(&StoreOptions::default())));
    let first = minter.certificate(&host("a.example")).await.unwrap();
    let second = minter.certificate(&host("a.example")).await.unwrap();
    assert_ne!(first.serial, second.serial);
    let stats = minter.stats();
    assert_eq!((stats.hits, stats.misses, stats.generated), (0, 2, 2));
}
