//! Single flight: shared work, shared errors, cancelled callers.

use std::sync::Arc;
use std::time::Duration;

use lucarne_mint::store::{Host, MemoryStore, StoreError, StoreOptions};

use super::support::{Failure, Spy, host, minter, until};

const RT: &str = "a runtime";

fn spy() -> Arc<Spy> {
    Spy::on(MemoryStore::new(StoreOptions::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_ask_at_a_time_get_one_certificate() {
    let spy = spy();
    let minter = Arc::new(minter(spy.clone()));
    let asking: Vec<_> = (0..1000)
        .map(|_| {
            let minter = minter.clone();
            tokio::spawn(async move { minter.certificate(&host("one.example")).await.unwrap() })
        })
        .collect();
    let first = minter.certificate(&host("one.example")).await.unwrap();
    for other in asking {
        assert!(Arc::ptr_eq(&first, &other.await.expect(RT)));
    }
    assert_eq!(spy.made.total(), 1);
    let stats = minter.stats();
    assert_eq!((stats.generated, stats.misses), (1, 1));
    assert_eq!(stats.hits + stats.coalesced, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_told_to_all_and_not_kept() {
    let spy = spy();
    let hold = spy.made.hold();
    *spy.made.fails.lock() = Some(Failure::Error);
    let minter = Arc::new(minter(spy.clone()));
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let minter = minter.clone();
            tokio::spawn(async move { minter.certificate(&host("one.example")).await })
        })
        .collect();
    until(|| minter.stats().coalesced == 49).await;
    drop(hold);
    let mut sources = Vec::new();
    for asked in asking {
        match asked.await.expect(RT) {
            Err(StoreError::Generate { source, .. }) => sources.push(source),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(spy.made.total(), 1, "one attempt for all");
    assert!(
        sources
            .iter()
            .all(|source| Arc::ptr_eq(source, &sources[0]))
    );
    *spy.made.fails.lock() = None;
    minter.certificate(&host("one.example")).await.unwrap();
    let stats = minter.stats();
    assert_eq!((stats.errors, stats.generated, stats.in_flight), (1, 1, 0));
}

#[tokio::test]
async fn a_generator_that_panics_harms_nobody_else() {
    let spy = spy();
    *spy.made.fails.lock() = Some(Failure::Panic);
    let minter = minter(spy.clone());
    let cut_short = minter.certificate(&host("one.example")).await;
    assert!(
        matches!(cut_short, Err(StoreError::Abandoned { .. })),
        "{cut_short:?}"
    );
    *spy.made.fails.lock() = None;
    minter.certificate(&host("one.example")).await.unwrap();
    assert_eq!(minter.stats().in_flight, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_cancels_nothing() {
    let spy = spy();
    let minter = Arc::new(minter(spy.clone()));
    let asked_and_left = async |name: &Host| {
        let _hold = spy.made.hold();
        let asking = minter.certificate(name);
        // Even if the timeout is noticed late, nothing has been created.
        let left = tokio::time::timeout(Duration::from_millis(10), asking).await;
        assert!(left.is_err());
    };
    let name = host("one.example");
    asked_and_left(&name).await;
    // Another caller receives the result that the first one started.
    minter.certificate(&name).await.unwrap();
    assert_eq!(spy.made.total(), 1);

    // The certificate is also created without any waiting caller.
    let name = host("two.example");
    asked_and_left(&name).await;
    until(|| minter.stats().generated == 2 && minter.stats().in_flight == 0).await;
    minter.certificate(&name).await.unwrap();
    assert_eq!(spy.made.total(), 2);
}
