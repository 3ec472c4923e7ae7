//! The memory of the proxy is bounded. This test measures its own process, so its binary has no
//! other test.
#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::Setup;
use common::client;
use common::origin::Origin;
use lucarne_mint::store::{MemoryStore, StoreOptions};
use lucarne_testkit::until;

#[tokio::test]
async fn hosts_without_end_take_no_memory() {
    const BOUND: u64 = 1 << 20;
    let mut setup = Setup::new();
    setup.limits.hosts = 100;
    setup.limits.idle_connections = 10;
    setup.store = Arc::new(MemoryStore::new(StoreOptions {
        max_bytes: BOUND,
        ..StoreOptions::default()
    }));
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    let target = origin.address.to_string();
    let many = async |round: usize, count: usize| {
        for n in 0..count {
            let name = format!("h{n}-{round}.example");
            let answer = client::tls(&rig, &rig.ca, &target, &name, &["http/1.1"]).await;
            drop(answer.unwrap());
        }
    };
    let rss = || lucarne_testkit::usage(std::process::id()).unwrap().rss;
    // The first connections fill the store and the other bounded buffers.
    many(0, 500).await;
    let before = rss();
    many(1, 1500).await;
    let grown = rss().saturating_sub(before);
    let stats = rig.proxy.store_stats();
    assert!(stats.generated >= 2000, "{stats:?}");
    until("the store is within its bound", || {
        rig.proxy.store_stats().bytes <= BOUND
    })
    .await;
    assert_eq!(rig.proxy.hosts().len(), 100);
    assert!(
        grown < 12 << 20,
        "{} kB more after 1500 hosts more",
        grown >> 10
    );
}
