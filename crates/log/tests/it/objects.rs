//! A log whose files are objects in a bucket, on a real server.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{Submission, World, audit, persistently, place, reached, submit_all};
use lucarne_log::{Log, State};
use lucarne_storage::conformance::s3_config;
use lucarne_storage::{Assets, MemoryLock, ObjectAssets, ObjectStoreConfig};

/// A log in its own bucket.
struct InBucket {
    world: World,
    bucket: lucarne_testkit::Bucket,
}

impl InBucket {
    async fn new() -> Self {
        let bucket = lucarne_testkit::Bucket::versitygw().await.unwrap();
        let mut world = World::new().await;
        world.config.rounds.period = Duration::from_millis(50);
        world.lock = Arc::new(MemoryLock::new());
        let in_bucket = Self { world, bucket };
        let assets = in_bucket.open().await;
        Log::create(&in_bucket.world.config, &*assets, &*in_bucket.world.lock)
            .await
            .unwrap();
        in_bucket
    }

    fn config(&self) -> ObjectStoreConfig {
        let store = &self.bucket.store;
        let mut config = s3_config(
            &store.endpoint,
            store.region,
            [store.access_key, store.secret_key],
            &self.bucket.name,
            "2026h1/",
        );
        config.policy.request = Duration::from_secs(2);
        config.policy.retrying = Duration::from_secs(1);
        config
    }

    async fn open(&self) -> Arc<ObjectAssets> {
        Arc::new(ObjectAssets::open(&self.config()).await.unwrap())
    }

    async fn run(&self) -> (Arc<Log>, Arc<ObjectAssets>) {
        let assets = self.open().await;
        let log = self.world.start_on(assets.clone());
        reached(&log, |state| *state == State::Running).await;
        (log, assets)
    }

    fn signal(&self, signal: &str) {
        let pid = self.bucket.store.server.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

fn submissions(count: usize) -> Vec<Submission> {
    (0..count).map(Submission::number).collect()
}

/// The tests of this file stop their store, so they must not run concurrently.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn a_log_lives_in_a_bucket() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (log, assets) = place_of.run().await;
    let submissions = submissions(600);
    let first = submit_all(&log, &submissions[..300]).await;
    let second = submit_all(&log, &submissions[300..]).await;
    assert_eq!(audit(&log).await.len(), 600);
    log.shutdown().await;
    let stats = assets.stats();
    println!(
        "600 entries in two bursts, from opening to closing: {} requests, {} of them hedges",
        stats.requests(),
        stats.hedges()
    );
    let (log, assets) = place_of.run().await;
    assert!(assets.staged().await.unwrap().is_empty(), "all is settled");
    assert!(assets.partials("tile/0/000").await.unwrap().is_empty());
    let again = submit_all(&log, &submissions).await;
    for (before, after) in first.iter().chain(&second).zip(&again) {
        assert_eq!(place(before), place(after));
    }
    assert_eq!(audit(&log).await.len(), 600);
    log.shutdown().await;
}

/// The data that a restart reads does not grow with the log's uptime.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_that_are_published_do_not_stay_staged() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (log, _) = place_of.run().await;
    let looking = place_of.open().await;
    let mut supply = 0..;
    let mut left = 0;
    for _ in 0..8 {
        for n in supply.by_ref().take(20) {
            persistently(&log, &Submission::number(n)).await;
        }
        left = looking.staged().await.unwrap().len();
    }
    // A truncation of the journal may be in progress, and there are rounds after the last one.
    assert!(left <= 40, "{left} rounds are staged");
    log.shutdown().await;
}

/// Two machines have a copy of the lock each. One of them reports this at its next checkpoint, and
/// stops signing.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_locks_on_one_bucket_one_stops() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (first, _) = place_of.run().await;
    submit_all(&first, &submissions(20)).await;
    let other = place_of.world.crashed().await;
    let second = other.start_on(place_of.open().await);
    let is_refused = |log: &Log| match log.state() {
        // The reason depends on whether the log has restarted in between.
        State::Stopped { reason, .. } => {
            reason.contains("is not the checkpoint that this log published last")
                || reason.contains("would sign a fork")
        }
        _ => false,
    };
    let mut fresh = 100..;
    let mut refused = false;
    for n in fresh.by_ref().take(200) {
        // The entries differ, so the two logs sign different trees.
        let _ = Submission::number(n).to(&first).await;
        let _ = Submission::number(1000 + n).to(&second).await;
        refused = is_refused(&first) || is_refused(&second);
        if refused {
            break;
        }
    }
    assert!(refused, "{:?}, {:?}", first.state(), second.state());
    let [lost, won] = if is_refused(&first) {
        [&first, &second]
    } else {
        [&second, &first]
    };
    persistently(won, &Submission::number(5000)).await;
    assert!(Submission::number(5001).to(lost).await.is_err());
    let health = lost.health().await;
    assert!(!health.ok(), "{health:?}");
    audit(won).await;
    first.shutdown().await;
    second.shutdown().await;
}

/// The server is paused (`SIGSTOP`) under load. Requests hang and the log stops; the log continues
/// when the server does.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_stops_the_log_and_loses_nothing() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (log, _) = place_of.run().await;
    let submissions = submissions(200);
    let promised = submit_all(&log, &submissions[..100]).await;
    let waiting = {
        let (log, submissions) = (log.clone(), submissions.clone());
        tokio::spawn(async move { submit_all(&log, &submissions).await })
    };
    place_of.signal("-STOP");
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        panic!("the log is {:?} although its store hangs", log.state());
    };
    assert!(reason.contains("the store is unavailable"), "{reason}");
    place_of.signal("-CONT");
    reached(&log, |state| *state == State::Running).await;
    // These submissions got temporary errors, and were retried.
    let answered = match waiting.await {
        Ok(scts) => scts,
        Err(_) => submit_all(&log, &submissions).await,
    };
    for (before, after) in promised.iter().zip(&answered) {
        assert_eq!(place(before), place(after));
    }
    assert_eq!(audit(&log).await.len(), submissions.len());
    log.shutdown().await;
}

/// A process is killed before it publishes a committed round: only the staged objects exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_rolls_forward_from_its_staged_objects() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (log, _) = place_of.run().await;
    let submissions = submissions(300);
    let mut promised = Vec::new();
    for burst in submissions.chunks(60) {
        promised.extend(submit_all(&log, burst).await);
    }
    let copy = InBucket {
        world: place_of.world.crashed().await,
        bucket: lucarne_testkit::Bucket::versitygw().await.unwrap(),
    };
    copy_journal(&place_of.bucket, &copy.bucket);
    log.shutdown().await;

    let (log, _) = copy.run().await;
    assert_eq!(audit(&log).await.len(), 300);
    let again = submit_all(&log, &submissions).await;
    for (before, after) in promised.iter().zip(&again) {
        assert_eq!(place(before), place(after));
    }
    assert_eq!(audit(&log).await.len(), 300);
    log.shutdown().await;
}

/// versitygw stores an object as a file.
fn copy_journal(from: &lucarne_testkit::Bucket, to: &lucarne_testkit::Bucket) {
    let journal = |bucket: &lucarne_testkit::Bucket| {
        let data = bucket.store.directory.path().join("data");
        data.join(&bucket.name).join("2026h1/.lucarne/journal")
    };
    std::fs::create_dir_all(journal(to)).unwrap();
    for object in std::fs::read_dir(journal(from)).unwrap() {
        let object = object.unwrap();
        std::fs::copy(object.path(), journal(to).join(object.file_name())).unwrap();
    }
}

/// The bucket is empty or was exchanged, but the lock has entries.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_bucket_under_a_used_lock_is_refused() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let (log, _) = place_of.run().await;
    submit_all(&log, &submissions(10)).await;
    log.shutdown().await;
    let elsewhere = InBucket {
        bucket: lucarne_testkit::Bucket::versitygw().await.unwrap(),
        ..place_of
    };
    let log = elsewhere.world.start_on(elsewhere.open().await);
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        unreachable!();
    };
    let bucket = &elsewhere.bucket.name;
    assert!(
        reason.contains("Storage was rolled back, emptied"),
        "{reason}"
    );
    assert!(reason.contains(bucket), "{reason}");
    log.shutdown().await;
}

/// The journal continues beyond the checkpoint of an older lock. The bucket has no other evidence.
#[tokio::test(flavor = "multi_thread")]
async fn staged_objects_beyond_an_older_lock_are_refused() {
    let _alone = ALONE.lock().await;
    let place_of = InBucket::new().await;
    let older = place_of.world.crashed().await;
    let (log, _) = place_of.run().await;
    for burst in submissions(30).chunks(10) {
        submit_all(&log, burst).await;
    }
    let copy = InBucket {
        world: older,
        bucket: lucarne_testkit::Bucket::versitygw().await.unwrap(),
    };
    copy_journal(&place_of.bucket, &copy.bucket);
    log.shutdown().await;
    let log = copy.world.start_on(copy.open().await);
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        unreachable!();
    };
    assert!(reason.contains("The lock was rolled back"), "{reason}");
    assert!(reason.contains("has only 0"), "{reason}");
    log.shutdown().await;
}
