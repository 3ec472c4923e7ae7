//! A log that another process still runs, and then hands over.

use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::Roots;
use lucarne_log::{Log, Metrics, State, SubmitError, Turn};
use lucarne_mint::testing::Pki;
use lucarne_storage::ReadAssets;
use lucarne_testkit::in_time;
use prometheus_client::registry::Registry;

use crate::fixture::{Submission, World, audit, submit_all};

/// Starts the log in the next process, here with a separate index, because the first process closes
/// its index only with its log.
fn next(world: &World, turn: Turn) -> Arc<Log> {
    let (roots, _) = Roots::from_pem(Pki::shared().roots_pem().as_bytes());
    let mut config = world.config.clone();
    config.cache = world.cache.path().join("next");
    let assets = ReadAssets::uncached(Arc::new(world.assets.clone()));
    let places = (assets, world.lock.clone() as _);
    let metrics = Metrics::register(&mut Registry::default());
    Log::start_in_turn(config, roots, places, &metrics, turn)
}

#[tokio::test(flavor = "multi_thread")]
async fn until_its_turn_a_log_follows_and_signs_nothing() {
    let world = World::new().await;
    let old = world.run().await;
    let (give, turn) = Turn::later();
    let new = next(&world, turn);
    let submissions: Vec<_> = (0..20).map(Submission::number).collect();
    for (number, submission) in submissions.iter().enumerate() {
        submission.to(&old).await.unwrap();
        let published = old.published().unwrap();
        // A client of the first process sees at least the same tree here.
        new.follow().await;
        let followed = new.published().unwrap();
        assert!(followed.timestamp_ms >= published.timestamp_ms);
        assert_eq!(followed.size, number as u64 + 1);
    }
    let early = Submission::number(100).to(&new).await;
    assert!(
        matches!(early, Err(SubmitError::Unavailable(_))),
        "{early:?}"
    );
    assert!(new.is_starting() && new.state() == State::Starting);
    // The test does not detect a start after this timeout, on a busy machine.
    let waiting = tokio::time::timeout(Duration::from_millis(50), new.started()).await;
    assert!(waiting.is_err());
    old.shutdown().await;
    old.let_go().await.unwrap();
    let last = old.published().unwrap();
    give.give();
    new.started().await;
    assert_eq!(new.state(), State::Running);
    assert!(new.published().unwrap().timestamp_ms >= last.timestamp_ms);
    submit_all(&new, &[Submission::number(100), submissions[3].clone()]).await;
    assert_eq!(audit(&new).await.len(), 21, "the duplicate is known");
    new.shutdown().await;
}

/// A log whose turn never comes can be closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_waits_for_its_turn_can_be_closed() {
    let world = World::new().await;
    let (_give, turn) = Turn::later();
    let log = next(&world, turn);
    in_time("the log is closed", log.shutdown()).await;
    assert_eq!(log.state(), State::Closed);
    assert!(!log.is_starting(), "nobody waits for it any more");
}

/// The other process dies after it has published. On the runtime of this test, no task of the log
/// runs between the turn and the first read.
#[tokio::test]
async fn the_first_read_after_the_turn_sees_the_last_checkpoint_of_the_other_process() {
    let world = World::new().await;
    let old = world.run().await;
    let (give, turn) = Turn::later();
    let new = next(&world, turn);
    new.follow().await;
    submit_all(&old, &[Submission::number(0)]).await;
    old.shutdown().await;
    old.let_go().await.unwrap();
    give.give();
    new.follow().await;
    assert_eq!(new.published().unwrap().size, 1);
    new.shutdown().await;
}
