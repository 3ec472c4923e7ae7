//! Ten thousand concurrent tasks, many of which are cancelled early.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lucarne_mint::store::{
    CertificateStore, DiskOptions, DiskStore, LayeredStore, LeafKey, MemoryStore, MintOptions,
    Minted, Minter, StoreOptions,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::support::{Spy, ca, host, until};

const TASKS: u64 = 10_000;

fn options() -> StoreOptions {
    StoreOptions {
        max_bytes: 1 << 30,
        waiting: 20_000,
        ..StoreOptions::default()
    }
}

/// Returns a pseudo-random number, the same in each run.
fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
}

/// Returns the number of open file descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Starts many tasks that request few hosts or many, and cancels a third of them at various times.
/// Then checks the created certificates and the remaining memory.
async fn stress(store: impl CertificateStore, hosts: u64) {
    let spy = Spy::on(store);
    let shared = MintOptions {
        leaf_key: LeafKey::Shared, // saves time in the test
        ..MintOptions::default()
    };
    let minter = Arc::new(Minter::new(ca(), spy.clone(), shared).unwrap());
    let kept = Arc::new(Mutex::new(Vec::<Weak<Minted>>::new()));
    // Until the first cancellation, no creation finishes. Thus at least one task is cancelled.
    let mut held = Some(spy.made.hold());
    let mut tasks = Vec::<JoinHandle<()>>::new();
    for number in 0..TASKS {
        let (minter, kept) = (minter.clone(), kept.clone());
        let task = tokio::spawn(async move {
            let name = host(&format!("host-{}.example", scatter(number) % hosts));
            let minted = minter.certificate(&name).await.unwrap();
            assert!(minted.not_after > std::time::SystemTime::now());
            kept.lock().push(Arc::downgrade(&minted));
        });
        if number % 3 == 0 {
            let abort = task.abort_handle();
            let after = Duration::from_micros(scatter(!number) % 20_000);
            tokio::spawn(async move {
                // The task is cancelled at any time: every outcome is correct.
                tokio::time::sleep(after).await;
                abort.abort();
            });
        }
        tasks.push(task);
        if number % 100 == 0 {
            tokio::task::yield_now().await;
            held.take_if(|_| tasks.iter().any(JoinHandle::is_finished));
        }
    }
    until(|| tasks.iter().any(JoinHandle::is_finished)).await;
    drop(held);
    let mut cancelled = 0;
    for task in tasks {
        match task.await {
            Ok(()) => (),
            Err(error) if error.is_cancelled() => cancelled += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(cancelled > 0, "some left");
    until(|| minter.stats().in_flight == 0).await;

    let each = spy.made.each();
    assert!(each.iter().all(|&times| times == 1), "each key once");
    let stats = minter.stats();
    assert_eq!(stats.generated as usize, each.len());
    assert_eq!(
        (stats.errors, stats.disk_errors, stats.overloaded),
        (0, 0, 0)
    );
    assert_eq!(stats.entries, stats.generated, "all of them are kept");

    // Only the store has a reference to a certificate, and only the minter to the store.
    let given = kept.lock().clone();
    assert!(given.iter().all(|minted| minted.strong_count() == 1));
    assert_eq!(Arc::strong_count(&minter), 1);
    drop(minter);
    assert_eq!(Arc::strong_count(&spy), 1);
    drop(spy);
    let gone = || given.iter().all(|minted| minted.strong_count() == 0);
    until(gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_hosts() {
    stress(MemoryStore::new(options()), 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_hosts() {
    stress(MemoryStore::new(options()), 5_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_disk() {
    let home = tempfile::tempdir().unwrap();
    let before = descriptors();
    let disk = DiskOptions {
        store: options(),
        ..DiskOptions::default()
    };
    let disk = DiskStore::open(&home.path().join("store"), disk).unwrap();
    stress(LayeredStore::new(options(), Arc::new(disk)), 300).await;
    // Other tests of this process have open descriptors as well.
    assert!(descriptors() < before + 100, "locks are let go of");
    let locks = std::fs::read_dir(home.path().join("store/locks")).unwrap();
    assert!(locks.count() <= 64);
}
