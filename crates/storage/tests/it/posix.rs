//! Tests of the directory of a log: damage, permissions, and exclusive access.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lucarne_storage::conformance::{Fate, PowerLoss};
use lucarne_storage::{Asset, AssetError, AssetKind, Assets, PosixAssets};
use lucarne_testkit::block_until;
use tempfile::TempDir;

const RECORDS: [&str; 3] = ["the first", "", "the third and last"];

/// Opens the directory, and waits if it is still in use. A process that another test starts
/// inherits all open files until it executes another program.
pub(crate) fn open(directory: &TempDir) -> PosixAssets {
    let mut assets = None;
    let what = format!("{} is let go", directory.path().display());
    block_until(&what, || {
        let opened = PosixAssets::open(directory.path());
        let held =
            matches!(opened, Err(AssetError::InUse { pid, .. }) if pid == Some(std::process::id()));
        if !held {
            assets = Some(opened.unwrap());
        }
        !held
    });
    assets.unwrap()
}

fn asset(path: &str, bytes: &str) -> Vec<Asset> {
    let kind = match path {
        "checkpoint" => AssetKind::Checkpoint,
        _ => AssetKind::HashTile,
    };
    vec![Asset::new(path, bytes.to_owned(), kind)]
}

fn journal(directory: &Path) -> PathBuf {
    directory.join(".lucarne/journal")
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(journal(directory)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns one segment with [`RECORDS`].
async fn segment() -> Vec<u8> {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    for (size, record) in RECORDS.into_iter().enumerate() {
        assets.stage(size as u64 + 1, record.into()).await.unwrap();
    }
    let segments = segments(directory.path());
    assert_eq!(segments.len(), 1);
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    // The length without the room for more records.
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes.truncate(last + 1);
    bytes
}

/// Returns a directory whose journal is this one segment.
fn with_segment(bytes: &[u8]) -> TempDir {
    // In memory if possible, because the tests sync hundreds of times.
    let memory = TempDir::new_in("/dev/shm");
    let directory = memory.or_else(|_| TempDir::new()).unwrap();
    std::fs::create_dir_all(journal(directory.path())).unwrap();
    std::fs::write(journal(directory.path()).join("0000000000000001"), bytes).unwrap();
    directory
}

/// Returns the number of records, which must be the first of [`RECORDS`].
fn whole(records: &[Bytes]) -> usize {
    assert!(
        records.iter().zip(RECORDS).all(|(a, b)| a == b),
        "{records:?}"
    );
    records.len()
}

#[tokio::test]
async fn a_tail_torn_at_any_byte_is_dropped_and_the_log_goes_on() {
    let file = segment().await;
    let mut last = 0;
    for length in 0..=file.len() {
        let directory = with_segment(&file[..length]);
        let records = open(&directory).staged().await.unwrap();
        let kept = whole(&records);
        assert!(kept >= last, "length {length}");
        last = kept;

        let assets = open(&directory);
        assets.stage(9, "after the crash".into()).await.unwrap();
        drop(assets);
        // The tear is still there, now in the segment before the newest one.
        let mut records = open(&directory).staged().await.unwrap();
        assert_eq!(records.pop().unwrap(), "after the crash");
        assert_eq!(whole(&records), kept, "length {length}");
    }
    assert_eq!(last, RECORDS.len());
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_its_place_named() {
    let file = segment().await;
    let last = file.len() - RECORDS[2].len() - 56;
    for byte in 0..file.len() {
        let mut flipped = file.clone();
        flipped[byte] ^= 1 << (byte % 8);
        let directory = with_segment(&flipped);
        match open(&directory).staged().await {
            Err(AssetError::Damaged { file, offset, .. }) => {
                assert!(byte < last && offset <= byte as u64);
                assert!(file.ends_with(".lucarne/journal/0000000000000001"));
            }
            Ok(records) => assert!(byte >= last && whole(&records) == 2, "byte {byte}"),
            Err(other) => panic!("byte {byte}: {other}"),
        }
        assert!(segments(directory.path())[0].ends_with("0000000000000001"));
    }
}

/// An append overwrites zeros: any subset of its bytes may exist after a power failure.
#[tokio::test]
async fn a_record_torn_in_its_room_is_dropped_and_the_log_goes_on() {
    let file = segment().await;
    let last = file.len() - RECORDS[2].len() - 56;
    for zero in last..file.len() {
        for zeros in [zero..file.len(), last..zero] {
            let mut torn = file.clone();
            torn[zeros].fill(0);
            torn.resize(4096, 0);
            let kept = if torn[..file.len()] == file { 3 } else { 2 };
            let directory = with_segment(&torn);
            let assets = open(&directory);
            assert_eq!(whole(&assets.staged().await.unwrap()), kept, "byte {zero}");
            assets.stage(9, "after the crash".into()).await.unwrap();
            drop(assets);
            let mut records = open(&directory).staged().await.unwrap();
            assert_eq!(records.pop().unwrap(), "after the crash");
            assert_eq!(whole(&records), kept, "byte {zero}");
        }
    }
}

/// A settle starts a segment only after all appends to the previous segment have succeeded. The end
/// of the previous segment therefore cannot be torn.
#[tokio::test]
async fn the_end_of_a_finished_segment_is_no_tear() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    assets
        .stage(5, "in the first segment".into())
        .await
        .unwrap();
    assets.settle(4).await.unwrap();
    assets
        .stage(6, "in the second segment".into())
        .await
        .unwrap();
    drop(assets);
    let first = &segments(directory.path())[0];
    let mut bytes = std::fs::read(first).unwrap();
    bytes.pop();
    std::fs::write(first, bytes).unwrap();
    let refused = open(&directory).staged().await;
    assert!(
        matches!(refused, Err(AssetError::Damaged { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_directory_is_opened_once() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    let message = PosixAssets::open(directory.path())
        .err()
        .unwrap()
        .to_string();
    let path = directory.path().display().to_string();
    assert!(message.contains(&path), "{message}");
    let pid = format!("process {}", std::process::id());
    assert!(message.contains(&pid), "{message}");
    drop(assets);
    open(&directory);
}

#[test]
fn a_missing_directory_is_never_made_by_opening() {
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("logs/2026h1");
    let refused = PosixAssets::open(&path).err().unwrap();
    assert!(matches!(refused, AssetError::Missing { .. }));
    assert!(refused.to_string().contains("lucarne init"), "{refused}");
    assert!(!path.exists());
    PosixAssets::create(&path).unwrap();
    PosixAssets::create(&path).unwrap();
}

#[test]
fn a_file_instead_of_a_directory_is_refused() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("log")] {
        for opened in [PosixAssets::open(&path), PosixAssets::create(&path)] {
            let message = opened.err().unwrap().to_string();
            assert!(message.contains(&file.display().to_string()), "{message}");
            assert!(
                message.to_lowercase().contains("not a directory"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn public_files_are_public_and_ours_are_not() {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let parent = TempDir::new().unwrap();
    let log = parent.path().join("log");
    let assets = PosixAssets::create(&log).unwrap();
    assets
        .publish(asset("tile/0/x001/000.p/5", "x"))
        .await
        .unwrap();
    for path in ["", "tile", "tile/0/x001/000.p"] {
        assert_eq!(mode(&log.join(path)), 0o755, "{path}");
    }
    assert_eq!(mode(&log.join("tile/0/x001/000.p/5")), 0o644);
    assert_eq!(mode(&log.join(".lucarne")), 0o700);
}

/// An incomplete temporary file of a crashed process is ignored, too.
#[tokio::test]
async fn no_temporary_file_stays() {
    let directory = TempDir::new().unwrap();
    let temporary = directory.path().join(".lucarne/tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    std::fs::write(temporary.join("7"), "half a til").unwrap();
    let assets = open(&directory);
    assets.publish(asset("checkpoint", "x")).await.unwrap();
    // A directory is in place of the file.
    std::fs::create_dir_all(directory.path().join("tile/0/000/x")).unwrap();
    let refused = assets.publish(asset("tile/0/000", "x")).await.unwrap_err();
    assert!(refused.to_string().contains("tile/0/000"), "{refused}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// Sunlight stores data tiles gzipped, including partial ones; TesseraCT does not.
#[tokio::test]
async fn directories_of_other_logs_are_read_as_they_are() {
    let directory = TempDir::new().unwrap();
    let tiles = directory.path().join("tile/data/000.p");
    std::fs::create_dir_all(&tiles).unwrap();
    std::fs::write(tiles.join("3"), b"\x1f\x8bgzip").unwrap();
    std::fs::create_dir(directory.path().join(".state")).unwrap();
    let assets = open(&directory);
    let partial = assets.get("tile/data/000.p/3").await.unwrap().unwrap();
    assert_eq!(partial, &b"\x1f\x8bgzip"[..]);
    assert_eq!(assets.partials("tile/data/000").await.unwrap(), [3]);
    assert!(assets.headroom().await.unwrap().unwrap() > 0);
}

#[tokio::test]
async fn a_power_failure_takes_only_what_was_not_settled() {
    let directory = TempDir::new().unwrap();
    let assets = PowerLoss::new(open(&directory));
    assets
        .publish(asset("checkpoint", "settled"))
        .await
        .unwrap();
    assets.publish(asset("tile/0/000.p/1", "1")).await.unwrap();
    assets.settle(1).await.unwrap();
    assert!(assets.unsettled().is_empty());
    for path in ["checkpoint", "tile/0/000", "tile/1/000", "tile/2/000"] {
        assets.publish(asset(path, "later")).await.unwrap();
    }
    assets
        .remove_partials(&["tile/0/000".into()])
        .await
        .unwrap();
    assets.stage(2, "round".into()).await.unwrap();
    assets.tear_journal(b"an append that was never finished");
    assert_eq!(assets.unsettled().len(), 5);
    assets.fail_power(|path| match path {
        "tile/1/000" => Fate::Truncated(0),
        "tile/2/000" => Fate::Zeroed,
        _ => Fate::Undone,
    });
    drop(assets);

    let assets = open(&directory);
    let get = async |path| assets.get(path).await.unwrap();
    assert_eq!(get("checkpoint").await.unwrap(), "settled");
    assert_eq!(get("tile/0/000").await, None);
    assert_eq!(get("tile/0/000.p/1").await.unwrap(), "1");
    assert_eq!(get("tile/1/000").await.unwrap(), "");
    assert_eq!(get("tile/2/000").await.unwrap(), "\0\0\0\0\0");
    assert_eq!(assets.staged().await.unwrap(), ["round"]);
}

fn inode(directory: &TempDir, path: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let file = directory.path().join(path);
    std::fs::metadata(file).unwrap().ino()
}

/// Files of journal records are always written again: after a failed sync, bytes may be in the
/// kernel's memory only.
#[tokio::test]
async fn a_file_with_the_same_bytes_is_written_again_only_by_a_recovery() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    assets.staged().await.unwrap();
    assets.stage(1, "round".into()).await.unwrap();
    let tile = "tile/0/000";
    assets.publish(asset(tile, "same")).await.unwrap();
    let (first, written) = (inode(&directory, tile), assets.stats().published_files());
    assets.publish(asset(tile, "same")).await.unwrap();
    assert_eq!(inode(&directory, tile), first);
    assert_eq!(assets.stats().published_files(), written);
    // A torn file is replaced.
    assets.publish(asset(tile, "s\0me")).await.unwrap();
    assets.publish(asset(tile, "same")).await.unwrap();
    assert_eq!(&assets.get(tile).await.unwrap().unwrap()[..], b"same");
    let mended = inode(&directory, tile);
    assets.staged().await.unwrap();
    assets.publish(asset(tile, "same")).await.unwrap();
    assert_ne!(inode(&directory, tile), mended);
}

/// A file with `chattr +i` during the lifetime of this value.
struct Immutable(std::fs::File);

impl Immutable {
    /// Returns `None` and prints a message if the user or the file system cannot set the flag.
    fn make(path: &Path) -> Option<Self> {
        use rustix::fs::{IFlags, ioctl_setflags};
        let file = std::fs::File::open(path).unwrap();
        match ioctl_setflags(&file, IFlags::IMMUTABLE) {
            Ok(()) => Some(Self(file)),
            Err(error) => {
                println!(
                    "skipped: {} cannot be made immutable: {error}",
                    path.display()
                );
                None
            }
        }
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = rustix::fs::ioctl_setflags(&self.0, rustix::fs::IFlags::empty());
    }
}

#[tokio::test]
async fn an_immutable_file_harms_only_where_its_bytes_are_wrong() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    assets.stage(1, "round".into()).await.unwrap();
    let (tile, partial) = ("tile/0/000", "tile/0/000.p/9");
    for path in [tile, partial] {
        assets.publish(asset(path, "same")).await.unwrap();
    }
    let immutable: Vec<_> = [tile, partial]
        .iter()
        .map_while(|path| Immutable::make(&directory.path().join(path)))
        .collect();
    if immutable.len() < 2 {
        return;
    }
    // In a round, then in a recovery.
    assets.publish(asset(tile, "same")).await.unwrap();
    let records = assets.staged().await.unwrap();
    assert_eq!(records, ["round"]);
    assets.publish(asset(tile, "same")).await.unwrap();
    let error = assets.publish(asset(tile, "else")).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("chattr -i"), "{message}");
    // The removal of partial tiles skips the file.
    assets.remove_partials(&[tile.into()]).await.unwrap();
    assets.settle(1).await.unwrap();
    assert_eq!(&assets.get(tile).await.unwrap().unwrap()[..], b"same");
    drop(immutable);
    assets.publish(asset(tile, "else")).await.unwrap();
}

/// The state of the files in an adopted log of Sunlight.
#[tokio::test]
async fn a_repair_replaces_an_immutable_file_by_an_immutable_file() {
    use lucarne_storage::{PosixRepairs, Repairs};
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap().join("tile/0/000");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "wrong").unwrap();
    let Some(immutable) = Immutable::make(&path) else {
        return;
    };
    let repairs = PosixRepairs::open(directory.path()).unwrap();
    repairs.may_replace("tile/0/000").await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"wrong");
    let right = asset("tile/0/000", "right").remove(0);
    let kept = repairs.replace(right).await.unwrap().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"right");
    assert_eq!(std::fs::read(&kept).unwrap(), b"wrong");
    let new = Immutable(std::fs::File::open(&path).unwrap());
    let flags = rustix::fs::ioctl_getflags(&new.0).unwrap();
    assert!(flags.contains(rustix::fs::IFlags::IMMUTABLE));
    drop((immutable, new));
}

/// Files that are written to a directory without a name are lost.
#[tokio::test]
async fn a_directory_that_was_moved_away_is_noticed() {
    let parent = TempDir::new().unwrap();
    let (here, away) = (parent.path().join("log"), parent.path().join("away"));
    let assets = PosixAssets::create(&here).unwrap();
    assets.stage(1, "round".into()).await.unwrap();
    let moved = async || {
        let staging = assets.stage(2, "lost".into()).await;
        assert!(
            matches!(staging, Err(AssetError::Moved { .. })),
            "{staging:?}"
        );
        let probing = assets.headroom().await;
        assert!(
            matches!(probing, Err(AssetError::Moved { .. })),
            "{probing:?}"
        );
    };
    std::fs::rename(&here, &away).unwrap();
    moved().await;
    // Another directory in its place, like an empty mount point.
    std::fs::create_dir(&here).unwrap();
    moved().await;
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assets.stage(2, "another round".into()).await.unwrap();
    // Without the lock file, a second process could start.
    std::fs::rename(here.join(".lucarne/lock"), parent.path().join("lock")).unwrap();
    moved().await;
    std::fs::rename(parent.path().join("lock"), here.join(".lucarne/lock")).unwrap();
    assert_eq!(assets.staged().await.unwrap().len(), 2);
}

/// No start finds the records of a segment that has no name. The log stops before it signs, and
/// creates its journal again.
#[tokio::test]
async fn a_journal_that_is_removed_or_replaced_is_noticed() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    let refused = async |size| {
        let error = assets.stage(size, "lost".into()).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("was removed or replaced"), "{error}");
    };
    assets.stage(1, "a round".into()).await.unwrap();
    std::fs::remove_dir_all(journal(directory.path())).unwrap();
    refused(2).await;
    assert!(assets.staged().await.unwrap().is_empty());
    assets.stage(2, "another round".into()).await.unwrap();
    // Another file in its place.
    let segment = segments(directory.path()).remove(0);
    let copy = directory.path().join("copy");
    std::fs::copy(&segment, &copy).unwrap();
    std::fs::rename(&copy, &segment).unwrap();
    refused(3).await;
    assert_eq!(assets.staged().await.unwrap().len(), 1);
    assets.stage(3, "a third round".into()).await.unwrap();
}

/// The next record would follow a hole in the file.
#[tokio::test]
async fn a_journal_that_is_truncated_is_noticed_before_the_next_round() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    assets.stage(1, "a round".into()).await.unwrap();
    let mut writing = std::fs::File::options();
    let segment = writing.write(true).open(&segments(directory.path())[0]);
    segment.unwrap().set_len(60).unwrap();
    let refused = assets.stage(2, "lost".into()).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("was truncated"), "{refused}");
    let damaged = assets.staged().await.unwrap_err();
    assert!(matches!(damaged, AssetError::Damaged { .. }), "{damaged}");
    let left = assets.staged_beyond(1).await.unwrap();
    assert_eq!(left, ["lost"]);
}

/// The rounds of the segment are settled, so the log needs it no more.
#[tokio::test]
async fn a_changed_journal_is_noticed_when_it_is_settled() {
    for changed in [false, true] {
        let directory = TempDir::new().unwrap();
        let assets = open(&directory);
        for size in 1..=3 {
            assets.stage(size, "a round".into()).await.unwrap();
        }
        if changed {
            let segment = segments(directory.path()).remove(0);
            let mut bytes = std::fs::read(&segment).unwrap();
            bytes[40 + 56] ^= 1;
            // In place, as a disk would do it.
            let file = std::fs::File::options().write(true).open(&segment).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        }
        assets.settle(3).await.unwrap();
        let kept = std::fs::read_dir(directory.path().join(".lucarne/damaged/journal"));
        assert_eq!(kept.map_or(0, Iterator::count), usize::from(changed));
        assets.stage(4, "another round".into()).await.unwrap();
        assert_eq!(assets.staged().await.unwrap().len(), 1);
    }
}

/// A program that removes old files can remove an empty directory.
#[tokio::test]
async fn a_recovery_creates_the_directory_of_unfinished_files_again() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory);
    std::fs::remove_dir(directory.path().join(".lucarne/tmp")).unwrap();
    assert!(assets.publish(asset("tile/0/000", "a")).await.is_err());
    assets.staged().await.unwrap();
    assets.publish(asset("tile/0/000", "a")).await.unwrap();
}

/// A closed directory can be opened by another process. The first process can still read it, but no
/// longer write to it.
#[tokio::test]
async fn what_was_closed_is_another_process_s() {
    let directory = tempfile::tempdir().unwrap();
    let first = PosixAssets::create(directory.path()).unwrap();
    let checkpoint =
        |text: &'static str| vec![Asset::new("checkpoint", text, AssetKind::Checkpoint)];
    first.publish(checkpoint("first")).await.unwrap();
    let in_use = PosixAssets::open(directory.path()).err().unwrap();
    assert!(
        matches!(in_use, AssetError::InUse { machine: None, .. }),
        "{in_use}"
    );
    first.close().await.unwrap();
    let second = PosixAssets::open(directory.path()).unwrap();
    second.publish(checkpoint("second")).await.unwrap();
    for refused in [
        first.publish(checkpoint("third")).await,
        first.stage(1, b"a round".as_slice().into()).await,
        first.settle(1).await,
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("released to another process"), "{refused}");
    }
    let read = first.get("checkpoint").await.unwrap().unwrap();
    assert_eq!(&read[..], b"second");
}
