//! Crashes of a mirror: the process is killed between any two steps, and the power fails with it.

use bytes::Bytes;
use lucarne_cosign::mirror::{UploadRefusal, Uploaded};
use lucarne_storage::conformance::{Fate, PowerLoss};
use lucarne_storage::{Asset, AssetError, Assets, PosixAssets, Repairs, Stats};
use tokio::sync::Notify;

use super::mirror::{head, mirror_of, pushed, upload};
use super::*;

/// Counts the steps of store and lock, and never returns from the step at which the process is
/// killed.
struct Steps {
    left: AtomicUsize,
    killed: Notify,
}

impl Steps {
    async fn step(&self) {
        let subtract = |left: usize| left.checked_sub(1);
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.left.fetch_update(set, fetch, subtract).is_err() {
            self.killed.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

struct Killed<T>(Arc<T>, Arc<Steps>);

#[async_trait]
impl Repairs for Killed<PowerLoss> {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.0.replace(asset).await
    }
}

#[async_trait]
impl Assets for Killed<PowerLoss> {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.0.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.0.staged().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        // The files of one call are written one after the other.
        for asset in assets {
            self.1.step().await;
            self.0.publish(vec![asset]).await?;
        }
        Ok(())
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.1.step().await;
        self.0.settle(size).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.0.get(path).await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        self.1.step().await;
        self.0.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.0.partials(tile_path).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.0.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.0.stats()
    }

    fn location(&self) -> String {
        self.0.location()
    }
}

#[async_trait]
impl Lock for Killed<MemoryLock> {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.0.load(log).await
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        self.1.step().await;
        self.0.create(log, body).await
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.1.step().await;
        self.0.replace(log, old, new).await
    }

    async fn check(&self) -> Result<(), LockError> {
        self.0.check().await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.0.date().await
    }

    fn location(&self) -> String {
        self.0.location()
    }
}

/// Sizes of the log's checkpoints.
const SIZES: [u64; 5] = [5, 256, 300, 700, 1000];

/// Uploads all checkpoints, each in parts of the size of a request, from the state of the mirror.
async fn upload_all(mirror: &lucarne_cosign::Mirror, log: &PushedLog) {
    let mut old = 0;
    for size in SIZES {
        match mirror.add_checkpoint(&log.request(old, size)).await {
            Ok(()) | Err(lucarne_cosign::Refusal::Stale(_)) => old = size,
            Err(error) => panic!("{error}"),
        }
        let mut start = 0;
        loop {
            match upload(mirror, log, head(start, size)).await {
                Ok(Uploaded::Cosigned(_)) => break,
                Ok(Uploaded::Partial(info)) => start = info.next,
                Err(UploadRefusal::Conflict(info)) if info.size == size => start = info.next,
                // The mirror checkpoint, or the pending one, is already larger.
                Err(UploadRefusal::Conflict(info)) if info.size > size => break,
                Err(error) => panic!("{size}: {error}"),
            }
        }
    }
}

/// Returns the size of the checkpoint that the lock has as cosigned, from the mirror after a start.
async fn cosigned_size(mirror: &lucarne_cosign::Mirror) -> u64 {
    let log = mirror.logs().values().next().unwrap();
    mirror.open(log).await.unwrap();
    let published = log.published();
    published.map_or(0, |published| published.size)
}

/// Kills the mirror at its step number `step`. Each file that was not synced has another fate.
/// Returns whether the mirror was killed.
async fn kill_at(step: usize, log: &PushedLog) -> bool {
    let fates = [
        Fate::Kept,
        Fate::Undone,
        Fate::Truncated(0),
        Fate::Truncated(7),
        Fate::Zeroed,
    ];
    let mut fates = fates.into_iter().cycle().skip(step % 5);
    let (folder, lock) = (tempfile::tempdir().unwrap(), Arc::new(memory()));
    let left = AtomicUsize::new(step);
    let steps = Arc::new(Steps {
        left,
        killed: Notify::new(),
    });
    let power = Arc::new(PowerLoss::new(PosixAssets::open(folder.path()).unwrap()));
    let store = Killed(power.clone(), steps.clone());
    let mirror = mirror_of(
        Arc::new(Killed(lock.clone(), steps.clone())),
        Arc::new(store),
    );
    let killed = tokio::select! {
        () = upload_all(&mirror, log) => false,
        () = steps.killed.notified() => true,
    };
    drop(mirror);
    power.fail_power(|_| fates.next().unwrap());
    drop(power);

    let assets = Arc::new(PosixAssets::open(folder.path()).unwrap());
    let mirror = mirror_of(lock, assets.clone());
    let size = cosigned_size(&mirror).await;
    log.assert_complete(&*assets, size).await;
    upload_all(&mirror, log).await;
    assert_eq!(cosigned_size(&mirror).await, 1000);
    log.assert_complete(&*assets, 1000).await;
    killed
}

/// Clients end their requests at the step number `step`: the same mirror continues from the
/// checkpoint in the lock. Returns whether a request was ended.
async fn end_requests_at(step: usize, log: &PushedLog) -> bool {
    let (folder, lock) = (tempfile::tempdir().unwrap(), Arc::new(memory()));
    let steps = Arc::new(Steps {
        left: AtomicUsize::new(step),
        killed: Notify::new(),
    });
    let store = Arc::new(PowerLoss::new(PosixAssets::open(folder.path()).unwrap()));
    let mirror = mirror_of(
        Arc::new(Killed(lock.clone(), steps.clone())),
        Arc::new(Killed(store.clone(), steps.clone())),
    );
    let ended = tokio::select! {
        () = upload_all(&mirror, log) => false,
        () = steps.killed.notified() => true,
    };
    steps.left.store(usize::MAX, Ordering::SeqCst);
    let size = cosigned_size(&mirror).await;
    assert_eq!(size, cosigned_size(&mirror_of(lock, store.clone())).await);
    log.assert_complete(&*store, size).await;
    upload_all(&mirror, log).await;
    assert_eq!(cosigned_size(&mirror).await, 1000);
    log.assert_complete(&*store, 1000).await;
    ended
}

#[tokio::test]
async fn requests_can_end_at_any_step() {
    let log = pushed(1000);
    for step in 0.. {
        if !end_requests_at(step, &log).await {
            assert!(step > 30, "{step} steps");
            return;
        }
    }
}

#[tokio::test]
async fn cosigned_checkpoints_are_complete_after_every_crash() {
    let log = pushed(1000);
    for step in 0.. {
        if !kill_at(step, &log).await {
            assert!(step > 30, "{step} steps");
            return;
        }
    }
}
