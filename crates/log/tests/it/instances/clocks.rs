//! An instance with a wrong clock does not take the lead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use lucarne_log::{Clock, State};
use lucarne_storage::{Lease, StoreDate};
use lucarne_testkit::{eventually, until};

use super::{Instance, Switchboard, follows, settled, trouble, troubled, untroubled};
use crate::fixture::{Submission, World, persistently, reached};

const AHEAD_MS: u64 = 14 * 60_000;

/// Starts an instance whose clock is ahead by `skew_ms`.
fn skewed(
    world: &World,
    switchboard: &Switchboard,
    name: &str,
    skew_ms: &Arc<AtomicU64>,
) -> Instance {
    let (system, skew_ms) = (Clock::system(), skew_ms.clone());
    Instance::start_with(world, switchboard, name, |config| {
        config.clock = Clock::new(move || system.now_ms() + skew_ms.load(SeqCst));
    })
}

async fn epoch(world: &World) -> u64 {
    let id = world.config.key.log_id().0;
    Lease::load(&*world.lock, &id).await.unwrap().unwrap().epoch
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_with_a_fast_clock_do_not_replace_the_right_one() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let right = Instance::start(&world, &switchboard, "a:1");
    until("it leads", || right.leads()).await;
    let skew = Arc::new(AtomicU64::new(AHEAD_MS));
    let wrong = ["b:1", "c:1"].map(|name| skewed(&world, &switchboard, name, &skew));
    for instance in &wrong {
        let log = &instance.log;
        reached(log, follows).await;
        let mut n = 0;
        eventually("its clock is named", async || {
            // Each round is another sign of the leader's clock.
            persistently(&right.log, &Submission::number(n)).await;
            n += 1;
            let said = trouble(log).await.unwrap_or_default();
            said.contains("ahead of the clock of the leading instance")
        })
        .await;
    }
    let (before, signed_ms) = (
        epoch(&world).await,
        right.log.published().unwrap().timestamp_ms,
    );
    right.kill();
    for instance in &wrong {
        reached(&instance.log, |state| {
            *state == State::Following { leader: None }
        })
        .await;
    }
    // The right clock returns.
    let right = Instance::start(&world, &switchboard, "d:1");
    until("the right clock leads", || right.leads()).await;
    assert_eq!(
        epoch(&world).await,
        before + 1,
        "a wrong clock had the lease"
    );
    let published = right.log.published().unwrap();
    assert!(
        published.timestamp_ms < signed_ms + AHEAD_MS / 2,
        "{published:?}"
    );
    // The clocks are corrected.
    skew.store(0, SeqCst);
    let [b, c] = wrong;
    let all = [right, b, c];
    settled(&all).await;
    for instance in &all {
        untroubled(&instance.log).await;
    }
}

/// Sets the clock of the store.
fn store_is(world: &World, unix_ms: u64) {
    use lucarne_storage::Assets;
    let at = Instant::now();
    world.assets.stats().set_date(StoreDate { unix_ms, at });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_store_stops_an_instance_that_is_alone() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    store_is(&world, Clock::system().now_ms());
    let skew = Arc::new(AtomicU64::new(AHEAD_MS));
    let instance = skewed(&world, &switchboard, "a:1", &skew);
    let log = &instance.log;
    troubled(log, "ahead of the clock of memory").await;
    assert_eq!(log.state(), State::Following { leader: None });
    skew.store(0, SeqCst);
    reached(log, |state| *state == State::Running).await;
    untroubled(log).await;
}

/// Storage and lock may have clocks of their own.
#[tokio::test(flavor = "multi_thread")]
async fn the_clocks_of_storage_and_lock_stop_the_start_and_the_jump_of_a_single_log() {
    for of_lock in [false, true] {
        let world = World::new().await;
        let jumps = || {
            let (unix_ms, at) = (Clock::system().now_ms(), Instant::now());
            if of_lock {
                world.lock.set_date(StoreDate { unix_ms, at });
            } else {
                store_is(&world, unix_ms);
            }
            world.skew_ms.store(AHEAD_MS, SeqCst);
        };
        let ahead = |state: &State| match state {
            State::Stopped { reason, .. } => reason.contains("ahead of the clock of memory"),
            _ => false,
        };
        jumps();
        let log = world.start();
        reached(&log, ahead).await;
        world.skew_ms.store(0, SeqCst);
        reached(&log, |state| *state == State::Running).await;
        jumps();
        reached(&log, ahead).await;
        world.skew_ms.store(0, SeqCst);
        reached(&log, |state| *state == State::Running).await;
        log.shutdown().await;
    }
}
