//! A log in memory with one fault each, and the checks that fail in the monitor.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::{CheckpointVerifier, Entry, Issuer, LogKey, SignedEntry, TileLeaf};
use lucarne_ctread::{Source, SourceError};
use lucarne_load::Failure;
use lucarne_scenarios::ct::checks::{self, Findings};
use lucarne_scenarios::ct::fetch::{self, FetchError, Unreachable};
use lucarne_scenarios::ct::{
    ExtraData, IssuerChain, Monitor, PendingScts, TreeHead, TreeHeads, VerifiedSct,
};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, leaf_hash};
use parking_lot::Mutex;

const ORIGIN: &str = "log.example/2026h2";
const NOW: u64 = 1_800_000_000_000;

/// A log whose files can be damaged.
struct Log {
    key: LogKey,
    entries: Vec<Entry>,
    edge: RightEdge,
    files: HashMap<String, Vec<u8>>,
    away: bool,
}

#[async_trait]
impl Source for Log {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        if self.away {
            let (path, source) = (path.to_owned(), Failure::new("connect_refused", "refused"));
            return Err(FetchError::from(Unreachable::NoResponse { path, source }).into());
        }
        Ok(self.files.get(path).cloned().map(Bytes::from))
    }
}

impl Log {
    fn new() -> Self {
        let mut log = Self {
            key: LogKey::from_seed(&[7; 32]).unwrap(),
            entries: Vec::new(),
            edge: RightEdge::new(),
            files: HashMap::new(),
            away: false,
        };
        log.grow(0);
        log
    }

    fn size(&self) -> u64 {
        self.entries.len() as u64
    }

    fn timestamp(index: u64) -> u64 {
        NOW - 100_000 + index
    }

    /// Appends entries, and publishes the files of the new tree.
    fn grow(&mut self, count: u64) {
        let issuer = Arc::new(Issuer::new(Bytes::from_static(b"an issuer")));
        let first = self.size();
        let mut leaves = Vec::new();
        for index in first..first + count {
            let signed = signed(index);
            leaves.push(leaf(index, index, Self::timestamp(index)));
            self.entries.push(Entry {
                identity: signed.identity(),
                signed,
                precertificate: None,
                issuers: Arc::new([Arc::clone(&issuer)]),
            });
        }
        let path = format!("issuer/{}", issuer.fingerprint);
        self.files.insert(path, issuer.der.to_vec());
        for (tile, bytes) in self.edge.append(&leaves) {
            self.files.insert(tile.path(), bytes);
        }
        for number in first / TILE_WIDTH..self.size().div_ceil(TILE_WIDTH) {
            let tile = Tile::widest(Level::Data, number, self.size()).unwrap();
            self.files.insert(tile.path(), self.data(&tile));
        }
        self.sign(self.size(), self.edge.root(), NOW + self.size());
    }

    fn data(&self, tile: &Tile) -> Vec<u8> {
        let mut bytes = Vec::new();
        for index in tile.start_leaf()..tile.end_leaf() {
            let entry = &self.entries[index as usize];
            TileLeaf::encode(Self::timestamp(index), entry, index, &mut bytes);
        }
        bytes
    }

    fn sign(&mut self, size: u64, root: Hash, timestamp: u64) {
        let note = self.key.sign_checkpoint(ORIGIN, size, &root, timestamp);
        self.files
            .insert("checkpoint".into(), note.unwrap().into_bytes());
    }

    fn file(&mut self, path: &str) -> &mut Vec<u8> {
        let file = self.files.get_mut(path);
        file.unwrap_or_else(|| panic!("no file {path}"))
    }
}

fn signed(number: u64) -> SignedEntry {
    SignedEntry::X509 {
        certificate: Bytes::from(format!("certificate {number}")),
    }
}

/// Returns the leaf hash of certificate `number` at `index`.
fn leaf(number: u64, index: u64, timestamp: u64) -> Hash {
    let mut bytes = Vec::new();
    lucarne_ct::merkle_tree_leaf(timestamp, &signed(number), index, &mut bytes);
    leaf_hash(&bytes)
}

/// Returns the content of an SCT for certificate `number`.
fn verified(number: u64, index: u64, timestamp: u64) -> VerifiedSct {
    VerifiedSct {
        index,
        timestamp,
        leaf: leaf(number, index, timestamp),
    }
}

/// Returns the SCT of a correct log for entry `index`.
fn good(index: u64) -> VerifiedSct {
    verified(index, index, Log::timestamp(index))
}

/// Returns the chain of all submissions: a certificate below one issuer, which is the root.
fn extra_data() -> ExtraData {
    let issuer = Issuer::new(Bytes::from_static(b"an issuer"));
    ExtraData {
        precertificate: None,
        issuers: Arc::new(IssuerChain {
            chain: vec![issuer.fingerprint],
            complete: true,
        }),
    }
}

/// A monitor of the log with its state.
struct Watch {
    tree_heads: TreeHeads,
    monitor: Monitor,
    pending_scts: Mutex<PendingScts>,
    findings: Findings,
}

impl Watch {
    async fn of(log: &mut Log) -> Self {
        let verifier = CheckpointVerifier::new(ORIGIN, log.key.public_key_spki()).unwrap();
        let minute = Duration::from_secs(60);
        let mut tree_heads = TreeHeads::new(verifier, minute, 100 * minute);
        let findings = Findings::default();
        let head = see(&mut tree_heads, log, &findings).await.unwrap();
        tree_heads.mark_checked(head.size);
        let monitor = Monitor::start(Arc::default(), log, &head, true).await;
        Self {
            tree_heads,
            monitor: monitor.unwrap(),
            pending_scts: Mutex::default(),
            findings,
        }
    }

    /// Polls once, long after everything was due. Returns the names of the failed checks.
    async fn look(&mut self, log: &mut Log) -> Vec<&'static str> {
        let later = Instant::now() + Duration::from_secs(3600);
        self.look_at(log, later).await
    }

    async fn look_at(&mut self, log: &mut Log, now: Instant) -> Vec<&'static str> {
        let sink = &self.findings;
        if let Some(head) = see(&mut self.tree_heads, log, sink).await {
            let between = self.tree_heads.unproven(head.size);
            let grown = self.monitor.advance(log, &head, &between, sink);
            grown.await.unwrap();
            for (size, _) in between {
                self.tree_heads.mark_checked(size);
            }
            let settled = self
                .monitor
                .verify_inclusion(log, &self.pending_scts, now, sink);
            settled.await.unwrap();
        }
        let read = self
            .monitor
            .read_entries(log, &self.pending_scts, true, sink);
        read.await.unwrap();
        let found = sink.take();
        found.iter().map(|finding| finding.check).collect()
    }

    fn sct(&self, verified: VerifiedSct) {
        let due = Instant::now() + Duration::from_secs(60);
        let extra_data = Some(extra_data());
        let made = self.pending_scts.lock().add(&verified, extra_data, due);
        made.unwrap();
    }
}

async fn see(tree_heads: &mut TreeHeads, log: &mut Log, findings: &Findings) -> Option<TreeHead> {
    let prior = tree_heads.prior();
    let note = fetch::get(log, "checkpoint").await.unwrap();
    tree_heads.observe(&note, prior, NOW, findings)
}

const NOTHING: [&str; 0] = [];

#[tokio::test]
async fn a_good_log_has_no_findings_and_all_promises_proven() {
    let mut log = Log::new();
    let mut watch = Watch::of(&mut log).await;
    for count in [1, 99, 156, 256, 0, 700, 66_000, 3] {
        for index in log.size()..log.size() + count {
            watch.sct(good(index));
        }
        log.grow(count);
        assert_eq!(watch.look(&mut log).await, NOTHING);
        assert_eq!(watch.monitor.size(), log.size());
    }
    let pending_scts = watch.pending_scts.lock();
    assert_eq!(
        (pending_scts.open(), pending_scts.counts.included),
        (0, log.size())
    );
    assert_eq!(watch.monitor.seen.issuers, 1);
    assert!(watch.monitor.seen.entries >= log.size());
}

#[tokio::test]
async fn a_promise_long_covered_is_proven_too() {
    let mut log = Log::new();
    let mut watch = Watch::of(&mut log).await;
    log.grow(70_000);
    assert_eq!(watch.look(&mut log).await, NOTHING);
    for index in [0, 255, 256, 65_535, 65_536, 69_999] {
        watch.sct(good(index));
    }
    assert_eq!(watch.look(&mut log).await, NOTHING);
    assert_eq!(watch.pending_scts.lock().counts.included, 6);
}

#[tokio::test]
async fn a_full_tile_may_stand_for_a_partial_one() {
    let mut log = Log::new();
    log.grow(100);
    let mut watch = Watch::of(&mut log).await;
    log.grow(100);
    let checkpoint = log.files["checkpoint"].clone();
    log.grow(100);
    // The checkpoint of size 200 is read just before the tiles of size 300.
    log.files.insert("checkpoint".into(), checkpoint);
    for path in ["tile/0/000.p/200", "tile/data/000.p/200"] {
        log.files.remove(path).unwrap();
    }
    assert_eq!(watch.look(&mut log).await, NOTHING);
    assert_eq!(watch.monitor.size(), 200);
}

#[tokio::test]
async fn what_is_wrong_with_promises() {
    let mut log = Log::new();
    log.grow(300);
    let mut watch = Watch::of(&mut log).await;
    log.grow(300);
    // An index that is one too large, even in the next tile.
    watch.sct(verified(511, 512, Log::timestamp(511)));
    assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_INDEX]);
    watch.sct(verified(400, 400, 5));
    assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_TIMESTAMP]);
    // An entry that was never logged.
    watch.sct(verified(9_999, 401, Log::timestamp(401)));
    assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_ENTRY]);
    let counts = watch.pending_scts.lock().counts;
    assert_eq!((counts.included, counts.misplaced), (0, 3));
}

/// The entry is at another index than promised, and the monitor polls the log before the entry is
/// published. The result must not depend on this order.
#[tokio::test]
async fn a_verdict_does_not_depend_on_who_was_faster() {
    let mut log = Log::new();
    log.grow(300);
    let mut watch = Watch::of(&mut log).await;
    log.grow(10);
    // Entry 315 with the index of entry 305, which exists already.
    watch.sct(verified(315, 305, Log::timestamp(315)));
    let early = Instant::now();
    assert_eq!(watch.look_at(&mut log, early).await, NOTHING);
    assert_eq!(
        watch.pending_scts.lock().open(),
        1,
        "it is still to be told"
    );
    log.grow(10);
    assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_INDEX]);
    assert_eq!(watch.pending_scts.lock().open(), 0);
    // An entry that never appears, polled early and late.
    watch.sct(verified(9_999, 306, Log::timestamp(306)));
    assert_eq!(watch.look_at(&mut log, early).await, NOTHING);
    assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_ENTRY]);
    assert_eq!(watch.pending_scts.lock().counts.misplaced, 2);
}

/// Two promises have the same index. The broken promise is reported in either order.
#[tokio::test]
async fn of_two_promises_of_one_index_both_are_followed() {
    for first in [302, 303] {
        let mut log = Log::new();
        log.grow(300);
        let mut watch = Watch::of(&mut log).await;
        log.grow(10);
        let due = Instant::now() + Duration::from_secs(60);
        let sct = |number| verified(number, 302, Log::timestamp(number));
        let other = 302 + 303 - first;
        {
            let mut pending_scts = watch.pending_scts.lock();
            pending_scts.add(&sct(first), None, due).unwrap();
            pending_scts.add(&sct(other), None, due).unwrap_err();
        }
        assert_eq!(watch.look(&mut log).await, [checks::INCLUSION_INDEX]);
        let counts = watch.pending_scts.lock().counts;
        assert_eq!((counts.included, counts.misplaced), (1, 1), "{first} first");
    }
}

/// The monitor compares the data of an entry that the tree hash does not cover.
#[tokio::test]
async fn an_entry_is_compared_whole() {
    let print = |name: &'static [u8]| Issuer::new(Bytes::from_static(name)).fingerprint;
    for (chain, precertificate, expected) in [
        (vec![print(b"an issuer")], None, &[][..]),
        (vec![print(b"another")], None, &[checks::ENTRY_CHAIN]),
        (
            vec![print(b"an issuer"), print(b"a root")],
            None,
            &[checks::ENTRY_CHAIN],
        ),
        (
            vec![print(b"an issuer")],
            Some(print(b"a precertificate")),
            &[checks::ENTRY_PRECERTIFICATE],
        ),
    ] {
        let mut log = Log::new();
        let mut watch = Watch::of(&mut log).await;
        log.grow(300);
        let issuers = Arc::new(IssuerChain {
            chain,
            complete: true,
        });
        let extra_data = ExtraData {
            precertificate,
            issuers,
        };
        let due = Instant::now() + Duration::from_secs(60);
        let made = |watch: &Watch, index| {
            let mut pending_scts = watch.pending_scts.lock();
            pending_scts
                .add(&good(index), Some(extra_data.clone()), due)
                .unwrap();
        };
        made(&watch, 7);
        assert_eq!(watch.look(&mut log).await, expected);
        // The response arrived after the tile was read.
        made(&watch, 8);
        assert_eq!(watch.look(&mut log).await, expected);
    }
}

#[tokio::test]
async fn a_checkpoint_is_not_older_than_what_it_covers() {
    let mut log = Log::new();
    let root = log.edge.root();
    log.sign(0, root, NOW - 200_000);
    let mut watch = Watch::of(&mut log).await;
    drop(watch.findings.take());
    log.grow(10);
    let root = log.edge.root();
    log.sign(10, root, Log::timestamp(5));
    let told = |found: Vec<&str>| {
        let told = found.iter();
        told.filter(|name| **name == checks::CHECKPOINT_TIMESTAMP)
            .count()
    };
    watch.sct(good(3));
    assert_eq!(
        told(watch.look(&mut log).await),
        1,
        "entries after the fifth are newer"
    );
    watch.sct(good(7));
    assert_eq!(told(watch.look(&mut log).await), 2, "its SCT is newer, too");
}

#[tokio::test]
async fn what_is_wrong_with_checkpoints() {
    let mut log = Log::new();
    log.grow(300);
    let mut watch = Watch::of(&mut log).await;
    let first = log.files["checkpoint"].clone();

    log.sign(300, leaf_hash(b"another tree"), NOW + 301);
    assert_eq!(watch.look(&mut log).await, [checks::CHECKPOINT_FORK]);
    log.grow(10);
    log.sign(310, leaf_hash(b"another tree"), NOW + 311);
    assert_eq!(watch.look(&mut log).await, [checks::CHECKPOINT_CONSISTENT]);
    assert_eq!(watch.look(&mut log).await, NOTHING, "it is said once");
    log.files.insert("checkpoint".into(), first);
    assert_eq!(watch.look(&mut log).await, [checks::CHECKPOINT_GROWTH]);
    // The log's own tree continues from the last verified one.
    log.grow(10);
    assert_eq!(watch.look(&mut log).await, NOTHING);
    assert_eq!(watch.monitor.size(), 320);
}

/// Sizes for which no memory must be reserved before the log serves the tiles.
#[tokio::test]
async fn a_signed_size_without_tiles_costs_nothing() {
    for (size, check) in [
        (1 << 36, checks::TILE_SERVED),
        (1 << 40, checks::TILE_SERVED),
        ((1 << 40) + 1, checks::TILE_WELLFORMED),
        (u64::MAX, checks::TILE_WELLFORMED),
    ] {
        let mut log = Log::new();
        log.grow(300);
        let mut watch = Watch::of(&mut log).await;
        log.sign(size, leaf_hash(b"no tree"), NOW + 301);
        assert_eq!(watch.look(&mut log).await, [check], "{size}");
        assert_eq!(watch.monitor.size(), 300);
    }
}

/// Another reader was served a fork, which does not become part of the verified tree.
#[tokio::test]
async fn a_checkpoint_on_the_way_is_compared_too() {
    let mut log = Log::new();
    let mut watch = Watch::of(&mut log).await;
    log.grow(10);
    log.sign(10, leaf_hash(b"another tree"), NOW + 10);
    see(&mut watch.tree_heads, &mut log, &watch.findings)
        .await
        .unwrap();
    log.grow(10);
    assert_eq!(watch.look(&mut log).await, [checks::CHECKPOINT_CONSISTENT]);
}

#[tokio::test]
async fn what_is_wrong_with_tiles() {
    let mut log = Log::new();
    log.grow(300);
    let mut watch = Watch::of(&mut log).await;

    // A hash tile with a flipped bit: the entries prove that the tile is wrong.
    log.grow(10);
    log.file("tile/0/001.p/54")[1500] ^= 1;
    assert_eq!(watch.look(&mut log).await, [checks::TILE_CONSISTENT]);
    assert_eq!(watch.monitor.size(), 310);
    log.grow(10);
    assert_eq!(watch.look(&mut log).await, NOTHING);

    // Hashes that were published before have changed.
    log.grow(10);
    log.file("tile/0/001.p/74")[0] ^= 1;
    assert_eq!(watch.look(&mut log).await, [checks::TILE_CONSISTENT]);
    assert_eq!(watch.monitor.size(), 330);

    log.grow(10);
    log.file("tile/0/001.p/84").pop();
    assert_eq!(watch.look(&mut log).await, [checks::TILE_WELLFORMED]);
    log.files.remove("tile/0/001.p/84").unwrap();
    log.files.remove("tile/data/001.p/84").unwrap();
    let found = watch.look(&mut log).await;
    assert_eq!(found, [checks::TILE_SERVED]);
    log.grow(10);
    assert_eq!(watch.look(&mut log).await, NOTHING);
    // A damaged tile above level 0, which only its own check detects.
    log.grow(256 * 256 - 350);
    log.file("tile/1/000")[77] ^= 1;
    let found = watch.look(&mut log).await;
    let only = |name: &&str| *name == checks::TILE_CONSISTENT;
    assert!(!found.is_empty() && found.iter().all(only), "{found:?}");
}

#[tokio::test]
async fn what_is_wrong_with_entries_and_issuers() {
    for (what, expected) in [
        ("flipped", checks::ENTRY_HASH),
        ("cut", checks::ENTRY_WELLFORMED),
        ("longer", checks::ENTRY_WELLFORMED),
        ("index", checks::ENTRY_INDEX),
        ("missing", checks::TILE_SERVED),
        ("no issuer", checks::ISSUER_SERVED),
        ("other issuer", checks::ISSUER_HASH),
    ] {
        let mut log = Log::new();
        let mut watch = Watch::of(&mut log).await;
        log.grow(256);
        let issuer = Issuer::new(Bytes::from_static(b"an issuer")).fingerprint;
        let issuer = format!("issuer/{issuer}");
        let file = log.file("tile/data/000");
        match what {
            "flipped" => file[15] ^= 1, // in the first certificate
            "cut" => drop(file.pop()),
            "longer" => file.push(0),
            "index" => {
                let mut windows = file.windows(3);
                let header = windows
                    .position(|temporal_interval| temporal_interval == [0, 0, 5])
                    .unwrap();
                file[header + 7] ^= 1;
            }
            "missing" => drop(log.files.remove("tile/data/000")),
            "no issuer" => drop(log.files.remove(&issuer)),
            _ => drop(log.files.insert(issuer, b"somebody".to_vec())),
        }
        assert_eq!(watch.look(&mut log).await, [expected], "{what}");
    }
}

#[tokio::test]
async fn nothing_is_lost_while_the_log_is_away() {
    let mut log = Log::new();
    let mut watch = Watch::of(&mut log).await;
    log.grow(10);
    let head = see(&mut watch.tree_heads, &mut log, &watch.findings)
        .await
        .unwrap();
    watch.sct(good(3));
    log.away = true;
    let grown = watch.monitor.advance(&log, &head, &[], &watch.findings);
    assert!(matches!(grown.await, Err(FetchError::Unreachable(_))));
    log.away = false;
    assert_eq!(watch.look(&mut log).await, NOTHING);
    assert_eq!(watch.pending_scts.lock().counts.included, 1);
}
