//! A full pool rejects submissions fairly, with a Retry-After.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{Submission, UnderWay, World, audit, old_ones, spawn};
use lucarne_ct::EntryKind;
use lucarne_log::{Log, SubmitError};
use lucarne_mint::testing::Pki;
use lucarne_storage::memory::Operation;
use lucarne_testkit::{block_until, until};

/// Capacity of the pool in entries.
const POOL: usize = 16;

/// A log with one entry, whose store blocks the next round until the test releases it. New
/// submissions wait in the pool, or are rejected.
struct Held {
    world: World,
    log: Arc<Log>,
    /// The submission of the first entry.
    logged: Submission,
    /// The entry of the blocked round.
    plug: UnderWay,
    held: Arc<AtomicBool>,
}

impl Held {
    async fn start() -> Held {
        let mut world = World::new().await;
        world.config.rounds.pool_size = POOL;
        // No other round is written in this time.
        world.config.rounds.max_checkpoint_age = Duration::from_secs(3600);
        let log = world.run().await;
        let logged = Submission::number(0);
        logged.to(&log).await.unwrap();
        let held = Arc::new(AtomicBool::new(true));
        let reached = Arc::new(AtomicBool::new(false));
        let (still, reaches) = (held.clone(), reached.clone());
        world.assets.inject(move |operation| {
            if operation == Operation::Stage && still.load(Ordering::SeqCst) {
                reaches.store(true, Ordering::SeqCst);
                let lets_go = || !still.load(Ordering::SeqCst);
                tokio::task::block_in_place(|| block_until("the test lets go", lets_go));
            }
            None
        });
        let plug = spawn(&log, Submission::number(1000));
        until("a round is written", || reached.load(Ordering::SeqCst)).await;
        Held {
            world,
            log,
            logged,
            plug,
            held,
        }
    }

    /// Submits these chains, and waits until each chain is in the pool or rejected.
    async fn submit(&self, submissions: impl IntoIterator<Item = Submission>) -> Vec<UnderWay> {
        let before = self.log.stats().pool_depth;
        let spawn = |submission| spawn(&self.log, submission);
        let tasks: Vec<UnderWay> = submissions.into_iter().map(spawn).collect();
        until("each waits or is refused", || {
            let refused = tasks.iter().filter(|task| task.is_finished()).count();
            self.log.stats().pool_depth + refused == before + tasks.len()
        })
        .await;
        tasks
    }

    /// Unblocks the store, and returns the log, which has two entries.
    async fn release(self) -> (World, Arc<Log>) {
        self.held.store(false, Ordering::SeqCst);
        assert_eq!(self.plug.await.unwrap().unwrap(), 1);
        (self.world, self.log)
    }
}

/// Returns the indexes of the logged entries in ascending order, and the number of rejected ones.
async fn outcomes(tasks: Vec<UnderWay>) -> (Vec<u64>, usize) {
    let (mut logged, mut refused) = (Vec::new(), 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(index) => logged.push(index),
            Err(SubmitError::Full { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    logged.sort_unstable();
    (logged, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_refuses_and_still_answers_duplicates() {
    let held = Held::start().await;
    let waiting: Vec<_> = (1..=14).map(Submission::number).collect();
    let first = held.submit(waiting.clone()).await;
    let refused = Submission::number(99).to(&held.log).await.unwrap_err();
    let SubmitError::Full {
        retry_after_seconds,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert!((1..=60).contains(&retry_after_seconds));
    // Duplicates in the pool and in the log need no room.
    let in_pool = spawn(&held.log, waiting[5].clone());
    let logged = held.logged.to(&held.log).await.unwrap();
    assert_eq!(logged.index().unwrap(), 0);
    let (_world, log) = held.release().await;
    assert_eq!(outcomes(first).await, ((2..16).collect(), 0));
    in_pool.await.unwrap().unwrap();
    assert_eq!(audit(&log).await.len(), 16);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_leaves_room_for_others() {
    let held = Held::start().await;
    let backfill = held.submit((1..40).map(Submission::number)).await;
    let pki = Pki::shared();
    let chain = pki.certificate(&pki.p384, "fresh.example").unwrap();
    let fresh = Submission {
        kind: EntryKind::X509,
        ders: chain.into_certificates(),
    };
    let fresh = held.submit([fresh]).await;
    let (_world, log) = held.release().await;
    // An eighth of the pool is for other CAs.
    assert_eq!(outcomes(backfill).await, ((2..16).collect(), 25));
    assert_eq!(outcomes(fresh).await, (vec![16], 0));
    log.shutdown().await;
}

/// A rejected submission leaves no state behind: a later submission of the same chain is logged
/// exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_is_logged_once_when_he_comes_again() {
    let held = Held::start().await;
    let all: Vec<_> = (1..=34).map(Submission::number).collect();
    let tasks = held.submit(all.clone()).await;
    let (_world, log) = held.release().await;
    let (mut places, refused) = outcomes(tasks).await;
    assert_eq!(refused, 20);
    // All submissions are repeated, including the logged ones.
    while places.len() < all.len() {
        let again = all.iter().map(|one| spawn(&log, one.clone())).collect();
        (places, _) = outcomes(again).await;
    }
    assert_eq!(places, (2..36).collect::<Vec<_>>());
    assert_eq!(audit(&log).await.len(), all.len() + 2);
    log.shutdown().await;
}

/// Newly issued certificates of a CA have room, and are in the next round, regardless of the CA's
/// other submissions.
#[tokio::test(flavor = "multi_thread")]
async fn old_certificates_take_no_room_from_fresh_ones() {
    let held = Held::start().await;
    let old = held.submit((0..40).map(Submission::old)).await;
    let fresh = held.submit((1..=8).map(Submission::number)).await;
    let (_world, log) = held.release().await;
    assert_eq!(outcomes(fresh).await, ((2..10).collect(), 0));
    let (taken, refused) = old_ones(old).await;
    // A quarter of the pool is for old entries.
    assert_eq!((taken, refused), (4, 36));
    assert_eq!(audit(&log).await.len(), taken + 10);
    log.shutdown().await;
}

/// The age of certificates depends on the clock of the log, not on the clock of the machine.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_is_told_by_the_logs_clock() {
    let mut world = World::new().await;
    // The rate allows one old certificate, and no second one for a while.
    world.config.rounds.lanes.old_rate = std::num::NonZeroU32::new(1);
    world.config.rounds.period = Duration::from_millis(5);
    let day = 24 * 3600 * 1000;
    world.skew_ms.store(2 * day, Ordering::SeqCst);
    world.config.clock = world.config.clock.clone().confirmed();
    let log = world.run().await;
    let all: Vec<_> = (0..20).map(Submission::number).collect();
    let tasks: Vec<_> = all.iter().map(|one| spawn(&log, one.clone())).collect();
    let mut refused = 0;
    for task in tasks {
        refused += usize::from(task.await.unwrap().is_err());
    }
    assert!(refused > 0, "all are old for this clock");
    // Duplicates get a response regardless of the rate.
    let known = audit(&log).await.len();
    assert_eq!(known, all.len() - refused);
    let again: Vec<_> = all.iter().map(|one| spawn(&log, one.clone())).collect();
    let mut answered = 0;
    for task in again {
        answered += usize::from(task.await.unwrap().is_ok());
    }
    assert!(answered >= known, "{answered} of {known}");
    log.shutdown().await;
}
