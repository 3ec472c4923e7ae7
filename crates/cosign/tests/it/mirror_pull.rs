//! Copies of static CT logs, which a mirror reads itself.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use lucarne_cosign::Refusal;
use lucarne_cosign::mirror::{
    EntryFormat, Mirror, MirroredLog, PullError, Puller, TreeError, UploadRefusal,
};
use lucarne_ct::{CheckpointVerifier, Fingerprint, LogKey, SignedEntryRef, TileLeafRef};
use lucarne_ctread::{Bucket, Source, SourceError, gunzip};
use lucarne_storage::conformance::PowerLoss;
use lucarne_storage::memory::Operation;
use lucarne_storage::{Asset, AssetError, AssetKind, Assets, MemoryAssets, PosixAssets};
use tokio::sync::Notify;

use super::*;

/// The certificate that has issued all entries.
const ISSUER: &[u8] = b"issuer";

fn key() -> LogKey {
    LogKey::from_seed(&[7; 32]).unwrap()
}

fn verifier() -> CheckpointVerifier {
    CheckpointVerifier::new(ORIGIN, key().public_key_spki()).unwrap()
}

/// Appends an entry to a data tile, and returns its leaf hash.
fn entry(index: u64, branch: u8, tile: &mut Vec<u8>) -> Hash {
    let [_, _, _, index_bytes @ ..] = index.to_be_bytes();
    let extensions = [&[0, 0, 5][..], &index_bytes].concat();
    let leaf = TileLeafRef {
        timestamp: 1000 + index,
        signed: SignedEntryRef::X509 {
            certificate: &[branch, 1, 2],
        },
        extensions: &extensions,
        precertificate: None,
        index,
        fingerprints: Default::default(),
    };
    leaf.encode(tile);
    // The list of fingerprints is the end of the entry.
    tile.truncate(tile.len() - 2);
    tile.extend_from_slice(&32u16.to_be_bytes());
    tile.extend_from_slice(&Fingerprint::of(ISSUER).0);
    leaf.leaf_hash(&mut Vec::new())
}

fn issuer_path() -> String {
    format!("issuer/{}", Fingerprint::of(ISSUER))
}

/// Publishes the log of `size` entries. Two branches have the same first ten entries.
fn grow(files: &MemoryAssets, size: u64, branch: u8) {
    let branch = |index| if index < 10 { 0 } else { branch };
    let leaf = |index| entry(index, branch(index), &mut Vec::new());
    let leaves: Vec<Hash> = (0..size).map(leaf).collect();
    let mut edge = RightEdge::new();
    for (tile, bytes) in edge.append(&leaves) {
        files.tamper(&tile.path(), Some(bytes.into()));
    }
    for index in 0..size.div_ceil(TILE_WIDTH) {
        let tile = Tile::widest(Level::Data, index, size).unwrap();
        let mut bytes = Vec::new();
        for index in tile.start_leaf()..tile.end_leaf() {
            entry(index, branch(index), &mut bytes);
        }
        files.tamper(&tile.path(), Some(bytes.into()));
    }
    files.tamper(&issuer_path(), Some(ISSUER.into()));
    let note = key().sign_checkpoint(ORIGIN, size, &edge.root(), NOW * 1000);
    files.tamper("checkpoint", Some(note.unwrap().into_bytes().into()));
}

fn mirror(lock: &MemoryLock, assets: &MemoryAssets) -> Mirror {
    mirror_in(lock, Arc::new(assets.clone()))
}

fn mirror_in(lock: &MemoryLock, assets: Arc<dyn Assets>) -> Mirror {
    mirror_of(lock, EntryFormat::StaticCt, assets)
}

fn mirror_of(lock: &MemoryLock, format: EntryFormat, assets: Arc<dyn Assets>) -> Mirror {
    let mut logs = LogKeys::default();
    logs.add(ORIGIN, TrustedKey::Ct(verifier()));
    let witness = Witness::new(cosigners(), logs, Arc::new(lock.clone())).unwrap();
    let logs = [(ORIGIN.to_owned(), format, assets)];
    Mirror::new(witness, &[9; 32], logs)
}

fn the_log(mirror: &Mirror) -> &MirroredLog {
    mirror.logs().values().next().unwrap()
}

fn puller(files: &MemoryAssets) -> Puller {
    Puller::new(Arc::new(Bucket(Arc::new(files.clone()))), verifier())
}

async fn pull(mirror: &Mirror, puller: &mut Puller) -> Result<(), PullError> {
    puller.pull(mirror, the_log(mirror), NOW).await
}

/// Returns the text of the published checkpoint.
async fn published(assets: &MemoryAssets) -> String {
    let note = assets.get("checkpoint").await.unwrap().unwrap();
    SignedNote::parse(&note).unwrap().text
}

/// Verifies that a copy has all files of the log, with the same content.
async fn assert_copied(files: &MemoryAssets, copy: &MemoryAssets, size: u64) {
    assert_eq!(published(copy).await, published(files).await);
    let hashes = tiles_between(0, size).map(|tile| tile.path());
    let data = data_tiles_between(0, size).map(|tile| tile.path());
    for path in hashes.chain(data).chain([issuer_path()]) {
        let original = files.get(&path).await.unwrap().unwrap();
        let copied = copy
            .get(&path)
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("{path}"));
        assert!(gunzip(copied).unwrap() == original, "{path}");
    }
}

#[tokio::test]
async fn a_copy_continues_after_restarts() {
    let (lock, files, copy) = (memory(), MemoryAssets::new(), MemoryAssets::new());
    grow(&files, 300, 0);
    let first = mirror(&lock, &copy);
    pull(&first, &mut puller(&files)).await.unwrap();
    assert_copied(&files, &copy, 300).await;

    // The log stops in the middle of the next part, and the mirror is restarted.
    grow(&files, 900, 0);
    let missing = files.get("tile/data/002").await.unwrap();
    files.tamper("tile/data/002", None);
    let stopped = pull(&first, &mut puller(&files)).await;
    assert!(matches!(stopped, Err(PullError::Source(_))), "{stopped:?}");
    assert!(copy.paths().contains(&"tile/data/001".to_owned()));
    drop(first);
    files.tamper("tile/data/002", missing);
    let second = mirror(&lock, &copy);
    pull(&second, &mut puller(&files)).await.unwrap();
    assert_copied(&files, &copy, 900).await;
}

/// `from` was removed from the configuration: the copy is refused in the other format, and its
/// checkpoint is the first that a pending checkpoint must extend.
#[tokio::test]
async fn a_copy_has_one_format() {
    let (lock, files, copy) = (memory(), MemoryAssets::new(), MemoryAssets::new());
    grow(&files, 512, 0);
    let copied = mirror(&lock, &copy);
    pull(&copied, &mut puller(&files)).await.unwrap();
    copied.open(the_log(&copied)).await.unwrap();
    drop(copied);

    let pushed = mirror_of(&lock, EntryFormat::Bundles, Arc::new(copy));
    let refused = pushed.open(the_log(&pushed)).await;
    match refused {
        Err(UploadRefusal::Tree(TreeError::Read(error))) => {
            assert_eq!(error.path, "tile/entries/001");
        }
        other => panic!("{other:?}"),
    }

    grow(&files, 512, 1);
    let note = files.get("checkpoint").await.unwrap().unwrap();
    let note = SignedNote::parse(&note).unwrap();
    let checkpoint = Checkpoint::parse(&note.text).unwrap();
    let fork = AddCheckpoint {
        old: 0,
        proof: Vec::new(),
        note,
        checkpoint,
    };
    let refused = pushed.add_checkpoint(&fork).await;
    assert!(matches!(refused, Err(Refusal::Stale(512))), "{refused:?}");
    assert_eq!(pushed.witness().contradictions(ORIGIN).await.unwrap(), 1);
}

/// A fork is stored as evidence at any size, and the copy continues with the log.
#[tokio::test]
async fn forks_are_stored_as_evidence() {
    let (lock, files, copy) = (memory(), MemoryAssets::new(), MemoryAssets::new());
    grow(&files, 300, 0);
    let mirror = mirror(&lock, &copy);
    let mut puller = puller(&files);
    pull(&mirror, &mut puller).await.unwrap();
    for (stored, size) in [(1, 300), (2, 700), (2, 700)] {
        grow(&files, size, 1);
        let refused = pull(&mirror, &mut puller).await;
        assert!(matches!(refused, Err(PullError::Source(_))), "{refused:?}");
        let witness = mirror.witness();
        assert_eq!(witness.contradictions(ORIGIN).await.unwrap(), stored);
        let contradiction = witness.contradiction(ORIGIN, stored - 1).await.unwrap();
        let contradiction = contradiction.unwrap();
        let [recorded, submitted] = [contradiction.recorded, contradiction.submitted]
            .map(|note| SignedNote::parse(note.as_bytes()).unwrap().text);
        assert_eq!(recorded, published(&copy).await);
        assert_eq!(submitted, published(&files).await);
    }
    grow(&files, 700, 0);
    pull(&mirror, &mut puller).await.unwrap();
    assert_copied(&files, &copy, 700).await;
}

/// A fork whose entries are missing does not stop the copy of the log.
#[tokio::test]
async fn a_copy_continues_after_an_unread_fork() {
    let (lock, files, copy) = (memory(), MemoryAssets::new(), MemoryAssets::new());
    let mirror = mirror(&lock, &copy);
    let mut puller = puller(&files);
    grow(&files, 100, 1);
    files.tamper("tile/data/000.p/100", None);
    pull(&mirror, &mut puller).await.unwrap_err();
    grow(&files, 100, 0);
    pull(&mirror, &mut puller).await.unwrap();
    assert_copied(&files, &copy, 100).await;
}

/// A sync fails, and the issuer is lost: it is written again before the checkpoint is cosigned.
#[tokio::test]
async fn issuers_are_written_again_after_a_failed_sync() {
    let (lock, files, copy) = (memory(), MemoryAssets::new(), MemoryAssets::new());
    grow(&files, 300, 0);
    let mirror = mirror(&lock, &copy);
    let mut puller = puller(&files);
    let (store, failed) = (copy.clone(), AtomicBool::new(false));
    copy.inject(move |operation| {
        if operation != Operation::Settle || failed.swap(true, Ordering::SeqCst) {
            return None;
        }
        store.tamper(&issuer_path(), None);
        Some(AssetError::Silent {
            directory: "memory".to_owned(),
        })
    });
    let unsynced = pull(&mirror, &mut puller).await;
    assert!(matches!(
        unsynced,
        Err(PullError::Mirror(UploadRefusal::Tree(TreeError::Store(_))))
    ));
    pull(&mirror, &mut puller).await.unwrap();
    assert_copied(&files, &copy, 300).await;
}

/// The mirror is killed before the first sync, and its files survive in memory: the next process
/// writes the issuer again, so that its sync includes the file.
#[tokio::test]
async fn issuers_of_an_earlier_process_are_synced() {
    let (lock, files, folder) = (memory(), MemoryAssets::new(), tempfile::tempdir().unwrap());
    grow(&files, 300, 0);
    let store = PosixAssets::open(folder.path()).unwrap();
    let issuer = Asset::new(issuer_path(), ISSUER, AssetKind::Issuer);
    store.publish(vec![issuer]).await.unwrap();
    drop(store);
    let power = Arc::new(PowerLoss::new(PosixAssets::open(folder.path()).unwrap()));
    let mirror = mirror_in(&lock, power.clone());
    // The second data tile is missing: the copy stops before its sync.
    files.tamper("tile/data/001.p/44", None);
    let stopped = pull(&mirror, &mut puller(&files)).await;
    assert!(matches!(stopped, Err(PullError::Source(_))), "{stopped:?}");
    assert!(power.unsettled().contains(&issuer_path()));
}

/// A source whose data tiles wait until another mirror has finished.
struct Waiting {
    files: Bucket,
    reached: Notify,
    finished: Notify,
}

#[async_trait]
impl Source for Waiting {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        if path.starts_with("tile/data/") {
            self.reached.notify_one();
            self.finished.notified().await;
        }
        self.files.read(path).await
    }
}

/// Two mirrors have the same key and lock, and the log shows each of them another history: only one
/// history is cosigned.
#[tokio::test]
async fn two_mirrors_with_one_lock_cosign_one_history() {
    for size in [100, 150] {
        let lock = memory();
        let [left, right, left_copy, right_copy] = [(); 4].map(|()| MemoryAssets::new());
        grow(&left, 100, 0);
        grow(&right, size, 1);
        let (one, two) = (mirror(&lock, &left_copy), mirror(&lock, &right_copy));
        let source = Arc::new(Waiting {
            files: Bucket(Arc::new(right.clone())),
            reached: Notify::new(),
            finished: Notify::new(),
        });
        let mut late = Puller::new(source.clone(), verifier());
        let (refused, ()) = tokio::join!(pull(&two, &mut late), async {
            source.reached.notified().await;
            pull(&one, &mut puller(&left)).await.unwrap();
            source.finished.notify_one();
        });
        assert!(
            matches!(
                refused,
                Err(PullError::Mirror(UploadRefusal::Checkpoint(Refusal::Busy)))
            ),
            "{refused:?}"
        );
        // The other history stays refused, also when it grows.
        for grown in [size, 700] {
            grow(&right, grown, 1);
            pull(&two, &mut puller(&right)).await.unwrap_err();
        }
        assert_eq!(right_copy.get("checkpoint").await.unwrap(), None);
        grow(&left, 700, 0);
        pull(&one, &mut puller(&left)).await.unwrap();
        assert_copied(&left, &left_copy, 700).await;
    }
}
