//! The checkpoint that the first reader of a start sees.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{Fatal, KnownCheckpoints, KnownError, Log, SourceResponse, State};
use lucarne_storage::{Assets, MemoryAssets, MemoryLock};
use lucarne_testkit::in_time;

use crate::fixture::{Submission, World, reached, submit_all};

/// An external source that has this checkpoint.
#[derive(Debug)]
struct Mirror(Bytes);

#[async_trait]
impl KnownCheckpoints for Mirror {
    async fn ask(&self) -> Vec<SourceResponse> {
        vec![SourceResponse {
            place: "mirror".into(),
            note: Ok(self.0.clone()),
        }]
    }
}

async fn checkpoint(world: &World) -> Bytes {
    world.assets.get("checkpoint").await.unwrap().unwrap()
}

/// Returns a stopped log with ten entries in its lock and journal, and the checkpoint of one entry.
/// The log was not settled.
async fn killed() -> (World, Bytes) {
    let world = World::new().await;
    let log = world.run().await;
    submit_all(&log, &[Submission::number(0)]).await;
    let first = checkpoint(&world).await;
    let submissions: Vec<_> = (1..10).map(Submission::number).collect();
    submit_all(&log, &submissions).await;
    let killed = world.crashed().await;
    log.shutdown().await;
    (killed, first)
}

/// A power cut can undo the publication of a checkpoint that clients have seen.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_read_sees_the_tree_of_the_lock() {
    let (world, first) = killed().await;
    world.assets.tamper("checkpoint", Some(first));
    let log = world.start();
    log.follow().await;
    assert_eq!(log.published().unwrap().size, 10);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_checkpoint_is_read_while_the_lock_fails() {
    let (world, _) = killed().await;
    world.lock.fail(Some("unplugged"));
    let log = world.start();
    in_time("readers see a checkpoint", log.follow()).await;
    assert_eq!(log.published().unwrap().size, 10);
    log.shutdown().await;
}

/// Readers would see the log shrink.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_mirror_contradicts_shows_and_writes_no_checkpoint() {
    let (world, first) = killed().await;
    let (newer, mut older) = (checkpoint(&world).await, World::new().await);
    older.config.known = Some(Arc::new(Mirror(newer)));
    older.assets.tamper("checkpoint", None);
    let log = older.start();
    log.follow().await;
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        unreachable!();
    };
    assert!(reason.contains("(known_checkpoint_newer)"), "{reason}");
    assert!(log.published().is_none());
    let written = older.assets.get("checkpoint").await.unwrap();
    assert_eq!(written, None);
    log.shutdown().await;

    let known = Some(Arc::new(Mirror(first)) as _);
    let (assets, lock) = (MemoryAssets::new(), MemoryLock::new());
    let mut config = World::new().await.config.clone();
    config.known = known;
    let created = Log::create(&config, &assets, &lock).await;
    let refused = matches!(
        created,
        Err(Fatal::Known(KnownError::Newer {
            known: 1,
            here: 0,
            ..
        }))
    );
    assert!(refused, "{created:?}");
    assert!(assets.paths().is_empty());
}
