//! Failures and crashes at any time: every entry with an SCT is in the log, and none is in it
//! twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::{Submission, World, audit, key, persistently, place, reached, submit_all};
use lucarne_log::State;
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Assets, Lock};
use lucarne_testkit::{block_until, eventually};

fn broken(operation: Operation) -> AssetError {
    AssetError::Poisoned {
        location: "memory".into(),
        reason: format!("{operation:?} was made to fail"),
    }
}

/// Simulates a power cut at a third of the storage calls of a busy log: just before the call, lock
/// and storage are copied, and the log must continue from the copy.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_carries_on_from_a_copy_taken_at_any_call() {
    let world = Arc::new(World::new().await);
    let taken = Arc::new(Mutex::new(Vec::new()));
    let calls = AtomicU64::new(0);
    let (at_call, copies) = (world.clone(), taken.clone());
    world.assets.inject(move |operation| {
        if operation != Operation::Get && calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
            // No other task writes now, so the copies of lock and storage are from the same moment.
            let world = at_call.clone();
            let copy = std::thread::spawn(move || {
                tokio::runtime::Runtime::new()
                    .unwrap()
                    .block_on(world.crashed())
            });
            copies.lock().unwrap().push(copy.join().unwrap());
        }
        None
    });
    let log = world.run().await;
    let submissions: Vec<_> = (0..600).map(Submission::number).collect();
    let mut promised = HashMap::new();
    for chunk in submissions.chunks(40) {
        for (submission, sct) in chunk.iter().zip(submit_all(&log, chunk).await) {
            promised.insert(submission.ders[0].clone(), place(&sct));
        }
    }
    log.shutdown().await;
    world.assets.heal();
    let copies = std::mem::take(&mut *taken.lock().unwrap());
    assert!(copies.len() > 10, "{}", copies.len());
    for copy in copies {
        let log = copy.run().await;
        let before = audit(&log).await;
        // The copy is the same log at an earlier time. Retries of its entries get the same index,
        // and later entries get new ones.
        let scts = submit_all(&log, &submissions).await;
        for (submission, sct) in submissions.iter().zip(&scts) {
            let (index, timestamp) = place(sct);
            if (index as usize) < before.len() {
                assert_eq!(promised[&submission.ders[0]], (index, timestamp));
            }
        }
        assert_eq!(audit(&log).await.len(), submissions.len());
        log.shutdown().await;
    }
}

/// Every call fails once under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_stops_the_log_and_loses_nothing() {
    for failing in [Operation::Stage, Operation::Publish, Operation::Settle] {
        for skip in 0..4 {
            let world = World::new().await;
            let log = world.run().await;
            let submissions: Vec<_> = (0..60).map(Submission::number).collect();
            let promised = submit_all(&log, &submissions[..20]).await;
            let left = AtomicU64::new(skip);
            world.assets.inject(move |operation| {
                if operation != failing {
                    return None;
                }
                match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
                    Ok(_) => None,
                    Err(_) => Some(broken(operation)),
                }
            });
            let mut answered = HashMap::new();
            for submission in &submissions[20..] {
                if let Ok(sct) = submission.to(&log).await {
                    answered.insert(submission.ders[0].clone(), place(&sct));
                }
            }
            world.assets.heal();
            reached(&log, |state| *state == State::Running).await;
            let again = submit_all(&log, &submissions).await;
            for (before, after) in promised.iter().zip(&again) {
                assert_eq!(place(before), place(after));
            }
            for (submission, sct) in submissions.iter().zip(&again) {
                if let Some(before) = answered.get(&submission.ders[0]) {
                    assert_eq!(*before, place(sct));
                }
            }
            assert_eq!(audit(&log).await.len(), submissions.len());
            log.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_lock_stops_the_log_until_it_heals() {
    let world = World::new().await;
    let log = world.run().await;
    world.lock.fail(Some("unplugged"));
    assert!(Submission::number(1).to(&log).await.is_err());
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    assert!(!log.health().await.ok());
    assert!(log.published().is_some(), "reads go on");
    world.lock.fail(None);
    reached(&log, |state| *state == State::Running).await;
    Submission::number(1).to(&log).await.unwrap();
    assert_eq!(audit(&log).await.len(), 1);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signer_is_noticed() {
    let world = World::new().await;
    let log = world.run().await;
    Submission::number(1).to(&log).await.unwrap();
    let id = world.config.key.log_id().0;
    let body = world.lock.load(&id).await.unwrap().unwrap();
    let (root, size) = (log.published().unwrap().root, 1);
    let newer = log.published().unwrap().timestamp_ms + 1;
    let other = key()
        .sign_checkpoint(&world.config.origin, size, &root, newer)
        .unwrap();
    world
        .lock
        .replace(&id, &body, other.as_bytes())
        .await
        .unwrap();
    assert!(Submission::number(2).to(&log).await.is_err());
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped {
        since_ms,
        retry_at_ms,
        ..
    } = log.state()
    else {
        unreachable!("it waits until the other one signs no more");
    };
    // The log waits longer than before an ordinary attempt.
    assert!(retry_at_ms - since_ms > 5000);
    log.shutdown().await;
}

/// A log that crashed publishes its committed rounds at its next start, even if the window of the
/// shard has ended since.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_is_published_though_the_shard_is_retired() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..3).map(Submission::number).collect();
    submit_all(&log, &submissions).await;
    let mut crashed = world.crashed().await;
    log.shutdown().await;
    for path in crashed.assets.paths() {
        crashed.assets.tamper(&path, None);
    }
    crashed.config.policy.not_after_limit = Some(1_010_000_000_000);
    let log = crashed.start();
    let whole = |state: &State| *state == State::Retired && log.published().is_some();
    reached(&log, whole).await;
    assert_eq!(audit(&log).await.len(), 3);
    log.shutdown().await;
}

/// Bit rot anywhere in the dedup index causes a rebuild.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_is_rebuilt() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..100).map(Submission::number).collect();
    let promised = submit_all(&log, &submissions).await;
    log.shutdown().await;
    let mut damaged = 0;
    for file in files_below(&world.config.cache) {
        let mut bytes = std::fs::read(&file).unwrap();
        let rot = bytes.len() / 4..bytes.len() / 2;
        bytes[rot.clone()].fill(0xaa);
        std::fs::write(&file, bytes).unwrap();
        damaged += rot.len();
    }
    assert!(damaged > 1000, "{damaged} bytes: nothing was damaged");
    let log = world.run().await;
    for (submission, before) in submissions.iter().zip(&promised) {
        let after = persistently(&log, submission).await;
        assert_eq!(place(&after), place(before));
    }
    assert_eq!(audit(&log).await.len(), 100);
    log.shutdown().await;
}

fn files_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// An SCT is returned only after its entry is published.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_answered_before_the_checkpoint_is_published() {
    let world = World::new().await;
    let log = world.run().await;
    world.assets.inject(|operation| match operation {
        Operation::Publish => Some(broken(operation)),
        _ => None,
    });
    let submission = Submission::number(1);
    let answer = submission.to(&log).await;
    assert!(answer.is_err(), "an SCT of what nobody can read");
    world.assets.heal();
    reached(&log, |state| *state == State::Running).await;
    persistently(&log, &submission).await;
    assert_eq!(audit(&log).await.len(), 1);
    log.shutdown().await;
}

/// Duplicates wait with the first submission until its round is published. The index does not have
/// the entry yet, because its proofs are verified against the published tree.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_in_the_index_before_it_is_published() {
    let world = World::new().await;
    let log = world.run().await;
    let held = Arc::new(AtomicBool::new(true));
    let still = held.clone();
    world.assets.inject(move |operation| {
        if operation == Operation::Publish {
            tokio::task::block_in_place(|| {
                block_until("the test lets go", || !still.load(Ordering::SeqCst));
            });
        }
        None
    });
    let submission = Submission::number(1);
    let mut asking = Vec::new();
    for _ in 0..20 {
        let (log, submission) = (log.clone(), submission.clone());
        asking.push(tokio::spawn(async move { submission.to(&log).await }));
        // The interval of the requests. An entry that is in the index too early is there shortly
        // after the commit. The round is held all the time, however long this takes.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.store(false, Ordering::SeqCst);
    let mut places = Vec::new();
    for answer in asking {
        places.push(place(&answer.await.unwrap().unwrap()));
    }
    places.dedup();
    assert_eq!(places.len(), 1, "{places:?}");
    log.shutdown().await;
    assert_eq!(audit(&log).await.len(), 1);
}

/// A restart publishes only few of many small rounds again, and no partial
/// tile that is full by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_publishes_few_rounds_again_and_no_superseded_tile() {
    const SETTLED_AFTER: usize = 256;
    let world = World::new().await;
    let log = world.run().await;
    let first: Vec<_> = (0..100).map(Submission::number).collect();
    submit_all(&log, &first).await;
    // Each of these entries has its own round.
    for n in 100..800 {
        persistently(&log, &Submission::number(n)).await;
    }
    let crashed = eventually_settled(&world, SETTLED_AFTER).await;
    log.shutdown().await;
    let rounds = crashed.assets.staged().await.unwrap().len() as u64;
    let before = crashed.assets.stats().published_files();
    let log = crashed.run().await;
    let published = crashed.assets.stats().published_files() - before;
    assert!(
        rounds > 100 && published < 2 * rounds,
        "{rounds} rounds, {published} files"
    );
    assert_eq!(audit(&log).await.len(), 800);
    log.shutdown().await;
}

/// Returns the state after a crash as soon as at most this many rounds are staged.
async fn eventually_settled(world: &World, rounds: usize) -> World {
    let mut crashed = world.crashed().await;
    eventually("the journal is cut", async || {
        crashed = world.crashed().await;
        crashed.assets.staged().await.unwrap().len() <= rounds
    })
    .await;
    crashed
}
