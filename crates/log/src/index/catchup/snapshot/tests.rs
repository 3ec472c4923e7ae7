//! Tests of accepted and rejected snapshots, with files in a directory.

use lucarne_storage::{Asset, AssetKind, Encoding, PosixAssets};
use tempfile::TempDir;

use super::*;
use crate::data::gzip::gzip;
use crate::data::tree::Tree;
use crate::index::dedup::Record;
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::read_cache;
use crate::read::verified_tiles::VerifiedTiles;
use crate::read::verified_tiles::tests::entry;

/// A change of the manifest.
type Change = fn(&mut Manifest);

/// More than two tiles and two chunks.
const ENTRIES: u64 = 2 * TILE_WIDTH + 90;
const OWNER: LogId = LogId([1; 32]);

/// A log in a directory, with an index of all its entries, and an empty index.
struct Log {
    directory: TempDir,
    assets: Arc<PosixAssets>,
    verified: VerifiedTiles,
    tree: Tree,
}

impl Log {
    async fn new() -> Self {
        let entries = Bytes::from((0..ENTRIES).flat_map(entry).collect::<Vec<u8>>());
        let (leaves, ends) = lucarne_ctread::leaves(&entries).unwrap();
        let mut tree = Tree::empty();
        let hashes = tree.append_leaves(&leaves).into_iter();
        let mut files: Vec<_> = hashes
            .map(|(tile, bytes)| Asset::new(tile.path(), bytes, AssetKind::HashTile))
            .collect();
        let kind = AssetKind::DataTile {
            encoding: Encoding::Gzip,
        };
        for (tile, bytes) in tree.append_data(0, &entries, &ends) {
            files.push(Asset::new(tile.path(), gzip(&bytes).unwrap(), kind));
        }
        let directory = tempfile::tempdir().unwrap();
        let assets = Arc::new(PosixAssets::create(directory.path().join("data")).unwrap());
        assets.publish(files).await.unwrap();
        Log {
            verified: VerifiedTiles::of_store(
                assets.clone(),
                read_cache(1 << 20),
                DamagedFiles::default(),
            ),
            directory,
            assets,
            tree,
        }
    }

    fn source(&self) -> Source<'_> {
        Source::new(&*self.assets, &self.verified, &self.tree)
    }

    async fn records(&self) -> Vec<Record> {
        let (source, mut records) = (self.source(), Vec::new());
        for tile in 0..ENTRIES.div_ceil(TILE_WIDTH) {
            records.extend(source.read(tile).await.unwrap().entries);
        }
        assert_eq!(records.len() as u64, ENTRIES);
        records
    }

    /// Writes the snapshot of an index with these records.
    async fn write(&self, records: &[Record]) {
        let index = self.directory.path().join("full");
        let dedup = Dedup::open(&index, OWNER).unwrap();
        let entries = records.iter().copied();
        dedup.extend(entries, ENTRIES, self.tree.head()).unwrap();
        dedup.flush().unwrap();
        let last = last(&*self.assets, OWNER).await.unwrap();
        let sealed = dedup.sealed().unwrap();
        let stored = store(&*self.assets, OWNER, sealed, last, || true).await;
        assert_eq!(stored.unwrap(), ENTRIES);
    }

    /// Returns an empty index.
    fn cold(&self) -> Arc<Dedup> {
        let dedup = Dedup::open(&self.directory.path().join("cold"), OWNER).unwrap();
        dedup.go_over(self.tree.head()).unwrap();
        assert_eq!(dedup.backlog().entries(), ENTRIES);
        Arc::new(dedup)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.assets.directory().join(".lucarne/index").join(name)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.file(name), bytes).unwrap();
    }

    fn change_manifest(&self, change: impl FnOnce(&mut Manifest)) {
        self.change("manifest.json", |bytes| {
            let mut manifest = serde_json::from_slice(bytes).unwrap();
            change(&mut manifest);
            *bytes = serde_json::to_vec(&manifest).unwrap();
        });
    }

    /// Returns the reason why the snapshot is refused, and verifies that the index is unchanged.
    async fn refused(&self) -> Unfit {
        let cold = self.cold();
        let unfit = taken(OWNER, &cold, &self.source()).await.unwrap_err();
        assert_eq!(cold.backlog().entries(), ENTRIES);
        let tables = self.directory.path().join("cold/tables");
        assert_eq!(std::fs::read_dir(tables).unwrap().count(), 0);
        unfit
    }
}

#[tokio::test]
async fn an_index_that_has_nothing_takes_the_snapshot_up() {
    let log = Log::new().await;
    let cold = log.cold();
    let found = taken(OWNER, &cold, &log.source()).await.unwrap();
    assert_eq!(found, None, "there is no snapshot");
    let records = log.records().await;
    log.write(&records).await;
    let found = taken(OWNER, &cold, &log.source()).await.unwrap();
    assert_eq!(found, Some(ENTRIES));
    assert_eq!(cold.backlog().entries(), 0);
    drop(cold);
    let path = log.directory.path().join("cold");
    let again = Dedup::open(&path, OWNER).unwrap();
    assert_eq!(again.anchor().head, log.tree.head());
    for (identity, place) in records {
        assert_eq!(again.find(&identity).unwrap(), Some(place));
    }
}

#[tokio::test]
async fn the_snapshot_before_stays_until_the_next_one_is_whole() {
    let log = Log::new().await;
    let records = log.records().await;
    log.write(&records).await;
    let first = std::fs::read(log.file("a-00000")).unwrap();
    log.write(&records).await;
    assert_eq!(std::fs::read(log.file("a-00000")).unwrap(), first);
    assert!(log.file("b-00002").exists());
    log.write(&records).await;
    // Two sets of three chunks, and the manifest.
    let files = std::fs::read_dir(log.file(".")).unwrap();
    assert_eq!(files.count(), 7);
    let found = taken(OWNER, &log.cold(), &log.source()).await.unwrap();
    assert_eq!(found, Some(ENTRIES));
}

#[tokio::test]
async fn a_chunk_that_is_flipped_cut_or_missing_is_refused() {
    let log = Log::new().await;
    log.write(&log.records().await).await;
    let name = "a-00001";
    let whole = std::fs::read(log.file(name)).unwrap();
    log.change(name, |bytes| {
        if let Some(last) = bytes.last_mut() {
            *last ^= 4;
        }
    });
    let unfit = log.refused().await;
    let flipped = matches!(unfit, Unfit::Records(BadStream::Chunk(1)));
    assert!(flipped, "{unfit}");
    log.change(name, |bytes| bytes.truncate(bytes.len() - 1));
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Length { chunk: 1, .. }), "{unfit}");
    log.change(name, |bytes| *bytes = [whole, vec![0]].concat());
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Storage(_)), "{unfit}");
    std::fs::remove_file(log.file(name)).unwrap();
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Missing(1)), "{unfit}");
}

#[tokio::test]
async fn a_snapshot_of_another_log_tree_or_format_is_refused() {
    let log = Log::new().await;
    log.write(&log.records().await).await;
    let whole = std::fs::read(log.file("manifest.json")).unwrap();
    let refused = async |change: Change| {
        log.change("manifest.json", |bytes| bytes.clone_from(&whole));
        log.change_manifest(change);
        log.refused().await.to_string()
    };
    let cases: [(Change, &str); 8] = [
        (
            |it| it.log_id = LogId([2; 32]).to_string(),
            "the snapshot belongs to the log with ID",
        ),
        (|it| it.format.push('0'), "the format is"),
        (
            |it| it.size += 1,
            "the snapshot has 603 entries; the tree has only 602",
        ),
        (|it| it.root = "00".repeat(32), "does not match the tree"),
        (|it| it.size -= 1, "the sizes"),
        (|it| it.records = 0, "the sizes"),
        (|it| it.chunks.truncate(2), "the sizes"),
        (
            |it| it.chunks = vec![String::new(); 20_000],
            "the snapshot has 20000 chunks",
        ),
    ];
    for (change, reason) in cases {
        let text = refused(change).await;
        assert!(text.contains(reason), "{text}; expected {reason}");
    }
}

#[tokio::test]
async fn a_manifest_that_is_too_long_or_not_json_is_refused() {
    let log = Log::new().await;
    log.write(&log.records().await).await;
    log.change("manifest.json", |bytes| {
        bytes.resize(MOST_MANIFEST as usize + 1, b' ');
    });
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Storage(_)), "{unfit}");
    log.change("manifest.json", |bytes| bytes.truncate(7));
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Manifest(_)), "{unfit}");
}

/// All records of the snapshot are right, but one record is missing.
#[tokio::test]
async fn a_snapshot_that_lacks_an_entry_is_refused() {
    let log = Log::new().await;
    let mut records = log.records().await;
    records.remove(300);
    log.write(&records).await;
    let unfit = log.refused().await;
    let lacks = matches!(unfit, Unfit::Records(BadStream::Missing));
    assert!(lacks, "{unfit}");
}

/// Chunks and manifest agree, but the tree has other entries.
#[tokio::test]
async fn entries_that_the_tree_does_not_have_are_refused() {
    let log = Log::new().await;
    let mut records = log.records().await;
    for (_, place) in &mut records {
        place.timestamp_ms += 1;
    }
    log.write(&records).await;
    let unfit = log.refused().await;
    assert!(matches!(unfit, Unfit::Entry(_)), "{unfit}");
}
