//! The test cases for [`Assets`](crate::Assets).

use bytes::Bytes;

use super::AssetsBackend;
use crate::{Asset, AssetError, AssetKind, Assets, Encoding};

type Backend<'b> = &'b dyn AssetsBackend;

async fn publish(assets: &dyn Assets, path: &str, bytes: &[u8]) {
    let asset = Asset::new(path, bytes.to_vec(), AssetKind::HashTile);
    assets.publish(vec![asset]).await.unwrap();
}

async fn get(assets: &dyn Assets, path: &str) -> Option<Bytes> {
    assets.get(path).await.unwrap()
}

async fn stage(assets: &dyn Assets, sizes: impl IntoIterator<Item = u64>) {
    for size in sizes {
        let record = Bytes::from(format!("round to {size}"));
        assets.stage(size, record).await.unwrap();
    }
}

async fn staged(assets: &dyn Assets) -> Vec<String> {
    let records = assets.staged().await.unwrap();
    let text = |record: Bytes| String::from_utf8(record.to_vec()).unwrap();
    records.into_iter().map(text).collect()
}

fn rounds(sizes: impl IntoIterator<Item = u64>) -> Vec<String> {
    let text = |size| format!("round to {size}");
    sizes.into_iter().map(text).collect()
}

/// `staged` returns the records of `stage` in the same process, in order.
pub async fn staged_records_read_back_in_order(backend: Backend<'_>) {
    let assets = backend.open().await;
    stage(&*assets, [3, 7, 400]).await;
    assert_eq!(staged(&*assets).await, rounds([3, 7, 400]));
    stage(&*assets, [401]).await;
    assert_eq!(staged(&*assets).await, rounds([3, 7, 400, 401]));
}

/// A read of the journal concurrently with staged rounds does not change the journal.
pub async fn staged_records_are_seen_beside_rounds(backend: Backend<'_>) {
    let assets = backend.open().await;
    assert!(assets.staged_now().await.unwrap().is_empty());
    for size in 1..4 {
        stage(&*assets, [size]).await;
        let records = assets.staged_now().await.unwrap();
        assert_eq!(records.len() as u64, size);
        assert_eq!(records.last().unwrap(), &rounds([size])[0]);
    }
    assert_eq!(staged(&*assets).await, rounds(1..4));
}

/// The journal of an empty location is empty each time that the location is opened.
pub async fn nothing_is_staged_at_first(backend: Backend<'_>) {
    for _ in 0..3 {
        let assets = backend.open().await;
        assert!(staged(&*assets).await.is_empty());
    }
}

/// The journal outlives its process, even if a process opens it without staging a round, or without
/// reading it.
pub async fn staged_records_survive_reopening(backend: Backend<'_>) {
    stage(&*backend.open().await, [1, 2]).await;
    stage(&*backend.open().await, [3]).await;
    for _ in 0..3 {
        assert_eq!(staged(&*backend.open().await).await, rounds([1, 2, 3]));
    }
    let assets = backend.open().await;
    staged(&*assets).await;
    stage(&*assets, [4]).await;
    drop(assets);
    assert_eq!(staged(&*backend.open().await).await, rounds([1, 2, 3, 4]));
}

/// Records may have any length, from zero bytes to several megabytes.
pub async fn records_of_any_length_read_back(backend: Backend<'_>) {
    let lengths = [0, 1, 4095, 4096, 4097, 5_000_000];
    let record = |length: usize| -> Bytes { (0..length).map(|i| (i % 251) as u8).collect() };
    let assets = backend.open().await;
    for (size, length) in lengths.into_iter().enumerate() {
        assets.stage(size as u64, record(length)).await.unwrap();
    }
    drop(assets);
    let records = backend.open().await.staged().await.unwrap();
    assert_eq!(records.len(), lengths.len());
    for (found, length) in records.iter().zip(lengths) {
        assert!(*found == record(length), "{length} bytes");
    }
}

/// A round that was staged but not committed may be followed by a smaller round.
pub async fn a_record_may_be_staged_again_with_a_smaller_size(backend: Backend<'_>) {
    stage(&*backend.open().await, [10, 20]).await;
    let assets = backend.open().await;
    stage(&*assets, [15, 20]).await;
    drop(assets);
    let assets = backend.open().await;
    assert_eq!(staged(&*assets).await, rounds([10, 20, 15, 20]));
}

/// No record beyond the size may be dropped; all others must be dropped eventually.
pub async fn settling_drops_what_is_settled_and_nothing_else(backend: Backend<'_>) {
    let assets = backend.open().await;
    stage(&*assets, [10, 20, 30]).await;
    assets.settle(10).await.unwrap();
    let left = staged(&*assets).await;
    assert!(left.ends_with(&rounds([20, 30])), "{left:?}");

    stage(&*assets, [40]).await;
    assets.settle(30).await.unwrap();
    let left = staged(&*assets).await;
    assert!(left.ends_with(&rounds([40])), "{left:?}");

    assets.settle(40).await.unwrap();
    assets.settle(40).await.unwrap();
    assert!(staged(&*assets).await.is_empty());
    stage(&*assets, [50]).await;
    drop(assets);
    assert_eq!(staged(&*backend.open().await).await, rounds([50]));
}

/// `settle` is harmless if nothing is published, nothing is staged, or both happened long ago.
pub async fn settling_an_idle_log_is_harmless(backend: Backend<'_>) {
    let assets = backend.open().await;
    for _ in 0..3 {
        assets.settle(0).await.unwrap();
    }
    stage(&*assets, [5]).await;
    for _ in 0..3 {
        assets.settle(4).await.unwrap();
    }
    assert_eq!(staged(&*assets).await, rounds([5]));
}

/// Rounds continue while the journal is truncated repeatedly.
pub async fn settling_runs_beside_rounds(backend: Backend<'_>) {
    let assets = backend.open().await;
    let rounds_done = std::sync::atomic::AtomicU64::new(0);
    let work = async {
        for size in 1..=200 {
            stage(&*assets, [size]).await;
            publish(&*assets, &format!("tile/0/{:03}", size % 50), b"x").await;
            rounds_done.store(size, std::sync::atomic::Ordering::SeqCst);
        }
    };
    let settle = async {
        loop {
            let published = rounds_done.load(std::sync::atomic::Ordering::SeqCst);
            assets.settle(published).await.unwrap();
            if published == 200 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(work, settle);
    stage(&*assets, [201, 202]).await;
    let left = staged(&*assets).await;
    assert!(left.ends_with(&rounds([201, 202])), "{left:?}");
}

/// Published files are readable in the same process and in the next process, settled or not.
pub async fn published_files_read_back(backend: Backend<'_>) {
    let paths = [
        "checkpoint",
        "log.v3.json",
        "issuer/00ff",
        "tile/0/000",
        "tile/0/x001/x234/067",
        "tile/0/x001/x234/067.p/5",
        "tile/data/x001/000",
    ];
    let assets = backend.open().await;
    for path in paths {
        publish(&*assets, path, path.as_bytes()).await;
        assert_eq!(get(&*assets, path).await.unwrap(), path);
    }
    assets.settle(1).await.unwrap();
    publish(&*assets, "tile/1/000.p/1", b"later").await;
    drop(assets);
    let assets = backend.open().await;
    for path in paths {
        assert_eq!(get(&*assets, path).await.unwrap(), path);
    }
    assert_eq!(get(&*assets, "tile/1/000.p/1").await.unwrap(), "later");
}

/// A checkpoint is replaced in every round, even by a shorter checkpoint.
pub async fn publishing_replaces(backend: Backend<'_>) {
    let assets = backend.open().await;
    for body in ["a long first checkpoint", "short", ""] {
        let asset = Asset::new("checkpoint", body, AssetKind::Checkpoint);
        assets.publish(vec![asset]).await.unwrap();
        assert_eq!(get(&*assets, "checkpoint").await.unwrap(), body);
    }
}

/// More signatures are added only to the checkpoint that was published last.
pub async fn only_the_present_checkpoint_is_amended(backend: Backend<'_>) {
    let assets = backend.open().await;
    let amend = async |old: &'static str, new: &'static str| {
        let old = Bytes::from_static(old.as_bytes());
        assets.amend_checkpoint(&old, new.into()).await.unwrap()
    };
    for (published, signed) in [("1", "1 signed"), ("2", "2 signed")] {
        let asset = Asset::new("checkpoint", published, AssetKind::Checkpoint);
        assets.publish(vec![asset]).await.unwrap();
        assert!(!amend("0", "0 signed").await);
        assert!(!amend("1 signed", "1 signed twice").await);
        assert_eq!(get(&*assets, "checkpoint").await.unwrap(), published);
        assert!(amend(published, signed).await);
        assert!(!amend(published, "once more").await);
        assert_eq!(get(&*assets, "checkpoint").await.unwrap(), signed);
    }
}

/// Reading an absent file or a directory returns `None`.
pub async fn an_absent_file_is_none(backend: Backend<'_>) {
    let assets = backend.open().await;
    publish(&*assets, "tile/0/000.p/1", b"x").await;
    for path in ["checkpoint", "tile", "tile/0/000", "tile/0/000.p/1/2"] {
        assert_eq!(get(&*assets, path).await, None, "{path}");
    }
}

/// Compressed bytes are neither decoded nor encoded.
pub async fn bytes_are_stored_as_given(backend: Backend<'_>) {
    let gzip = b"\x1f\x8b\x08\x00 whatever";
    let kind = AssetKind::DataTile {
        encoding: Encoding::Gzip,
    };
    let assets = backend.open().await;
    let asset = Asset::new("tile/data/000", &gzip[..], kind);
    assets.publish(vec![asset]).await.unwrap();
    assert_eq!(get(&*assets, "tile/data/000").await.unwrap(), &gzip[..]);
}

/// Paths outside the log's location can be neither written nor read.
pub async fn paths_outside_are_refused(backend: Backend<'_>) {
    let assets = backend.open().await;
    for path in [
        "",
        "/checkpoint",
        "../x",
        "tile/../x",
        ".lucarne/lock",
        "tile//0",
    ] {
        let asset = Asset::new(path, "x", AssetKind::HashTile);
        let refused = assets.publish(vec![asset]).await;
        assert!(
            matches!(refused, Err(AssetError::BadPath { .. })),
            "{path:?}"
        );
        assert!(matches!(
            assets.get(path).await,
            Err(AssetError::BadPath { .. })
        ));
        let tiles = [path.to_owned()];
        let refused = assets.remove_partials(&tiles).await;
        assert!(
            matches!(refused, Err(AssetError::BadPath { .. })),
            "{path:?}"
        );
    }
}

/// All paths are checked before anything is written.
pub async fn one_bad_path_publishes_nothing(backend: Backend<'_>) {
    let assets = backend.open().await;
    let batch = ["tile/0/000", "../x"].map(|p| Asset::new(p, "x", AssetKind::HashTile));
    assert!(assets.publish(batch.to_vec()).await.is_err());
    assert_eq!(get(&*assets, "tile/0/000").await, None);
}

/// Widths are sorted as numbers and must be valid numbers.
pub async fn partials_are_listed_in_order(backend: Backend<'_>) {
    let assets = backend.open().await;
    assert!(assets.partials("tile/0/000").await.unwrap().is_empty());
    for name in ["9", "100", "255", "20", "0", "256", "07", "x"] {
        publish(&*assets, &format!("tile/0/000.p/{name}"), b"x").await;
    }
    publish(&*assets, "tile/0/001.p/7", b"x").await;
    let widths = assets.partials("tile/0/000").await.unwrap();
    assert_eq!(widths, [9, 20, 100, 255]);
}

/// The list has only the files and directories of one directory.
pub async fn a_directory_of_tiles_is_listed(backend: Backend<'_>) {
    let assets = backend.open().await;
    for path in [
        "tile/0/x001/000",
        "tile/0/x001/000.p/7",
        "tile/0/x001/999",
        "tile/0/x0010/5",
        "tile/0/001",
    ] {
        publish(&*assets, path, b"x").await;
    }
    let list = async |tile| {
        let mut names = assets.beside(tile).await.unwrap().unwrap();
        names.sort();
        names
    };
    assert_eq!(list("tile/0/x001/123").await, ["000", "000.p", "999"]);
    assert_eq!(list("tile/0/000").await, ["001", "x001", "x0010"]);
    assert!(list("tile/1/000").await.is_empty());
}

/// Only partial tiles of the named tiles are removed, never the full tile.
pub async fn partials_of_full_tiles_are_removed(backend: Backend<'_>) {
    let assets = backend.open().await;
    for path in [
        "tile/0/000",
        "tile/0/000.p/1",
        "tile/0/000.p/200",
        "tile/0/001.p/1",
        "tile/data/000.p/3",
        "tile/0/0000.p/1",
    ] {
        publish(&*assets, path, b"x").await;
    }
    let full = ["tile/0/000", "tile/data/000", "tile/5/000"].map(String::from);
    for _ in 0..2 {
        assets.remove_partials(&full).await.unwrap();
    }
    for tile in ["tile/0/000", "tile/data/000"] {
        assert!(assets.partials(tile).await.unwrap().is_empty(), "{tile}");
    }
    for path in ["tile/0/000", "tile/0/001.p/1", "tile/0/0000.p/1"] {
        assert!(get(&*assets, path).await.is_some(), "{path}");
    }
    assets.settle(1).await.unwrap();
}

/// A recovery may publish a partial tile again after its removal.
pub async fn a_removed_partial_can_be_published_again(backend: Backend<'_>) {
    let assets = backend.open().await;
    for _ in 0..3 {
        publish(&*assets, "tile/0/000.p/1", b"x").await;
        let tiles = ["tile/0/000".to_owned()];
        assets.remove_partials(&tiles).await.unwrap();
        assert_eq!(get(&*assets, "tile/0/000.p/1").await, None);
    }
}

/// A batch can be far larger than the batch of any round, and create many directories.
pub async fn many_files_at_once(backend: Backend<'_>) {
    let path = |i: u32| format!("tile/0/x{:03}/{:03}", i / 10, i % 10);
    let asset = |i| Asset::new(path(i), i.to_string(), AssetKind::HashTile);
    let assets = backend.open().await;
    assets.publish((0..500).map(asset).collect()).await.unwrap();
    for i in 0..500 {
        assert_eq!(get(&*assets, &path(i)).await.unwrap(), i.to_string());
    }
}

/// The counters that metrics show grow with each operation.
pub async fn statistics_count(backend: Backend<'_>) {
    let assets = backend.open().await;
    stage(&*assets, [1]).await;
    publish(&*assets, "checkpoint", b"12345").await;
    publish(&*assets, "tile/0/000.p/1", b"1").await;
    let tiles = ["tile/0/000".to_owned()];
    assets.remove_partials(&tiles).await.unwrap();
    assert!(!assets.location().is_empty());
    let stats = assets.stats();
    assert!(stats.journal_bytes() >= "round to 1".len() as u64);
    assert_eq!(stats.published_bytes(), 6);
    assert_eq!(stats.published_files(), 2);
    assert_eq!(stats.removed_files(), 1);
}

/// A private file has the last bytes that were written, is read up to a length, and is not among
/// the public files.
pub async fn private_files_are_replaced_bounded_and_not_public(backend: Backend<'_>) {
    let assets = backend.open().await;
    if !assets.keeps_private() {
        return;
    }
    let name = "index/manifest.json";
    assert_eq!(assets.get_private(name, 9).await.unwrap(), None);
    for text in ["first", "second"] {
        assets.put_private(name, text.into()).await.unwrap();
        let found = assets.get_private(name, 9).await.unwrap();
        assert_eq!(found.unwrap(), text);
    }
    let too_long = assets.get_private(name, 5).await.unwrap_err();
    assert!(
        too_long.to_string().contains("expected at most 5"),
        "{too_long}"
    );
    for wrong in ["../checkpoint", "/etc/passwd", "index/.lock", ""] {
        assert!(assets.put_private(wrong, "x".into()).await.is_err());
        assert!(assets.get_private(wrong, 9).await.is_err());
    }
    assert!(assets.get(".lucarne/index/manifest.json").await.is_err());
    assert_eq!(assets.get(name).await.unwrap(), None);
}
