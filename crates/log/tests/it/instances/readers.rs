//! Readers behind a balancer: no instance denies a checkpoint that another has shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures_util::future::join_all;
use lucarne_log::ReadError;
use lucarne_storage::AssetError;
use lucarne_storage::memory::Operation;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};

use super::{Instance, Switchboard, leader, submitted, three};
use crate::fixture::{Submission, World, audit};
use crate::witnesses::{self, Two};

/// Returns the newest tile of a level of a tree.
fn newest_tile(level: Level, size: u64) -> Tile {
    Tile::widest(level, (size - 1) / TILE_WIDTH, size).unwrap()
}

/// Starts three instances, and returns the leader and the followers, which no longer poll the lock.
async fn stale_followers(world: &World) -> (Instance, Vec<Instance>) {
    let mut followers = three(world, &Switchboard::default()).await;
    let leader = leader(&mut followers);
    for follower in &followers {
        follower.gate.send_replace(false);
    }
    (leader, followers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_every_checkpoint_and_tile_that_the_leader_has_shown() {
    let world = World::new().await;
    let (leader, followers) = stale_followers(&world).await;
    for n in 0..20 {
        Submission::number(n).to(&leader.log).await.unwrap();
        let shown = leader.log.newest_published().await.unwrap();
        for (number, follower) in followers.iter().enumerate() {
            // One follower gets the request for the checkpoint first, the other those for tiles.
            if number == 0 {
                let newest = follower.log.newest_published().await.unwrap();
                let age = |head: &lucarne_log::Published| (head.size, head.timestamp_ms);
                assert!(age(&newest) >= age(&shown), "{newest:?} after {shown:?}");
            }
            for level in [Level::Data, Level::Hashes(0)] {
                let tile = newest_tile(level, shown.size);
                let read = follower.log.tile(tile).await.unwrap();
                assert!(read.is_some(), "{}", tile.path());
            }
        }
    }
    for follower in &followers {
        let names = newest_tile(Level::Data, 20);
        assert!(follower.log.names_tile(names).await.unwrap().is_some());
        follower.log.reach(20).await.unwrap();
        assert_eq!(audit(&follower.log).await.len(), 20);
        let beyond = Tile::new(Level::Data, 0, 21).unwrap();
        assert!(follower.log.tile(beyond).await.unwrap().is_none());
    }
}

/// A paused leader does not notice that another instance leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_replaced_shows_no_older_checkpoint() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let mut others = three(&world, &switchboard).await;
    let paused = leader(&mut others);
    paused.gate.send_replace(false);
    submitted(&others, 0..10).await;
    let shown = others[0].log.newest_published().await.unwrap();
    assert_eq!(shown.size, 10);
    let newest = paused.log.newest_published().await.unwrap();
    assert!(newest.timestamp_ms >= shown.timestamp_ms, "{newest:?}");
    let tile = newest_tile(Level::Data, shown.size);
    assert!(paused.log.tile(tile).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_cost_the_store_few_requests() {
    let world = World::new().await;
    let (leader, followers) = stale_followers(&world).await;
    let (log, read) = (&followers[0].log, Arc::new(AtomicUsize::new(0)));
    let counted = read.clone();
    world.assets.inject(move |operation| {
        counted.fetch_add(usize::from(operation == Operation::Get), SeqCst);
        None
    });
    // The first reader reads at once, and all others share the second read.
    join_all((0..1000).map(|_| log.newest_published())).await;
    let reads = read.load(SeqCst);
    assert!((1..=3).contains(&reads), "{reads} reads");
    // The leader knows its checkpoint.
    Submission::number(0).to(&leader.log).await.unwrap();
    let before = read.load(SeqCst);
    join_all((0..1000).map(|_| leader.log.newest_published())).await;
    let reads = read.load(SeqCst) - before;
    assert!(reads <= 3, "{reads} reads of the leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_respond_is_no_404() {
    let world = World::new().await;
    let (leader, followers) = stale_followers(&world).await;
    let log = &followers[0].log;
    let seen = log.newest_published().await.unwrap();
    Submission::number(0).to(&leader.log).await.unwrap();
    world.assets.inject(|operation| {
        (operation == Operation::Get).then(|| AssetError::Unavailable {
            action: "read",
            place: "memory".into(),
            detail: "down".into(),
        })
    });
    let newest = log.newest_published().await.unwrap();
    assert!(newest.timestamp_ms >= seen.timestamp_ms);
    let read = log.tile(Tile::new(Level::Data, 0, 1).unwrap()).await;
    assert!(matches!(read, Err(ReadError::Unavailable(_))), "{read:?}");
    world.assets.heal();
    let read = log.tile(Tile::new(Level::Data, 0, 1).unwrap()).await;
    assert!(read.unwrap().is_some());
}

/// The leader publishes cosignatures without a change of the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_the_cosignatures_that_the_leader_has_shown() {
    let two = Two::honest();
    let world = witnesses::with(&["good"], &two).await;
    let (leader, followers) = stale_followers(&world).await;
    Submission::number(0).to(&leader.log).await.unwrap();
    witnesses::cosigned(&world).await;
    let shown = leader.log.newest_published().await.unwrap();
    let age = |it: &lucarne_log::Published| (it.size, it.timestamp_ms, it.checkpoint.len());
    for follower in &followers {
        let newest = follower.log.newest_published().await.unwrap();
        assert!(age(&newest) >= age(&shown), "{newest:?} after {shown:?}");
    }
    // Only the leader requests cosignatures, and none of the instances reports a problem.
    let leaders: Vec<_> = two.requests("good");
    assert!(!leaders.is_empty());
    for instance in followers.iter().chain([&leader]) {
        assert_eq!(instance.log.witnesses()[0].problem, None);
    }
}
