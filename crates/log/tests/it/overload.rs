//! A full pool refuses, fairly, and says when to come back.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fixture::{Submission, World, audit, old_ones, spawn};
use lucarne_ct::EntryKind;
use lucarne_log::{Log, SubmitError};
use lucarne_mint::testing::Pki;

/// A round that takes for ever, so that the pool fills.
async fn slow(pool_size: usize) -> (World, Arc<Log>, Submission) {
    let mut world = World::new().await;
    world.config.pool_size = pool_size;
    world.config.period = Duration::from_secs(3);
    let log = world.run().await;
    let logged = Submission::number(0);
    logged.to(&log).await.unwrap();
    (world, log, logged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_refuses_and_still_answers_duplicates() {
    let (_world, log, logged) = slow(16).await;
    let waiting: Vec<_> = (1..=14).map(Submission::number).collect();
    let first: Vec<_> = waiting.iter().map(|one| spawn(&log, one.clone())).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let refused = Submission::number(99).to(&log).await.unwrap_err();
    let SubmitError::Full {
        retry_after_seconds,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert!((1..=60).contains(&retry_after_seconds));
    // In the pool already, and in the log already: neither needs room.
    let in_pool = spawn(&log, waiting[5].clone());
    assert_eq!(logged.to(&log).await.unwrap().index().unwrap(), 0);
    for task in first {
        task.await.unwrap().unwrap();
    }
    in_pool.await.unwrap().unwrap();
    assert_eq!(audit(&log).await.len(), 15);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_leaves_room_for_others() {
    let (_world, log, _) = slow(16).await;
    let backfill: Vec<_> = (1..40)
        .map(|n| spawn(&log, Submission::number(n)))
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pki = Pki::shared();
    let chain = pki.certificate(&pki.p384, "fresh.example").unwrap();
    let fresh = Submission {
        kind: EntryKind::X509,
        ders: chain.into_certificates(),
    };
    spawn(&log, fresh).await.unwrap().unwrap();
    let mut refused = 0;
    for task in backfill {
        refused += usize::from(task.await.unwrap().is_err());
    }
    assert!(refused >= 24, "{refused}");
    log.shutdown().await;
}

/// Of what there was no room for, nothing stays behind that a later submission could be
/// taken for.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_is_logged_once_when_he_comes_again() {
    let (_world, log, _) = slow(16).await;
    // More than two rounds have room for, as one may be sealed while they come.
    let all: Vec<_> = (1..=34).map(Submission::number).collect();
    let mut places = std::collections::BTreeSet::new();
    let mut left = all.clone();
    let mut waves = 0;
    while !left.is_empty() {
        let tasks: Vec<_> = left.iter().map(|one| spawn(&log, one.clone())).collect();
        let mut refused = Vec::new();
        for (task, submission) in tasks.into_iter().zip(left) {
            match task.await.unwrap() {
                Ok(index) => assert!(places.insert(index)),
                Err(SubmitError::Full { .. }) => refused.push(submission),
                Err(other) => panic!("{other}"),
            }
        }
        left = refused;
        waves += 1;
    }
    assert!(waves > 1, "none was refused");
    assert_eq!(places.len(), all.len());
    assert_eq!(audit(&log).await.len(), all.len() + 1);
    log.shutdown().await;
}

/// Of one CA: what was just issued has room, and is in the next round, whatever else it posts.
#[tokio::test(flavor = "multi_thread")]
async fn old_certificates_take_no_room_from_fresh_ones() {
    let (_world, log, _) = slow(16).await;
    let old: Vec<_> = (0..40).map(|n| spawn(&log, Submission::old(n))).collect();
    // Those that have no room are told at once: when they are, the others wait.
    while old.iter().filter(|task| task.is_finished()).count() < 32 {
        // The pace of looking.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let fresh: Vec<_> = (1..=8)
        .map(|n| spawn(&log, Submission::number(n)))
        .collect();
    for task in fresh {
        task.await.unwrap().unwrap();
    }
    let (taken, refused) = old_ones(old).await;
    // A round may have been sealed while they came.
    assert!(
        (1..=8).contains(&taken) && refused >= 32,
        "{taken}, {refused}"
    );
    assert_eq!(audit(&log).await.len(), taken + 9);
    log.shutdown().await;
}

/// The log's clock tells what is old, and not the machine's.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_is_told_by_the_logs_clock() {
    let mut world = World::new().await;
    // Its rate lets one old certificate in, and no second one for a while.
    world.config.lanes.old_rate = std::num::NonZeroU32::new(1);
    world.config.period = Duration::from_millis(5);
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
    // What it has is answered whatever the rate.
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
