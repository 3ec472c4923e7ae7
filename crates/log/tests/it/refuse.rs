//! States in which a log refuses to start, and the reported reasons.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fixture::{Submission, World, audit, key, reached, submit_all};
use lucarne_ct::verify_checkpoint;
use lucarne_log::{
    Fatal, Inconsistency, IndexInconsistency, LockInconsistency, Log, State, StorageInconsistency,
};
use lucarne_storage::{Assets, DiskCache, Lock, LockError, MemoryAssets, ReadAssets};
use lucarne_testkit::eventually;
use lucarne_tlog::RightEdge;

async fn refusal(world: &World) -> String {
    refusal_on(world, ReadAssets::uncached(Arc::new(world.assets.clone()))).await
}

async fn refusal_on(world: &World, assets: ReadAssets) -> String {
    let log = world.start_reading(assets);
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        unreachable!();
    };
    log.shutdown().await;
    reason
}

/// Returns the contradiction with which `examine` refuses the log. The start must fail as well.
async fn contradiction(world: &World) -> Inconsistency {
    let assets = Arc::new(world.assets.clone());
    let examined = lucarne_log::examine(&world.config, assets, &*world.lock).await;
    refusal(world).await;
    contradicts(examined.unwrap_err())
}

fn contradicts(fatal: Fatal) -> Inconsistency {
    match fatal {
        Fatal::Inconsistent(found) => *found,
        other => panic!("no contradiction: {other}"),
    }
}

/// Returns the lock's checkpoint of this log.
async fn signed(world: &World) -> Option<Vec<u8>> {
    let id = world.config.key.log_id().0;
    world.lock.load(&id).await.unwrap()
}

/// Returns a stopped log with some entries, and a copy from before its last entries.
async fn grown() -> (World, World) {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..10).map(Submission::number).collect();
    submit_all(&log, &submissions[..5]).await;
    let earlier = world.crashed().await;
    submit_all(&log, &submissions[5..]).await;
    log.shutdown().await;
    (world, earlier)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_lock_is_refused() {
    let (mut world, earlier) = grown().await;
    world.lock = earlier.lock;
    let found = contradiction(&world).await;
    let Inconsistency::Lock(LockInconsistency::OlderThanStorage {
        published,
        committed,
        ..
    }) = found
    else {
        panic!("{found}");
    };
    assert_eq!((published.size, committed.size), (10, 5));
}

/// An idle process with the same key signs its tree again. This tree is smaller than a tree that
/// this log has signed before.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_another_process_signed_is_refused() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..10).map(Submission::number).collect();
    submit_all(&log, &submissions[..5]).await;
    let early = log.published().unwrap();
    submit_all(&log, &submissions[5..]).await;
    let crashed = world.crashed().await;
    log.shutdown().await;
    let (origin, key) = (&world.config.origin, key());
    let head = signed(&crashed).await.unwrap();
    let (_, signed_ms) = verify_checkpoint(&head, origin, key.public_key_spki()).unwrap();
    let theirs = key.sign_checkpoint(origin, early.size, &early.root, signed_ms);
    crashed
        .assets
        .tamper("checkpoint", Some(theirs.unwrap().into()));
    let found = contradiction(&crashed).await;
    let Inconsistency::Lock(LockInconsistency::Shared { published, .. }) = found else {
        panic!("{found}");
    };
    assert_eq!(published.size, early.size);
}

/// Another machine with its own lock has published a smaller tree. Clients have seen a history that
/// this log would contradict.
#[tokio::test(flavor = "multi_thread")]
async fn a_published_checkpoint_of_another_history_is_refused() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..400).map(Submission::number).collect();
    submit_all(&log, &submissions[..2]).await;
    let other = world.crashed().await;
    let elsewhere = other.run().await;
    submit_all(&elsewhere, &submissions[399..]).await;
    let theirs = elsewhere.published().unwrap();
    assert_eq!(theirs.size, 3);
    elsewhere.shutdown().await;
    for round in [2..3, 3..5, 5..300] {
        submit_all(&log, &submissions[round]).await;
        // One copy has the rounds in its journal, the other does not.
        let unsettled = world.crashed().await;
        let settled = world.crashed().await;
        settled.run().await.shutdown().await;
        for world in [unsettled, settled] {
            let checkpoint = Some(theirs.checkpoint.clone());
            world.assets.tamper("checkpoint", checkpoint);
            let reason = refusal(&world).await;
            assert!(reason.contains("would sign a fork"), "{reason}");
        }
    }
    log.shutdown().await;
}

/// The tiles prove the rollback without the checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_lock_is_refused_though_the_checkpoint_is_lost() {
    for (before, after) in [
        (5, 10),
        (0, 3),
        (255, 256),
        (256, 257),
        (256, 512),
        (300, 512),
    ] {
        let world = World::new().await;
        let log = world.run().await;
        let submissions: Vec<_> = (0..after).map(Submission::number).collect();
        submit_all(&log, &submissions[..before as usize]).await;
        let earlier = world.crashed().await;
        submit_all(&log, &submissions[before as usize..]).await;
        log.shutdown().await;
        for checkpoint in [None, Some("torn".into())] {
            let mut world = world.crashed().await;
            world.lock = earlier.lock.clone();
            world.assets.tamper("checkpoint", checkpoint);
            let reason = refusal(&world).await;
            assert!(
                reason.contains("The lock was rolled back"),
                "{before}: {reason}"
            );
        }
    }
}

/// Flips one bit in every seventh byte up to the second signature, and in a few bytes of that one.
/// With a flipped bit in the first signature, the origin or the size, the file is a valid note, but
/// not a checkpoint of this log.
#[tokio::test(flavor = "multi_thread")]
async fn a_published_checkpoint_with_a_flipped_bit_is_put_back_from_the_lock() {
    let (world, earlier) = grown().await;
    let whole = signed(&world).await.unwrap();
    let second = std::str::from_utf8(&whole).unwrap().rfind('—').unwrap();
    let few = (second..whole.len()).step_by(700);
    for place in (0..second).step_by(7).chain(few) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 7);
        let world = world.crashed().await;
        world.assets.tamper("checkpoint", Some(damaged.into()));
        let log = world.run().await;
        log.shutdown().await;
        let published = world.assets.get("checkpoint").await.unwrap();
        assert_eq!(published.map(Vec::from), signed(&world).await);
    }
    // A checkpoint of another history, or of a later state of this log, does not count as damage.
    let mut lagging = earlier.crashed().await;
    lagging.assets = world.assets.clone();
    let mut larger = whole.clone();
    let last = second - 6;
    larger[last] = if larger[last] == b'A' { b'B' } else { b'A' }; // still base64
    lagging.assets.tamper("checkpoint", Some(larger.into()));
    let found = contradiction(&lagging).await;
    let is_other = matches!(
        found,
        Inconsistency::Storage(StorageInconsistency::OtherLog { .. })
    );
    assert!(is_other, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn older_storage_is_refused_unless_its_journal_leads_on() {
    let (mut world, earlier) = grown().await;
    world.assets = earlier.assets;
    let reason = refusal(&world).await;
    assert!(reason.contains("Storage was rolled back"), "{reason}");
    // The index has the lost entries: clients have their SCTs.
    assert!(!reason.contains("--never-published"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_storage_under_a_used_lock_is_refused() {
    let (mut world, _) = grown().await;
    world.assets = MemoryAssets::new();
    let found = contradiction(&world).await;
    let is_behind = matches!(
        found,
        Inconsistency::Storage(StorageInconsistency::BehindLock { size: 10, .. })
    );
    assert!(is_behind, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_newest_entries_is_refused() {
    let (world, _) = grown().await;
    let path = "tile/data/000.p/10";
    let mut bytes = world.assets.get(path).await.unwrap().unwrap().to_vec();
    bytes[77] ^= 4;
    world.assets.tamper(path, Some(bytes.into()));
    let found = contradiction(&world).await;
    let Inconsistency::Storage(StorageInconsistency::BehindLock { files, .. }) = found else {
        panic!("{found}");
    };
    assert_eq!(files, [path]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_never_created_is_not_made_by_starting_it() {
    let mut world = World::new().await;
    world.lock = Arc::new(lucarne_storage::MemoryLock::new());
    let reason = refusal(&world).await;
    assert!(reason.contains("Check the key and the lock"), "{reason}");
    assert!(!reason.contains("init"), "its storage knows it: {reason}");
    world.assets = MemoryAssets::new();
    let reason = refusal(&world).await;
    assert!(reason.contains("lucarne init"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_logs_storage_is_refused() {
    let (world, _) = grown().await;
    let mut other = World::new().await;
    other.config.origin = "log.example/other".into();
    other.lock = world.lock.clone();
    other.assets = world.assets.clone();
    let found = contradiction(&other).await;
    let Inconsistency::Lock(LockInconsistency::NoCheckpoint { origin, .. }) = found else {
        panic!("{found}");
    };
    assert_eq!(origin, other.config.origin);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_created_once() {
    let world = World::new().await;
    let again = Log::create(&world.config, &world.assets, &*world.lock).await;
    let again = contradicts(again.unwrap_err());
    let holds_log = matches!(
        again,
        Inconsistency::Storage(StorageInconsistency::HoldsLog { .. })
    );
    assert!(holds_log, "{again}");
    let elsewhere = Log::create(&world.config, &MemoryAssets::new(), &*world.lock).await;
    let exists = matches!(elsewhere, Err(Fatal::Lock(LockError::Exists { .. })));
    assert!(exists, "{elsewhere:?}");
    let id = world.config.key.log_id().0;
    assert!(world.lock.load(&id).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_never_go_back_and_a_clock_far_behind_is_waited_for() {
    let world = World::new().await;
    let log = world.run().await;
    let first = Submission::number(1).to(&log).await.unwrap();
    world
        .skew_ms
        .store(3_000_u64.wrapping_neg(), Ordering::SeqCst);
    let second = Submission::number(2).to(&log).await.unwrap();
    assert!(second.timestamp > first.timestamp);
    world
        .skew_ms
        .store(60_000_u64.wrapping_neg(), Ordering::SeqCst);
    assert!(Submission::number(3).to(&log).await.is_err());
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    // The log retries, but must never be in the state `Running` while it cannot sign, however late
    // these checks are.
    for _ in 0..250 {
        assert_ne!(log.state(), State::Running);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    world.skew_ms.store(0, Ordering::SeqCst);
    reached(&log, |state| *state == State::Running).await;
    Submission::number(3).to(&log).await.unwrap();
    assert_eq!(audit(&log).await.len(), 3);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_shard_answers_gone_and_is_well() {
    let mut world = World::new().await;
    world.config.policy.not_after_start = Some(1_000_000_000_000);
    world.config.policy.not_after_limit = Some(1_010_000_000_000);
    let log = world.start();
    reached(&log, |state| *state == State::Retired).await;
    let error = Submission::number(1).to(&log).await.unwrap_err();
    assert!(matches!(error, lucarne_log::SubmitError::Gone));
    assert!(log.health().await.ok());
    assert!(log.published().is_some());
    log.shutdown().await;
    assert_eq!(log.state(), State::Closed);
}

/// Lock and storage are from the same moment; only the index has seen more entries.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_has_seen_more_is_refused_and_kept() {
    let (world, mut earlier) = grown().await;
    let (own, newer) = (earlier.config.cache.clone(), world.config.cache.clone());
    earlier.config.cache = newer.clone();
    let before = signed(&earlier).await;
    for _ in 0..2 {
        let found = contradiction(&earlier).await;
        let Inconsistency::Index(IndexInconsistency::Newer { seen, size, .. }) = found else {
            panic!("{found}");
        };
        assert_eq!((&seen.path, seen.entries, size), (&newer, 10, 5));
    }
    assert_eq!(signed(&earlier).await, before, "nothing is signed");
    assert_eq!(newer.parent().unwrap().read_dir().unwrap().count(), 1);
    // Each log starts with its own index.
    earlier.config.cache = own;
    for world in [earlier, world] {
        let log = world.run().await;
        log.shutdown().await;
    }
}

/// A restored or copied cache may have the same key, but other entries.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_another_history_is_refused_and_kept() {
    let submissions: Vec<_> = (0..600).map(Submission::number).collect();
    for (theirs, ours) in [(3, 3), (3, 5), (200, 300), (256, 300), (257, 400)] {
        let (other, mut world) = (World::new().await, World::new().await);
        for (world, part) in [
            (&other, &submissions[..theirs]),
            (&world, &submissions[200..200 + ours]),
        ] {
            let log = world.run().await;
            submit_all(&log, part).await;
            log.shutdown().await;
        }
        let own = world.config.cache.clone();
        world.config.cache = other.config.cache.clone();
        let found = contradiction(&world).await;
        let Inconsistency::Index(IndexInconsistency::OtherHistory { path, size, .. }) = found
        else {
            panic!("{found}");
        };
        assert_eq!((path, size), (world.config.cache.clone(), theirs as u64));
        // The index is unchanged, and each log starts with its own.
        let log = other.run().await;
        submissions[0].to(&log).await.unwrap();
        log.shutdown().await;
        world.config.cache = own;
        let log = world.run().await;
        assert_eq!(audit(&log).await.len(), ours);
        log.shutdown().await;
    }
}

/// An empty bucket of a log that has run is not a new log.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ran_is_never_told_to_be_made() {
    let mut world = World::new().await;
    let log = world.run().await;
    Submission::number(1).to(&log).await.unwrap();
    let id = world.config.key.log_id().0;
    world.lock.tamper(&id, None);
    for path in world.assets.paths() {
        world.assets.tamper(&path, None);
    }
    assert!(Submission::number(2).to(&log).await.is_err());
    let told = |state: &State| match state {
        State::Stopped { reason, .. } => reason.contains("but the log exists"),
        _ => false,
    };
    reached(&log, told).await;
    let health = format!("{:?}", log.health().await);
    assert!(health.contains("the lock was emptied"), "{health}");
    assert!(!health.contains("init"), "{health}");
    log.shutdown().await;

    // The same after a restart, as long as the cache exists.
    world.assets = MemoryAssets::new();
    let reason = refusal(&world).await;
    assert!(reason.contains("has seen 1 entry of the log"), "{reason}");
    assert!(!reason.contains("init"), "{reason}");
    let made = Log::create(&world.config, &world.assets, &*world.lock).await;
    let found = contradicts(made.unwrap_err());
    let Inconsistency::Index(IndexInconsistency::LogExists(seen)) = found else {
        panic!("{found}");
    };
    assert_eq!(seen.entries, 1);
    assert!(signed(&world).await.is_none());
}

/// The lock is slightly older, and no published file shows it. Except for the first record after
/// the lock, each record of the journal continues a signed tree.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_goes_on_beyond_the_lock_is_refused() {
    let world = World::new().await;
    let log = world.run().await;
    let mut moments = Vec::new();
    for n in 0..6 {
        moments.push(world.crashed().await);
        Submission::number(n).to(&log).await.unwrap();
    }
    let newest = world.crashed().await;
    log.shutdown().await;
    for (entries, moment) in moments.iter().enumerate() {
        let assets = newest.assets.snapshot();
        for path in assets.paths() {
            assets.tamper(&path, moment.assets.get(&path).await.unwrap());
        }
        let world = World {
            assets,
            ..newest.crashed().await
        };
        let id = world.config.key.log_id().0;
        world.lock.tamper(&id, signed(moment).await);
        if entries < 5 {
            let found = contradiction(&world).await;
            let Inconsistency::Lock(LockInconsistency::OlderThanJournal { from, size, .. }) = found
            else {
                panic!("{found}");
            };
            assert_eq!((from, size), (entries as u64 + 1, entries as u64));
        } else {
            // The round is staged, and nothing proves that it was committed.
            let log = world.run().await;
            assert_eq!(audit(&log).await.len(), entries);
            log.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_ahead_is_not_signed_with() {
    let mut world = World::new().await;
    // The jump does not end the shard either.
    let years = 10 * 365 * 24 * 3600 * 1000;
    let now_ms = world.config.clock.now_ms();
    world.config.policy.not_after_limit = Some(now_ms + years / 2);
    let log = world.run().await;
    Submission::number(1).to(&log).await.unwrap();
    for ahead_ms in [years, 3_600_000] {
        world.skew_ms.store(ahead_ms, Ordering::SeqCst);
        reached(&log, |state| matches!(state, State::Stopped { .. })).await;
        let health = format!("{:?}", log.health().await);
        assert!(health.contains("the clock jumped"), "{health}");
        assert!(Submission::number(2).to(&log).await.is_err());
        world.skew_ms.store(0, Ordering::SeqCst);
        reached(&log, |state| *state == State::Running).await;
        Submission::number(2).to(&log).await.unwrap();
        let signed_ms = log.published().unwrap().timestamp_ms;
        assert!(signed_ms < now_ms + 600_000, "{signed_ms}");
    }
    // A difference that the log tolerates is not a jump.
    world.skew_ms.store(3_000, Ordering::SeqCst);
    Submission::number(3).to(&log).await.unwrap();
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_days_after_the_last_checkpoint_needs_a_word() {
    let mut world = World::new().await;
    let log = world.run().await;
    Submission::number(1).to(&log).await.unwrap();
    log.shutdown().await;
    let days = 2 * 24 * 3600 * 1000;
    world.skew_ms.store(days, Ordering::SeqCst);
    let before = signed(&world).await;
    let reason = refusal(&world).await;
    assert!(reason.contains("--confirm-clock"), "{reason}");
    assert_eq!(signed(&world).await, before);
    // The log starts after a correction of the clock, or with a confirmation.
    world.skew_ms.store(0, Ordering::SeqCst);
    let log = world.run().await;
    log.shutdown().await;
    world.skew_ms.store(days, Ordering::SeqCst);
    world.config.clock = world.config.clock.confirmed();
    let log = world.run().await;
    Submission::number(2).to(&log).await.unwrap();
    log.shutdown().await;
}

/// Returns a log of 820 entries that was settled at 520, then killed: the journal has the later
/// rounds. The index is complete.
async fn killed_after_a_settled_run() -> World {
    let mut world = World::new().await;
    let submissions: Vec<_> = (0..820).map(Submission::number).collect();
    let log = world.run().await;
    submit_all(&log, &submissions[..520]).await;
    log.shutdown().await;
    let log = world.run().await;
    submit_all(&log, &submissions[520..]).await;
    let killed = world.assets.snapshot();
    log.shutdown().await;
    world.assets = killed;
    world
}

/// Storage is emptied or replaced by an older copy while the log runs. The later rounds cross a
/// tile boundary, so their tiles give a complete right edge.
#[tokio::test(flavor = "multi_thread")]
async fn storage_that_was_emptied_or_rolled_back_under_a_running_log_is_refused() {
    let world = killed_after_a_settled_run().await;
    world.assets.tamper("checkpoint", None);
    let is_lost = |path: &&String| path.starts_with("tile/") && path.contains("/001");
    for path in world.assets.paths().iter().filter(is_lost) {
        world.assets.tamper(path, None);
    }
    let reason = refusal(&world).await;
    assert!(reason.contains("emptied or rolled back"), "{reason}");
    assert!(reason.contains("/001"), "{reason}");
}

/// The disk cache of readers still has the tiles that storage lost. It shows nothing about storage.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_does_not_hide_that_storage_was_rolled_back() {
    let world = killed_after_a_settled_run().await;
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(world.assets.clone());
    let cache = Arc::new(DiskCache::new(directory.path(), 1 << 24, Arc::new(())));
    cache.start();
    let cached = ReadAssets::cached(store, cache);
    let paths = world.assets.paths().into_iter();
    let is_full_tile = |path: &String| path.starts_with("tile/") && !path.contains(".p/");
    let tiles: Vec<String> = paths.filter(is_full_tile).collect();
    for path in &tiles {
        let bytes = world.assets.get(path).await.unwrap().unwrap();
        eventually("the cache has the tile", async || {
            // A busy cache drops files, so the test offers the file again.
            cached.keep(path, &bytes);
            let found = cached.get(path).await.unwrap();
            found.is_some_and(|found| found.is_cached)
        })
        .await;
    }
    world.assets.tamper("checkpoint", None);
    let is_lost = |path: &&String| path.starts_with("tile/") && path.contains("/001");
    for path in world.assets.paths().iter().filter(is_lost) {
        world.assets.tamper(path, None);
    }
    for path in tiles.iter().filter(is_lost) {
        assert!(cached.get(path).await.unwrap().is_some());
    }
    let inspection = lucarne_log::inspect(&world.config, cached.store(), &*world.lock)
        .await
        .unwrap();
    let seen = inspection.refusal.unwrap_or_default();
    assert!(seen.contains("emptied or rolled back"), "{seen}");
    let reason = refusal_on(&world, cached).await;
    assert!(reason.contains("emptied or rolled back"), "{reason}");
}

/// Storage is emptied, and the log continues beyond the next tile boundary before the loss is
/// noticed. The new files give a complete right edge and a checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_went_on_after_its_storage_was_emptied_is_refused() {
    let world = World::new().await;
    let submissions: Vec<_> = (0..1100).map(Submission::number).collect();
    let log = world.run().await;
    submit_all(&log, &submissions[..800]).await;
    let emptied = world.assets.paths();
    submit_all(&log, &submissions[800..]).await;
    log.shutdown().await;
    let edge: Vec<String> = RightEdge::tiles(1100).map(|tile| tile.path()).collect();
    for path in emptied.iter().filter(|path| path.starts_with("tile/")) {
        if !edge.contains(path) {
            world.assets.tamper(path, None);
        }
    }
    let reason = refusal(&world).await;
    assert!(reason.contains("emptied or rolled back"), "{reason}");
    assert!(reason.contains("tile/data/000"), "{reason}");
}

/// Only the checkpoint is lost: all its tiles exist, and the log continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_checkpoint_alone_is_published_again() {
    let world = killed_after_a_settled_run().await;
    world.assets.tamper("checkpoint", None);
    let log = world.run().await;
    assert_eq!(audit(&log).await.len(), 820);
    log.shutdown().await;
}

/// The last round may be lost if none of it was published. A restored backup is older, and lacks
/// published rounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_back_from_a_lost_round_and_not_to_a_backup() {
    for (later_ms, goes_back) in [(0, true), (700_000, false)] {
        let world = World::new().await;
        let submissions: Vec<_> = (0..5).map(Submission::number).collect();
        let log = world.run().await;
        submit_all(&log, &submissions[..4]).await;
        log.shutdown().await;
        let mut older = world.crashed().await;
        world.skew_ms.store(later_ms, Ordering::SeqCst);
        let log = world.run().await;
        submit_all(&log, &submissions[4..]).await;
        log.shutdown().await;
        older.lock = world.lock.clone();
        let assets = Arc::new(older.assets.clone());
        match lucarne_log::never_published(&older.config, assets, &*older.lock).await {
            Ok(lost) => {
                assert!(goes_back);
                assert_eq!((lost.signed().size, lost.again().size), (5, 4));
                lost.go_back(&older.config, &*older.lock).await.unwrap();
                let log = older.run().await;
                submit_all(&log, &submissions).await;
                assert_eq!(audit(&log).await.len(), 5);
                log.shutdown().await;
            }
            Err(error) => {
                assert!(!goes_back, "{error}");
                let found = contradicts(error);
                let rounds_lost = matches!(
                    found,
                    Inconsistency::Storage(StorageInconsistency::RoundsLost { size: 4, .. })
                );
                assert!(rounds_lost, "{found}");
            }
        }
    }
}

/// A copy also lacks later rounds of a running log.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_go_back_while_the_log_runs() {
    let mut world = World::new().await;
    world.config.rounds.max_checkpoint_age = Duration::from_secs(1);
    let submissions: Vec<_> = (0..5).map(Submission::number).collect();
    let log = world.run().await;
    submit_all(&log, &submissions[..4]).await;
    let mut copy = world.crashed().await;
    submit_all(&log, &submissions[4..]).await;
    copy.lock = world.lock.clone();
    let assets = Arc::new(copy.assets.clone());
    let lost = lucarne_log::never_published(&copy.config, assets, &*copy.lock).await;
    let refused = lost.unwrap().go_back(&copy.config, &*copy.lock).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("Another process signs"), "{refused}");
    log.shutdown().await;
}
