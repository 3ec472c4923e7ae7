//! The life of a submission, from the chain to the tile.

use std::time::Duration;

use crate::fixture::{Submission, World, audit, key, place, plain, reached, submit_all};
use bytes::Bytes;
use futures_util::future::join_all;
use lucarne_ct::{Code, Disagreement, Sct};
use lucarne_log::{Log, State, SubmitError};
use lucarne_storage::{Assets, Lock};
use lucarne_testkit::{eventually, until};
use lucarne_tlog::{Level, SignedNote, Tile};

#[tokio::test(flavor = "multi_thread")]
async fn an_sct_points_at_its_entry() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..300).map(Submission::number).collect();
    let scts = submit_all(&log, &submissions).await;
    let entries = audit(&log).await;
    assert_eq!(entries.len(), 300);
    for (submission, sct) in submissions.iter().zip(&scts) {
        let (index, timestamp) = place(sct);
        let (identity, logged_at) = entries[index as usize];
        assert_eq!(timestamp, logged_at);
        // The test can compute the identity of a certificate without the log.
        if submission.kind == lucarne_ct::EntryKind::X509 {
            let signed = lucarne_ct::SignedEntry::X509 {
                certificate: submission.ders[0].clone().into(),
            };
            assert_eq!(signed.identity().0, identity);
            sct.verify(&world.config.key.public_key().unwrap(), &signed)
                .unwrap();
        }
    }
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_gets_the_same_place_at_any_time() {
    let world = World::new().await;
    let log = world.run().await;
    let submission = Submission::number(1);
    let copies = vec![submission.clone(); 50];
    let first = submit_all(&log, &copies).await;
    let places: Vec<_> = first.iter().map(place).collect();
    assert!(places.iter().all(|p| *p == places[0]), "in one round");
    // Memory and the index have the same position. The restart below forces a lookup in the index.
    let later = submission.to(&log).await.unwrap();
    assert_eq!(place(&later), places[0], "from memory or the index");
    assert!(first.contains(&later), "and no new signature");
    log.shutdown().await;

    let log = world.run().await;
    let after_restart = submission.to(&log).await.unwrap();
    assert_eq!(place(&after_restart), places[0], "after a restart");
    log.shutdown().await;

    let log = world.crashed().await.run().await;
    let rebuilt = submission.to(&log).await.unwrap();
    assert_eq!(place(&rebuilt), places[0], "after the index was lost");
    assert_eq!(audit(&log).await.len(), 1);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_log_has_a_heartbeat_without_submissions() {
    let world = World::new().await;
    let log = world.run().await;
    let first = log.heartbeat().unwrap();
    until("more heartbeats", || log.heartbeat().unwrap() > first + 2).await;
    log.shutdown().await;
    assert_eq!(log.heartbeat(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_chain_is_refused_and_costs_nothing() {
    let world = World::new().await;
    let log = world.run().await;
    let mut submission = Submission::number(1);
    let last = submission.ders[0].len() - 1;
    submission.ders[0][last] ^= 1;
    let error = submission.to(&log).await.unwrap_err();
    let SubmitError::Rejected(rejection) = error else {
        panic!("{error}");
    };
    assert_eq!(rejection.code, Code::InvalidSignature);
    assert_eq!(rejection.certificate_index, Some(0));
    assert_eq!(audit(&log).await.len(), 0);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_partial_width_is_served_and_none_before_its_checkpoint() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..270).map(Submission::number).collect();
    for chunk in submissions.chunks(90) {
        submit_all(&log, chunk).await;
    }
    let full = plain(&log, Level::Data, 0, 256).await;
    let hashes = plain(&log, Level::Hashes(0), 0, 256).await;
    for width in 1..=255 {
        let data = plain(&log, Level::Data, 0, width).await;
        assert!(full.starts_with(&data));
        assert_eq!(
            plain(&log, Level::Hashes(0), 0, width).await,
            hashes[..32 * usize::from(width)]
        );
    }
    assert_eq!(plain(&log, Level::Hashes(0), 1, 14).await.len(), 14 * 32);
    for absent in [
        "tile/0/001.p/15",
        "tile/data/001.p/15",
        "tile/1/000",
        "tile/0/001",
    ] {
        let tile = Tile::parse(absent).unwrap();
        assert!(log.tile(tile).await.unwrap().is_none(), "{absent}");
    }
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_partials_go_and_the_newest_stays() {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..300).map(Submission::number).collect();
    for chunk in submissions.chunks(25) {
        submit_all(&log, chunk).await;
    }
    log.shutdown().await;
    let paths = world.assets.paths();
    let partials_of = |tile: &str| paths.iter().any(|p| p.starts_with(&format!("{tile}.p/")));
    for tile in ["tile/0/000", "tile/data/000"] {
        assert!(paths.contains(&tile.to_string()));
        assert!(!partials_of(tile), "{paths:?}");
    }
    for partial in ["tile/0/001.p/44", "tile/1/000.p/1"] {
        assert!(world.assets.get(partial).await.unwrap().is_some());
    }
    let data = world.assets.get("tile/data/001.p/44").await.unwrap();
    assert!(data.unwrap().starts_with(&[0x1f, 0x8b]), "gzip");
    assert!(world.assets.staged().await.unwrap().is_empty(), "journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disagreement_about_a_signature_fails_the_health_check_and_names_it() {
    let world = World::new().await;
    let log = world.run().await;
    assert!(log.health().await.ok(), "{:?}", log.health().await);
    world.config.verification.disagree(Disagreement {
        key: vec![4, 0xab],
        digest: vec![1; 32],
        signature: vec![0x30],
    });
    // The last result stays valid for one second.
    let mut failed = None;
    eventually("a check fails", async || {
        let mut checks = log.health().await.checks.into_iter();
        failed = checks.find(|check| !check.ok);
        failed.is_some()
    })
    .await;
    let failed = failed.unwrap();
    assert_eq!(failed.name, "verification");
    assert!(
        failed.detail.contains("key 04ab, digest 0101"),
        "{failed:?}"
    );
    // The log continues with aws-lc-rs.
    Submission::number(1).to(&log).await.unwrap();
    assert_eq!(world.config.verification.stats().accepted, 0);
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_log_signs_anew_and_answers_at_once() {
    let mut world = World::new().await;
    world.config.rounds.max_checkpoint_age = std::time::Duration::from_millis(50);
    world.config.rounds.period = std::time::Duration::from_millis(10);
    let log = world.run().await;
    let before = log.published().unwrap();
    let is_newer = || log.published().unwrap().timestamp_ms > before.timestamp_ms;
    until("a newer checkpoint", is_newer).await;
    let after = log.published().unwrap();
    assert_eq!((after.size, after.root), (before.size, before.root));
    Submission::number(1).to(&log).await.unwrap();
    assert!(log.health().await.ok(), "{:?}", log.health().await);
    log.shutdown().await;
}

/// Returns a stopped log of 520 entries, its SCTs, and its first data tile, uncompressed.
async fn two_tiles() -> (World, Vec<Submission>, Vec<Sct>, Vec<u8>) {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..520).map(Submission::number).collect();
    let mut scts = Vec::new();
    for burst in submissions.chunks(40) {
        scts.extend(submit_all(&log, burst).await);
    }
    let tile = plain(&log, Level::Data, 0, 256).await;
    log.shutdown().await;
    (world, submissions, scts, tile)
}

/// Submits all chains again. Each submission must get the same index, or a temporary error. Returns
/// the number of errors.
async fn refused(log: &Log, submissions: &[Submission], scts: &[Sct]) -> usize {
    let mut refused = 0;
    for (submission, sct) in submissions.iter().zip(scts) {
        match submission.to(log).await {
            Ok(again) => assert_eq!(place(&again), place(sct)),
            Err(SubmitError::Unavailable(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    refused
}

/// Waits until each submission gets its index.
async fn found_again(log: &Log, submissions: &[Submission], scts: &[Sct]) {
    // The log reads the tile again every few seconds.
    eventually("each gets its place", async || {
        refused(log, submissions, scts).await == 0
    })
    .await;
}

/// An old data tile is damaged or missing, and the index is lost. Entries that the tree does not
/// confirm are neither found nor logged again; all others are.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_rebuilt_from_what_the_tree_vouches_for() {
    let (world, submissions, scts, tile) = two_tiles().await;
    let mut flipped = tile.clone();
    flipped[7] ^= 4; // the last byte of the first timestamp
    let stored = world.assets.get("tile/data/000").await.unwrap().unwrap();
    let mut cut = stored.to_vec();
    cut.truncate(stored.len() / 2);
    for (rotten, unknown) in [
        (Some(flipped), 1..=1),
        (Some(tile[..tile.len() / 2].to_vec()), 2..=254),
        (Some(cut), 256..=256),
        (None, 256..=256),
    ] {
        let world = world.crashed().await;
        let path = "tile/data/000";
        world.assets.tamper(path, rotten.map(Bytes::from));
        let log = world.run().await;
        let count = refused(&log, &submissions, &scts).await;
        assert!(unknown.contains(&count), "{count}");
        let health = format!("{:?}", log.health().await);
        let entries = lucarne_x509::text::counted(count, "entry");
        assert!(
            health.contains(&format!("does not know {entries}")),
            "{health}"
        );
        assert_eq!(log.published().unwrap().size, 520, "none is logged again");
        // A restart with the new index has the same result.
        log.shutdown().await;
        let log = world.run().await;
        assert_eq!(refused(&log, &submissions, &scts).await, count);
        // The entries are found after the tile is restored.
        world.assets.tamper(path, Some(stored.clone()));
        found_again(&log, &submissions, &scts).await;
        assert!(log.health().await.ok(), "{:?}", log.health().await);
        assert_eq!(audit(&log).await.len(), 520);
        log.shutdown().await;
    }
}

/// While a tile is being restored, duplicates get a temporary error or the old index. A lookup that
/// does not find an entry just before the restoration is invalid just after it.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_not_logged_again_while_its_tile_comes_back() {
    let (world, submissions, scts, _) = two_tiles().await;
    let stored = world.assets.get("tile/data/000").await.unwrap();
    let world = world.crashed().await;
    world.assets.tamper("tile/data/000", None);
    let log = world.run().await;
    world.assets.tamper("tile/data/000", stored);
    let asking = join_all((0..submissions.len()).step_by(8).map(async |n| {
        let one = n..n + 1;
        while refused(&log, &submissions[one.clone()], &scts[one.clone()]).await > 0 {}
    }));
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, asking).await.unwrap();
    assert!(log.health().await.ok(), "{:?}", log.health().await);
    assert_eq!(audit(&log).await.len(), 520);
    log.shutdown().await;
}

/// The log signs nothing that a damaged hash tile does not prove, and restores the tile from the
/// entries beneath.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_hash_tile_gives_no_false_sct() {
    let (world, submissions, scts, _) = two_tiles().await;
    for path in ["tile/0/000", "tile/0/001"] {
        let whole = world.assets.get(path).await.unwrap().unwrap();
        for rotten in [None, Some(vec![0; 8192]), Some(whole[..8000].to_vec())] {
            let world = world.crashed().await;
            world.assets.tamper(path, rotten.map(Bytes::from));
            let log = world.run().await;
            // The data tile is intact, so all entries are known.
            assert!(refused(&log, &submissions, &scts).await <= 256);
            found_again(&log, &submissions, &scts).await;
            assert_eq!(world.assets.get(path).await.unwrap(), Some(whole.clone()));
            log.shutdown().await;
        }
    }
}

/// Readers would conclude that no entry refers to the issuer.
#[tokio::test(flavor = "multi_thread")]
async fn issuers_that_were_removed_are_no_unknown_issuers() {
    let world = World::new().await;
    let log = world.run().await;
    submit_all(&log, &[Submission::number(0), Submission::number(1)]).await;
    log.shutdown().await;
    let log = world.run().await;
    let unknown = lucarne_ct::Fingerprint::of(b"unknown");
    assert!(log.issuer(&unknown).await.unwrap().is_none());
    assert!(log.health().await.ok());
    let paths = world.assets.paths();
    let issuers: Vec<_> = paths
        .iter()
        .filter(|path| path.starts_with("issuer/"))
        .collect();
    let mut removed = Vec::new();
    for path in &issuers {
        removed.push(world.assets.get(path).await.unwrap());
        world.assets.tamper(path, None);
    }
    eventually("the check of the files fails", async || {
        let checks = log.health().await.checks;
        let files = checks.iter().find(|check| check.name == "files").unwrap();
        !files.ok && files.detail.contains("issuer/")
    })
    .await;
    eventually("reads fail", async || log.issuer(&unknown).await.is_err()).await;
    for (path, bytes) in issuers.iter().zip(removed) {
        world.assets.tamper(path, bytes);
    }
    eventually("the check of the files passes", async || {
        log.health().await.ok()
    })
    .await;
    eventually("reads succeed", async || log.issuer(&unknown).await.is_ok()).await;
    log.shutdown().await;
}

/// A retired log signs no tree head, but its readers get no invalid signature.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_second_signature_in_the_lock_is_replaced() {
    let mut world = World::new().await;
    world.config.policy.not_after_limit = Some(0);
    let id = world.config.key.log_id().0;
    let signed = world.lock.load(&id).await.unwrap().unwrap();
    let mut damaged = signed.clone();
    let at = signed.len() - 100;
    damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
    world.lock.replace(&id, &signed, &damaged).await.unwrap();
    let published = bytes::Bytes::from(damaged);
    world.assets.tamper("checkpoint", Some(published));

    let log = world.start();
    reached(&log, |state| *state == State::Retired).await;
    let cosigner = key().cosigner("log.example/test").unwrap().unwrap();
    let is_valid = |note: &[u8]| {
        let verified = cosigner
            .verifier()
            .verify(&SignedNote::parse(note).unwrap());
        verified.is_ok_and(|timestamp| timestamp.is_some())
    };
    eventually("valid signatures", async || {
        let held = world.lock.load(&id).await.unwrap().unwrap();
        let published = world.assets.get("checkpoint").await.unwrap().unwrap();
        is_valid(&held) && held == published
    })
    .await;
    log.shutdown().await;
}
