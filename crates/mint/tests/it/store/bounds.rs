//! Limits of memory, of work and of waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use lucarne_mint::store::{
    LeafKey, MemoryStore, MintOptions, Minter, NoStore, StoreError, StoreOptions,
};

use super::support::{Spy, ca, host, minter, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_in_unlimited_number_take_limited_memory() {
    let options = StoreOptions {
        max_bytes: 1 << 20,
        ..StoreOptions::default()
    };
    let shared = MintOptions {
        leaf_key: LeafKey::Shared, // saves time in the test
        ..MintOptions::default()
    };
    let store = Arc::new(MemoryStore::new(options));
    let minter = Minter::new(ca(), store, shared).unwrap();
    let often = host("often.example");
    let first = minter.certificate(&often).await.unwrap();
    for number in 0..2000 {
        let rare = host(&format!("rare-{number}.example"));
        minter.certificate(&rare).await.unwrap();
        minter.certificate(&often).await.unwrap();
        if number % 100 == 0 {
            let stats = minter.stats();
            assert!(stats.bytes <= 1 << 20, "{stats:?}");
        }
    }
    let stats = minter.stats();
    assert!(stats.bytes <= 1 << 20 && stats.entries > 20, "{stats:?}");
    assert_eq!(stats.evicted, stats.generated - stats.entries, "{stats:?}");
    let last = minter.certificate(&often).await.unwrap();
    assert_eq!(first.serial, last.serial, "what is in use stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_are_made_at_a_time_and_no_more() {
    let options = StoreOptions {
        generations: 3,
        ..StoreOptions::default()
    };
    let spy = Spy::on(MemoryStore::new(options));
    let hold = spy.made.hold();
    let minter = Arc::new(minter(spy.clone()));
    let asking: Vec<_> = (0..60)
        .map(|number| {
            let minter = minter.clone();
            let name = host(&format!("host-{number}.example"));
            tokio::spawn(async move { minter.certificate(&name).await.unwrap() })
        })
        .collect();
    until(|| spy.made.now.load(SeqCst) == 3).await;
    drop(hold);
    for asked in asking {
        asked.await.unwrap();
    }
    assert_eq!(spy.made.most.load(SeqCst), 3);
    assert_eq!(spy.made.total(), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_too_much_is_told_so_at_once() {
    let options = || StoreOptions {
        generations: 1,
        waiting: 10,
        ..StoreOptions::default()
    };
    for spy in [
        Spy::on(MemoryStore::new(options())),
        Spy::on(NoStore::new(&options())),
    ] {
        let hold = spy.made.hold();
        let minter = Arc::new(minter(spy.clone()));
        let asking: Vec<_> = (0..40)
            .map(|number| {
                let minter = minter.clone();
                let name = host(&format!("host-{number}.example"));
                tokio::spawn(async move { minter.certificate(&name).await })
            })
            .collect();
        // One certificate is being created, ten callers wait.
        until(|| asking.iter().filter(|asked| asked.is_finished()).count() >= 29).await;
        drop(hold);
        let (mut given, mut refused) = (0, 0);
        for asked in asking {
            match asked.await.unwrap() {
                Ok(_) => given += 1,
                Err(StoreError::Overloaded { limit: 10, .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(
            given >= 10 && refused > 0,
            "{given} given, {refused} refused"
        );
        let stats = minter.stats();
        assert_eq!((stats.overloaded, stats.in_flight), (refused, 0));
        // Afterwards the store works normally.
        minter.certificate(&host("later.example")).await.unwrap();
    }
}
