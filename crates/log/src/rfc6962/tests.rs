//! Tests of lookups in any state of the leaf index: each lookup finds the leaf or returns an error,
//! and never a wrong index.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_ct::{LogKey, Roots};
use lucarne_storage::{MemoryAssets, MemoryLock, ReadAssets};
use lucarne_testkit::{eventually, until};
use lucarne_tlog::{Hash, leaf_hash, verify_inclusion};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use super::leaf_index::LeafIndex;
use super::{Rfc6962Error, Rfc6962Reads, keep_index};
use crate::config::{LogConfig, test_config};
use crate::data::tree::Tree;
use crate::shared::Shared;
use crate::status::metrics::Metrics;
use crate::status::state::Published;

fn config(folder: &Path) -> LogConfig {
    LogConfig {
        rfc6962_reads: Some(folder.join("leaves")),
        ..test_config("reads", &folder.join("dedup"))
    }
}

/// The hash tiles of a log whose leaves are hashes of numbers.
struct Forest {
    assets: MemoryAssets,
    tree: Tree,
    salt: u8,
}

impl Forest {
    fn of(salt: u8, size: u64) -> Self {
        let mut forest = Forest {
            assets: MemoryAssets::new(),
            tree: Tree::empty(),
            salt,
        };
        forest.grow(size);
        forest
    }

    fn leaf(&self, index: u64) -> Hash {
        leaf_hash(&[&[self.salt][..], &index.to_be_bytes()].concat())
    }

    fn grow(&mut self, size: u64) {
        let leaves = self.tree.size()..size;
        let leaves: Vec<_> = leaves.map(|index| self.leaf(index)).collect();
        for (tile, bytes) in self.tree.append_leaves(&leaves) {
            self.assets.tamper(&tile.path(), Some(bytes));
        }
    }

    /// Starts a process that publishes the log, and keeps an index below `folder`.
    fn serve(&self, folder: &Path) -> Process {
        let log = Arc::new(Shared::new(
            config(folder),
            Roots::new(),
            ReadAssets::uncached(Arc::new(self.assets.clone())),
            Arc::new(MemoryLock::new()),
            &Metrics::register(&mut Registry::default()),
        ));
        let process = Process {
            indexing: tokio::spawn(keep_index(log.rfc6962.clone().unwrap())),
            log,
        };
        process.publish(self);
        process
    }
}

struct Process {
    log: Arc<Shared>,
    indexing: JoinHandle<()>,
}

impl Process {
    fn publish(&self, forest: &Forest) {
        let tree = Arc::new(forest.tree.clone());
        let published = Published {
            size: tree.size(),
            root: tree.root,
            timestamp_ms: 0,
            checkpoint: Bytes::new(),
            at: Instant::now(),
        };
        self.log.reader.publish(published, Some(tree));
    }

    async fn ask(&self, leaf: Hash, size: u64) -> Result<(u64, Vec<Hash>), Rfc6962Error> {
        let reads = Rfc6962Reads::of(self.log.rfc6962.as_ref().unwrap());
        reads.proof_by_hash(&leaf, size).await
    }

    /// Returns the index of a leaf, after the leaf index has caught up.
    async fn find(&self, forest: &Forest, leaf: Hash, size: u64) -> Option<u64> {
        let mut found = None;
        eventually("the index gets there", async || {
            match self.ask(leaf, size).await {
                Ok((index, path)) => {
                    let root = forest.tree.root;
                    verify_inclusion(&leaf, index, size, &root, &path).unwrap();
                    found = Some(index);
                }
                Err(Rfc6962Error::UnknownLeaf { .. }) => {}
                Err(Rfc6962Error::NotIndexed { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
            true
        })
        .await;
        found
    }

    /// Checks that a sample of the leaves is found, and that leaves outside the tree are not found.
    async fn finds_all(&self, forest: &Forest) {
        let size = forest.tree.size();
        for index in (0..size).step_by(97).chain([size - 1]) {
            let found = self.find(forest, forest.leaf(index), size).await;
            assert_eq!(found, Some(index));
        }
        for unknown in size..size + 50 {
            let found = self.find(forest, forest.leaf(unknown), size).await;
            assert_eq!(found, None);
        }
    }

    async fn stop(self) {
        self.indexing.abort();
        let _ = self.indexing.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaves_are_found_as_the_log_grows_and_after_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut forest = Forest::of(0, 20_000);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    forest.grow(20_300);
    process.publish(&forest);
    process.finds_all(&forest).await;
    process.stop().await;
    let kept = || {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let index = LeafIndex::open(&folder.path().join("leaves"), key.log_id()).unwrap();
        index.indexed()
    };
    assert!(kept() > 18_000, "{}", kept());
    forest.grow(25_000);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    // 24 tables have two files each; merging tables of the same size leaves fewer files.
    let files = || {
        let files = fs::read_dir(folder.path().join("leaves/tables"));
        files.unwrap().count()
    };
    // A separate thread merges the tables.
    until("tables are merged", || files() < 2 * 12).await;
    process.finds_all(&forest).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_later_tree_is_not_in_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let forest = Forest::of(0, 3000);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    for (index, size) in [(2999, 2999), (1000, 1000), (2000, 1)] {
        let asked = process.ask(forest.leaf(index), size).await;
        let unknown = matches!(asked, Err(Rfc6962Error::UnknownLeaf { .. }));
        assert!(unknown, "{index} of {size}: {asked:?}");
    }
    let (index, path) = process.ask(forest.leaf(700), 1000).await.unwrap();
    let earlier = Forest::of(0, 1000);
    verify_inclusion(&forest.leaf(700), index, 1000, &earlier.tree.root, &path).unwrap();
    let beyond = process.ask(forest.leaf(1), 3001).await;
    assert!(matches!(beyond, Err(Rfc6962Error::BeyondTree { .. })));
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_rots_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let forest = Forest::of(0, 5000);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    process.stop().await;
    let leaves = folder.path().join("leaves");
    let tables = || fs::read_dir(leaves.join("tables")).unwrap();
    let files = tables().map(|file| file.unwrap().path());
    for file in files.take(3).chain([leaves.join("list")]) {
        let Ok(sound) = fs::read(&file) else {
            // The file belonged to an index that has been rebuilt since.
            continue;
        };
        for rot in 0..4 {
            let mut rotten = sound.clone();
            let at = [0, sound.len() / 3, sound.len() / 2, sound.len() - 1][rot];
            rotten[at] ^= 0x10;
            fs::write(&file, &rotten).unwrap();
            let process = forest.serve(folder.path());
            process.finds_all(&forest).await;
            process.stop().await;
        }
        let _ = fs::remove_file(&file);
        let process = forest.serve(folder.path());
        process.finds_all(&forest).await;
        process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_of_another_tree_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let process = Forest::of(1, 4000).serve(folder.path());
    process.finds_all(&Forest::of(1, 4000)).await;
    process.stop().await;
    let forest = Forest::of(2, 4500);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_place_is_never_answered() {
    let folder = tempfile::tempdir().unwrap();
    let forest = Forest::of(0, 500);
    let process = forest.serve(folder.path());
    process.finds_all(&forest).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let owner = process.log.config.key.log_id();
    let wrong = LeafIndex::open(elsewhere.path(), owner).unwrap();
    let backwards: Vec<_> = (0..500).rev().map(|index| forest.leaf(index)).collect();
    wrong.add(backwards.into_iter());
    let state = process.log.rfc6962.as_ref().unwrap();
    state.leaves.index.store(Some(Arc::new(wrong)));
    let asked = process.ask(forest.leaf(7), 500).await;
    assert!(
        matches!(asked, Err(Rfc6962Error::NotIndexed { .. })),
        "{asked:?}"
    );
    // The log rebuilds a correct index.
    process.finds_all(&forest).await;
    process.stop().await;
}

/// Two processes during a handover: the second waits until the first releases the files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_writes_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let forest = Forest::of(0, 3000);
    let first = forest.serve(folder.path());
    first.finds_all(&forest).await;
    let second = forest.serve(folder.path());
    // The pause is longer than the interval at which the second process tries the lock. Without
    // the lock, the second process would have an index after the pause. On a busy machine, the
    // index would appear later: the test may miss a fault, but never fails without a fault.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = second.ask(forest.leaf(7), 3000).await;
    assert!(
        matches!(asked, Err(Rfc6962Error::NotIndexed { .. })),
        "{asked:?}"
    );
    first.indexing.abort();
    second.finds_all(&forest).await;
    // The first process still serves its own clients from its open files.
    first.finds_all(&forest).await;
    second.stop().await;
}
