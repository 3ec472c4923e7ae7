//! A full pool refuses, fairly, and says when to come back.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{Submission, World, audit};
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

fn spawn(
    log: &Arc<Log>,
    submission: Submission,
) -> tokio::task::JoinHandle<Result<u64, SubmitError>> {
    let log = log.clone();
    tokio::spawn(async move { Ok(submission.to(&log).await?.index().unwrap()) })
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
