//! A follower only reads: the leader publishes.

use std::sync::{Arc, Mutex};

use lucarne_log::{Log, State, SubmitError};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Lock};
use lucarne_testkit::{eventually, until};

use super::{Instance, Switchboard, follower_of_nobody, hand_over, troubled};
use crate::fixture::{Submission, World, audit, reached};

/// Creates a log with one published round, and a second round of one entry that is committed, but
/// not published.
async fn unpublished() -> World {
    let world = World::new().await;
    let log = world.run().await;
    Submission::number(0).to(&log).await.unwrap();
    world.assets.inject(|operation| {
        (operation == Operation::Publish).then(|| AssetError::Poisoned {
            location: "memory".into(),
            reason: "nothing is published".into(),
        })
    });
    Submission::number(1).to(&log).await.unwrap_err();
    let crashed = world.crashed().await;
    world.assets.heal();
    log.shutdown().await;
    let id = crashed.config.key.log_id().0;
    let note = crashed.lock.load(&id).await.unwrap().unwrap();
    let note = String::from_utf8(note).unwrap();
    assert_eq!(note.lines().nth(1), Some("2"), "{note}");
    crashed
}

fn size(log: &Log) -> u64 {
    log.published().map_or(0, |published| published.size)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_publishes_a_round_that_was_committed() {
    let world = unpublished().await;
    let written = Arc::new(Mutex::new(Vec::new()));
    let writing = written.clone();
    world.assets.inject(move |operation| {
        if !matches!(operation, Operation::Get | Operation::Staged) {
            writing.lock().unwrap().push(operation);
        }
        None
    });
    let (held, follower) = follower_of_nobody(&world).await;
    let log = &follower.log;
    assert_eq!(size(log), 1);
    assert_eq!(*written.lock().unwrap(), [Operation::Stage; 0]);
    hand_over(&held, &world).await;
    reached(log, |state| *state == State::Running).await;
    until("the round is published", || size(log) == 2).await;
    assert!(written.lock().unwrap().contains(&Operation::Publish));
    assert_eq!(audit(log).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_another_version_is_named_and_respected() {
    let world = World::new().await;
    // The ID of a lease is the inverted ID of its log.
    let id = world.config.key.log_id().0.map(|byte| !byte);
    let later = b"lucarne lease 2\n";
    world.lock.create(&id, later).await.unwrap();
    let instance = Instance::start(&world, &Switchboard::default(), "b:1");
    let log = &instance.log;
    troubled(log, "another version of Lucarne leads").await;
    let refused = Submission::number(0).to(log).await;
    let is_refused = matches!(refused, Err(SubmitError::Unavailable(_)));
    assert!(is_refused, "{refused:?}");
    assert_eq!(log.state(), State::Following { leader: None });
    let lease = world.lock.load(&id).await.unwrap();
    assert_eq!(lease.as_deref(), Some(&later[..]));
    // The lease of the other version is removed.
    world.lock.tamper(&id, None);
    reached(log, |state| *state == State::Running).await;
    eventually("all is well", async || log.health().await.ok()).await;
}
