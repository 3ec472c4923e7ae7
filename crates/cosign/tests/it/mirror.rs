//! The rules of a mirror (C2SP tlog-mirror).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lucarne_cosign::mirror::upload::{MirrorInfo, Package, UploadHead};
use lucarne_cosign::mirror::{EntryFormat, Mirror, TreeError, UploadRefusal, Uploaded};
use lucarne_cosign::{Refusal, SignSubtree};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Assets, MemoryAssets};

use super::*;

pub(crate) fn pushed(size: usize) -> PushedLog {
    PushedLog::new(ORIGIN, size)
}

pub(crate) fn head(start: u64, end: u64) -> UploadHead {
    UploadHead {
        origin: ORIGIN.to_owned(),
        start,
        end,
        ticket: Vec::new(),
    }
}

pub(crate) fn mirror(lock: impl Lock, assets: Arc<dyn Assets>) -> Mirror {
    mirror_of(Arc::new(lock), assets)
}

pub(crate) fn mirror_of(lock: Arc<dyn Lock>, assets: Arc<dyn Assets>) -> Mirror {
    let logs = [(ORIGIN.to_owned(), EntryFormat::Bundles, assets)];
    Mirror::new(witness_of(&[ORIGIN], lock), &[9; 32], logs)
}

/// Uploads at most `packages` packages.
async fn upload_some(
    mirror: &Mirror,
    log: &PushedLog,
    head: UploadHead,
    packages: usize,
) -> Result<Uploaded, UploadRefusal> {
    let size = head.end;
    let mut upload = mirror.upload(head).await?;
    for _ in 0..packages {
        let Some(leaves) = upload.next_package() else {
            break;
        };
        upload.add(log.package(leaves, size)).await?;
    }
    upload.finish(NOW).await
}

pub(crate) async fn upload(
    mirror: &Mirror,
    log: &PushedLog,
    head: UploadHead,
) -> Result<Uploaded, UploadRefusal> {
    upload_some(mirror, log, head, usize::MAX).await
}

fn conflict(outcome: Result<Uploaded, UploadRefusal>) -> MirrorInfo {
    match outcome {
        Err(UploadRefusal::Conflict(info)) => info,
        other => panic!("{other:?}"),
    }
}

fn partial(outcome: Result<Uploaded, UploadRefusal>) -> MirrorInfo {
    match outcome {
        Ok(Uploaded::Partial(info)) => info,
        other => panic!("{other:?}"),
    }
}

fn lines(outcome: Result<Uploaded, UploadRefusal>) -> Vec<NoteSignature> {
    match outcome {
        Ok(Uploaded::Cosigned(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn uploaded_checkpoints_are_cosigned_and_complete() {
    let (log, assets) = (pushed(1000), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets.clone());
    for (old, size) in [
        (0, 0),
        (0, 5),
        (5, 5),
        (5, 300),
        (300, 768),
        (768, 769),
        (769, 1000),
    ] {
        let request = log.request(old, size);
        mirror.add_checkpoint(&request).await.unwrap();
        let published = assets.get("checkpoint").await.unwrap();
        let cosigned_before =
            published.is_some_and(|note| note.starts_with(request.note.text.as_bytes()));
        assert_eq!(
            cosigned_before,
            old == size && size > 0,
            "a pending checkpoint is not cosigned"
        );

        let lines = lines(upload(&mirror, &log, head(old, size)).await);
        assert_eq!(cosigned(&request.note.text, &lines), NOW);
        let note = assets.get("checkpoint").await.unwrap().unwrap();
        let note = SignedNote::parse(&note).unwrap();
        assert_eq!(note.text, request.note.text);
        assert_eq!(
            note.signatures,
            [&request.note.signatures[..], &lines].concat()
        );
        log.assert_complete(&*assets, size).await;
    }
    let superseded = assets
        .paths()
        .into_iter()
        .filter(|path| path.starts_with("tile/0/001.p/"));
    assert_eq!(superseded.count(), 0, "full tiles replace partial tiles");
}

#[tokio::test]
async fn an_upload_continues_after_its_last_package() {
    let (log, assets, lock) = (pushed(1000), Arc::new(MemoryAssets::new()), memory());
    let first = mirror(lock.clone(), assets.clone());
    first.add_checkpoint(&log.request(0, 1000)).await.unwrap();
    let info = partial(upload_some(&first, &log, head(0, 1000), 2).await);
    assert_eq!((info.size, info.next), (1000, 512));
    let published = first.logs().values().next().unwrap().published();
    assert_eq!(published, None);

    // Another checkpoint becomes pending, and the mirror is restarted: the ticket has the first.
    drop(first);
    let second = mirror(lock, assets.clone());
    let bigger = pushed(1100);
    second
        .add_checkpoint(&bigger.request(1000, 1100))
        .await
        .unwrap();
    let without = conflict(upload(&second, &log, head(512, 1000)).await);
    assert_eq!((without.size, without.next), (1100, 512));
    let with = UploadHead {
        ticket: info.ticket,
        ..head(512, 1000)
    };
    // A ticket is bound to its size and to its bytes: the code, and the note.
    for (at, end) in [(0, 1000), (40, 1000), (usize::MAX, 999)] {
        let mut with = UploadHead {
            end,
            ..with.clone()
        };
        if let Some(byte) = with.ticket.get_mut(at) {
            *byte ^= 1;
        }
        let info = conflict(upload(&second, &log, with).await);
        assert_eq!((info.size, info.next), (1100, 512));
    }
    let lines = lines(upload(&second, &log, with).await);
    cosigned(&log.request(0, 1000).note.text, &lines);
    log.assert_complete(&*assets, 1000).await;
}

/// A ticket is valid for one log of the mirror.
#[tokio::test]
async fn tickets_are_bound_to_their_log() {
    let origins = [ORIGIN, "other.example"];
    let logs = origins.map(|origin| PushedLog::new(origin, 700));
    let copies = origins.map(|origin| {
        let assets: Arc<dyn Assets> = Arc::new(MemoryAssets::new());
        (origin.to_owned(), EntryFormat::Bundles, assets)
    });
    let witness = witness_of(&origins, Arc::new(memory()));
    let mirror = Mirror::new(witness, &[9; 32], copies);
    let ticket_of = async |log: &PushedLog, size: u64| {
        mirror.add_checkpoint(&log.request(0, size)).await.unwrap();
        let head = UploadHead {
            origin: log.origin().to_owned(),
            ..head(0, size)
        };
        partial(upload_some(&mirror, log, head, 1).await).ticket
    };
    // The first log has no checkpoint of this size.
    let own = ticket_of(&logs[0], 600).await;
    let other = ticket_of(&logs[1], 700).await;
    for (end, ticket) in [(700, other), (700, own)] {
        let head = UploadHead {
            ticket,
            ..head(256, end)
        };
        let info = conflict(upload(&mirror, &logs[0], head).await);
        assert_eq!((info.size, info.next), (600, 256));
    }
}

/// A long upload is synced in parts, and continues after the last part if the mirror is killed.
#[tokio::test]
async fn long_uploads_are_synced_in_parts() {
    let (log, assets, lock) = (pushed(66_000), Arc::new(MemoryAssets::new()), memory());
    let first = mirror(lock.clone(), assets.clone());
    first.add_checkpoint(&log.request(0, 66_000)).await.unwrap();
    let mut killed = first.upload(head(0, 66_000)).await.unwrap();
    for _ in 0..257 {
        let leaves = killed.next_package().unwrap();
        killed.add(log.package(leaves, 66_000)).await.unwrap();
    }
    drop(killed);
    drop(first);
    let second = mirror(lock, assets.clone());
    let info = conflict(upload(&second, &log, head(65_792, 66_000)).await);
    assert_eq!((info.size, info.next), (66_000, 65_536));
    lines(upload(&second, &log, head(65_536, 66_000)).await);
    log.assert_complete(&*assets, 66_000).await;
}

#[tokio::test]
async fn refused_uploads() {
    let (log, assets) = (pushed(9000), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets.clone());
    let outcome = upload(&mirror, &log, head(0, 300)).await;
    assert!(matches!(outcome, Err(UploadRefusal::NoPending)));
    mirror.add_checkpoint(&log.request(0, 300)).await.unwrap();
    mirror
        .add_checkpoint(&log.request(300, 8800))
        .await
        .unwrap();

    // A size that was never pending; a start after the next entry; no packages.
    let info = conflict(upload(&mirror, &log, head(0, 299)).await);
    assert_eq!((info.size, info.next), (8800, 0));
    let info = conflict(upload(&mirror, &log, head(1, 300)).await);
    assert_eq!((info.size, info.next), (300, 0));
    let outcome = upload_some(&mirror, &log, head(0, 300), 0).await;
    assert!(matches!(outcome, Err(UploadRefusal::Empty)));

    // Entries that are not in the tree, and proofs of others: nothing is stored.
    let good = log.package(0..256, 300);
    let change = |change: &dyn Fn(&mut Package)| {
        let mut package = good.clone();
        change(&mut package);
        package
    };
    for wrong in [
        change(&|package| package.entries[2] ^= 1),
        change(&|package| package.proof[0].0[0] ^= 1),
        change(&|package| package.proof.clear()),
        change(&|package| package.proof.push(Hash([0; 32]))),
        change(&|package| package.proof = vec![Hash([0; 32]); 63]),
    ] {
        let mut upload = mirror.upload(head(0, 300)).await.unwrap();
        assert!(matches!(
            upload.add(wrong).await,
            Err(UploadRefusal::Proof { .. })
        ));
        assert!(assets.paths().is_empty());
    }
    // The package before a wrong one stays.
    let mut broken = mirror.upload(head(0, 300)).await.unwrap();
    broken.add(good).await.unwrap();
    let wrong = Package {
        leaves: 256..300,
        ..log.package(255..299, 300)
    };
    assert!(matches!(
        broken.add(wrong).await,
        Err(UploadRefusal::Proof { .. })
    ));
    assert_eq!(partial(broken.finish(NOW).await).next, 256);

    lines(upload(&mirror, &log, head(256, 300)).await);
    let stale = conflict(upload(&mirror, &log, head(0, 0)).await);
    assert_eq!((stale.size, stale.next), (8800, 300));
    lines(upload(&mirror, &log, head(300, 8800)).await);
    // Too many entries again.
    let info = conflict(upload(&mirror, &log, head(0, 8800)).await);
    assert_eq!((info.size, info.next), (8800, 8800));
    lines(upload(&mirror, &log, head(8800 - 8192, 8800)).await);
    // Other refusals of add-checkpoint are those of a witness.
    assert!(matches!(
        mirror.add_checkpoint(&log.request(300, 9000)).await,
        Err(Refusal::Stale(8800))
    ));
}

/// An upload that ends at the mirror checkpoint has no packages, and refreshes the timestamp.
#[tokio::test]
async fn timestamps_are_refreshed() {
    let (log, assets) = (pushed(300), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets.clone());
    let request = log.request(0, 300);
    mirror.add_checkpoint(&request).await.unwrap();
    lines(upload(&mirror, &log, head(0, 300)).await);
    for now in [NOW, NOW + 10, NOW + 60] {
        let upload = mirror.upload(head(300, 300)).await.unwrap();
        assert_eq!(upload.next_package(), None);
        let lines = lines(upload.finish(now).await);
        assert_eq!(cosigned(&request.note.text, &lines), now);
        let note = assets.get("checkpoint").await.unwrap().unwrap();
        assert_eq!(SignedNote::parse(&note).unwrap().signatures[1..], lines);
    }
    let back = mirror
        .upload(head(300, 300))
        .await
        .unwrap()
        .finish(NOW - 1000)
        .await;
    assert!(matches!(
        back,
        Err(UploadRefusal::Checkpoint(Refusal::Clock(1060)))
    ));
}

#[tokio::test]
async fn clients_upload_at_the_same_time() {
    let (log, assets) = (pushed(2000), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets.clone());
    for (old, size) in [(0, 700), (700, 1500), (1500, 2000)] {
        mirror
            .add_checkpoint(&log.request(old, size))
            .await
            .unwrap();
    }
    let client = async |mut size: u64, packages: usize| {
        let mut ticket = Vec::new();
        let mut start = 0;
        loop {
            let head = UploadHead {
                ticket,
                ..head(start, size)
            };
            match upload_some(&mirror, &log, head, packages).await {
                Ok(Uploaded::Cosigned(lines)) => {
                    return cosigned(&log.request(0, size).note.text, &lines);
                }
                Ok(Uploaded::Partial(info)) | Err(UploadRefusal::Conflict(info)) => {
                    (size, start, ticket) = (info.size, info.next, info.ticket);
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let clients = (1..=6).map(|n| client([700, 1500, 2000][n % 3], n));
    let clients: Vec<_> = clients.collect();
    futures_util::future::join_all(clients).await;
    // A client that pauses holds nothing.
    let paused = mirror.upload(head(2000, 2000)).await.unwrap();
    lines(upload(&mirror, &log, head(2000, 2000)).await);
    drop(paused);
    log.assert_complete(&*assets, 2000).await;
}

#[tokio::test]
async fn subtrees_of_the_mirror_checkpoint_are_cosigned() {
    let (log, assets) = (pushed(300), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets);
    let added = log.request(0, 300);
    mirror.add_checkpoint(&added).await.unwrap();
    let subtree = Subtree::new(256, 300).unwrap();
    let mut request = SignSubtree {
        subtree,
        hash: subtree_root(subtree, 300, &mut log.reader()).unwrap(),
        proof: subtree_consistency_proof(subtree, 300, &mut log.reader()).unwrap(),
        note: added.note.clone(),
        checkpoint: added.checkpoint,
    };
    assert!(matches!(
        mirror.sign_subtree(&request),
        Err(Refusal::Untrusted(_))
    ));
    request.note.signatures = lines(upload(&mirror, &log, head(0, 300)).await);
    assert_eq!(mirror.sign_subtree(&request).unwrap().len(), 1);
}

/// Each operation of the store fails once: the mirror cosigns nothing incomplete, and continues.
#[tokio::test]
async fn failures_of_the_store() {
    let log = pushed(1000);
    for failing in 1.. {
        let (assets, lock) = (Arc::new(MemoryAssets::new()), memory());
        let left = AtomicUsize::new(failing);
        assets.inject(move |_| {
            let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
            let last = left.fetch_update(set, fetch, |left| left.checked_sub(1));
            (last == Ok(1)).then(|| lucarne_storage::AssetError::Silent {
                directory: "memory".to_owned(),
            })
        });
        let mirror = mirror(lock, assets.clone());
        let (mut start, mut old, mut failed) = (0, 0, 0);
        for size in [300, 1000] {
            mirror
                .add_checkpoint(&log.request(old, size))
                .await
                .unwrap();
            old = size;
            loop {
                match upload(&mirror, &log, head(start, size)).await {
                    Ok(Uploaded::Cosigned(_)) => break,
                    Ok(Uploaded::Partial(info)) | Err(UploadRefusal::Conflict(info)) => {
                        start = info.next
                    }
                    Err(UploadRefusal::Tree(TreeError::Store(_) | TreeError::Read(_))) => {
                        failed += 1
                    }
                    Err(error) => panic!("{failing}: {error}"),
                }
            }
            log.assert_complete(&assets.snapshot(), size).await;
        }
        if failed == 0 {
            assert!(failing > 20, "the store was used {failing} times");
            return;
        }
    }
}

/// A checkpoint is cosigned after a larger tree is durable: its partial tiles are read back, too.
#[tokio::test]
async fn partial_tiles_of_a_smaller_tree_are_read_back() {
    let log = pushed(700);
    for path in ["tile/0/001.p/44", "tile/entries/001.p/44"] {
        let assets = Arc::new(MemoryAssets::new());
        let mirror = mirror(memory(), assets.clone());
        for (old, size) in [(0, 300), (300, 700)] {
            mirror
                .add_checkpoint(&log.request(old, size))
                .await
                .unwrap();
        }
        let info = partial(upload_some(&mirror, &log, head(0, 700), 2).await);
        assert_eq!(info.next, 512);
        let (store, damaged) = (assets.clone(), AtomicBool::new(false));
        assets.inject(move |operation| {
            if operation == Operation::Settle && !damaged.swap(true, Ordering::SeqCst) {
                store.tamper(path, Some(vec![0; 32 * 44].into()));
            }
            None
        });
        let outcome = upload(&mirror, &log, head(0, 300)).await;
        assert!(matches!(outcome, Err(UploadRefusal::Tree(_))), "{path}");
        assert_eq!(assets.get("checkpoint").await.unwrap(), None);
        lines(upload(&mirror, &log, head(0, 300)).await);
        log.assert_complete(&*assets, 300).await;
    }
}

/// Files that change before the cosignature prevent it.
#[tokio::test]
async fn stored_files_are_read_back() {
    let log = pushed(700);
    for path in [
        "tile/0/001",
        "tile/0/002.p/188",
        "tile/1/000.p/2",
        "tile/entries/000",
        "tile/entries/002.p/188",
    ] {
        let assets = Arc::new(MemoryAssets::new());
        let mirror = mirror(memory(), assets.clone());
        mirror.add_checkpoint(&log.request(0, 700)).await.unwrap();
        let (store, damaged) = (assets.clone(), AtomicBool::new(false));
        assets.inject(move |operation| {
            if operation == Operation::Settle && !damaged.swap(true, Ordering::SeqCst) {
                store.tamper(path, Some(vec![0; 32 * 188].into()));
            }
            None
        });
        let outcome = upload(&mirror, &log, head(0, 700)).await;
        assert!(matches!(outcome, Err(UploadRefusal::Tree(_))), "{path}");
        assert_eq!(assets.get("checkpoint").await.unwrap(), None);
        lines(upload(&mirror, &log, head(0, 700)).await);
        log.assert_complete(&*assets, 700).await;
    }
}

/// Each damaged file of a copy is named until a pass finds it intact.
#[tokio::test]
async fn the_scrubber_finds_damaged_files() {
    let (log, assets) = (pushed(600), Arc::new(MemoryAssets::new()));
    let mirror = mirror(memory(), assets.clone());
    mirror.add_checkpoint(&log.request(0, 600)).await.unwrap();
    lines(upload(&mirror, &log, head(0, 600)).await);
    let copy = mirror.logs().values().next().unwrap();
    let scrubbed = async || {
        copy.scrub(|_| Duration::ZERO).await;
        copy.damage()
    };
    assert_eq!(scrubbed().await, [""; 0]);
    for path in [
        "tile/entries/000",
        "tile/entries/002.p/88",
        "tile/0/001",
        "tile/0/002.p/88",
    ] {
        let intact = assets.get(path).await.unwrap().unwrap();
        let mut damaged = intact.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        for wrong in [Some(damaged.into()), None] {
            assets.tamper(path, wrong);
            let found = scrubbed().await;
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(
                found[0].starts_with(path) || found[0].contains("do not lead to its root"),
                "{path}: {found:?}"
            );
        }
        assets.tamper(path, Some(intact));
    }
    assert_eq!(scrubbed().await, [""; 0]);
    assets.inject(|operation| {
        let unavailable = || AssetError::Unavailable {
            action: "read",
            place: "memory".into(),
            detail: "down".into(),
        };
        (operation == Operation::Get).then(unavailable)
    });
    // A store that does not respond is not damaged.
    assert_eq!(scrubbed().await, [""; 0]);
}
