//! Tests with a real full disk and a real read-only disk. Each test runs in a separate mount
//! namespace with a small tmpfs, which is removed with the namespace.

use bytes::Bytes;
use lucarne_storage::{
    Asset, AssetError, AssetKind, Assets, Lock, LockError, PosixAssets, SqlLock,
};
use lucarne_testkit::SmallDisk;

/// Returns a disk of 1 MiB for `test`: see [`SmallDisk::inside`].
fn small_disk(test: &str) -> Option<SmallDisk> {
    SmallDisk::inside(test, 1)
}

fn checkpoint(bytes: usize) -> Vec<Asset> {
    let kind = AssetKind::Checkpoint;
    vec![Asset::new("checkpoint", vec![b'x'; bytes], kind)]
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let Some(disk) = small_disk("a_full_disk_loses_nothing_that_was_acknowledged") else {
        return;
    };
    let assets = PosixAssets::create(disk.path().join("log")).unwrap();
    let reserve = disk.path().join("reserve");
    std::fs::write(&reserve, [0; 100_000]).unwrap();
    let record = Bytes::from(vec![7; 30_000]);
    let mut acknowledged = 0;
    let error = loop {
        match assets.stage(acknowledged + 1, record.clone()).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && acknowledged > 10, "{error}");
    let message = error.to_string();
    assert!(
        message.contains(".lucarne/journal/") && message.contains("free space"),
        "{message}"
    );
    let next = assets.stage(acknowledged + 2, Bytes::new()).await;
    assert!(matches!(next, Err(AssetError::Poisoned { .. })), "{next:?}");

    // The disk is still full: reopening reports this and can be retried.
    disk.fill();
    assert!(assets.staged().await.unwrap_err().is_full());
    let unopened = assets.stage(acknowledged + 1, Bytes::new()).await;
    assert!(matches!(unopened, Err(AssetError::Poisoned { .. })));
    disk.free();
    std::fs::remove_file(reserve).unwrap();
    let records = assets.staged().await.unwrap();
    assert_eq!(records.len() as u64, acknowledged);
    assert!(records.iter().all(|r| *r == record));
    assets
        .stage(acknowledged + 1, record.clone())
        .await
        .unwrap();
    assert_eq!(assets.staged().await.unwrap().len(), records.len() + 1);
}

#[tokio::test]
async fn publishing_on_a_full_disk_keeps_what_was_there() {
    let Some(disk) = small_disk("publishing_on_a_full_disk_keeps_what_was_there") else {
        return;
    };
    let assets = PosixAssets::create(disk.path().join("log")).unwrap();
    assets.publish(checkpoint(100)).await.unwrap();
    disk.fill();
    for _ in 0..3 {
        let error = assets.publish(checkpoint(10_000)).await.unwrap_err();
        assert!(error.is_full(), "{error}");
    }
    assert_eq!(assets.get("checkpoint").await.unwrap().unwrap().len(), 100);
    assert_eq!(assets.headroom().await.unwrap(), Some(0));
    disk.free();
    assets.publish(checkpoint(10_000)).await.unwrap();
    assets.settle(1).await.unwrap();
}

#[tokio::test]
async fn a_lock_on_a_full_disk_says_so_and_recovers() {
    let Some(disk) = small_disk("a_lock_on_a_full_disk_says_so_and_recovers") else {
        return;
    };
    let path = disk.path().join("locks.db").display().to_string();
    let lock = SqlLock::create(&path).await.unwrap();
    let (log, mut old, mut n) = ([1; 32], b"0".to_vec(), 0);
    lock.create(&log, &old).await.unwrap();
    disk.fill();
    let error = loop {
        // SQLite writes nothing if the row already has these bytes.
        n += 1;
        let new = format!("{n:04}").repeat(200).into_bytes();
        match lock.replace(&log, &old, &new).await {
            Ok(()) => old = new,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LockError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("free space"), "{error}");
    disk.free();
    let found = lock.load(&log).await.unwrap().unwrap();
    lock.replace(&log, &found, b"after").await.unwrap();
}

#[tokio::test]
async fn a_read_only_file_system_is_refused_with_the_path() {
    let Some(disk) = small_disk("a_read_only_file_system_is_refused_with_the_path") else {
        return;
    };
    let (log, database) = (disk.path().join("log"), disk.path().join("locks.db"));
    let database = database.display().to_string();
    PosixAssets::create(&log).unwrap();
    SqlLock::create(&database).await.unwrap().close().await;
    disk.make_read_only();

    let error = PosixAssets::open(&log).err().unwrap();
    assert!(matches!(error, AssetError::ReadOnly { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&log.display().to_string()), "{message}");
    assert!(message.contains("mount options"), "{message}");

    let message = match SqlLock::open(&database).await {
        Err(error) => error.to_string(),
        Ok(lock) => lock.check().await.unwrap_err().to_string(),
    };
    assert!(
        message.contains(&database) && message.contains("writable"),
        "{message}"
    );
}

/// A killed process leaves its write-ahead log next to the database. SQLite then opens both on a
/// read-only disk, too.
#[tokio::test]
async fn a_lock_opened_read_only_says_so_and_writes_once_it_can() {
    let Some(disk) = small_disk("a_lock_opened_read_only_says_so_and_writes_once_it_can") else {
        return;
    };
    let path = |name: &str| disk.path().join(name).display().to_string();
    let lock = SqlLock::create(&path("locks.db")).await.unwrap();
    lock.create(&[1; 32], b"0").await.unwrap();
    for file in ["", "-wal", "-shm"] {
        let (from, to) = (format!("locks.db{file}"), format!("left.db{file}"));
        std::fs::copy(path(&from), path(&to)).unwrap();
    }
    lock.close().await;
    drop(lock);
    disk.make_read_only();
    let lock = SqlLock::open(&path("left.db")).await.unwrap();
    for _ in 0..2 {
        let message = lock.check().await.unwrap_err().to_string();
        assert!(
            message.contains("must be writable by this user"),
            "{message}"
        );
        lock.replace(&[1; 32], b"0", b"1").await.unwrap_err();
    }
    assert_eq!(lock.load(&[1; 32]).await.unwrap().unwrap(), b"0");
    disk.make_writable();
    // The next failure reopens the file.
    let _ = lock.check().await;
    lock.check().await.unwrap();
    lock.replace(&[1; 32], b"0", b"1").await.unwrap();
    assert_eq!(lock.load(&[1; 32]).await.unwrap().unwrap(), b"1");
}

#[tokio::test]
async fn a_tile_directory_on_another_file_system_is_refused() {
    let Some(disk) = small_disk("a_tile_directory_on_another_file_system_is_refused") else {
        return;
    };
    let log = disk.path().join("log");
    let assets = PosixAssets::create(&log).unwrap();
    let tiles = log.join("tile");
    std::fs::create_dir(&tiles).unwrap();
    disk.mount_another(&tiles);
    let tile = Asset::new("tile/0/000", "x", AssetKind::HashTile);
    let error = assets.publish(vec![tile]).await.unwrap_err();
    assert!(
        matches!(error, AssetError::OtherFileSystem { .. }),
        "{error}"
    );
}
