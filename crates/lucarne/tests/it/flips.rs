//! Flipped bits in files that no client reads: the scrubber finds and names each, the server
//! withholds the file from readers, and a copy repairs it.
//!
//! `LUCARNE_FLIPS` and `LUCARNE_FLIP_ENTRIES` set the numbers of flips and entries (1000 and 100000
//! for the figures in docs/explanation/reliability.md). `LUCARNE_SEED` repeats a run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lucarne_testkit::{Bucket, LogUnderTest, Place, Server};
use lucarne_tlog::{Checkpoint, Level, MAX_LEVEL, SignedNote, Tile};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, log, log_at, ready, run};
use crate::fsck::{last, said};

/// Files that are wrong at the same time.
const AT_ONCE: usize = 50;
/// The longest wait for a pass over all files, which begins ten seconds after startup.
const PASS: Duration = Duration::from_secs(120);
const SETTINGS: &str = "period: 100\nscrub: 500MB/s";

fn number(variable: &str, usual: u64) -> u64 {
    let given = std::env::var(variable);
    given.map_or(usual, |text| text.parse().unwrap())
}

/// The place of a log's files, for the test that damages them.
enum Files {
    Directory(LogUnderTest),
    Bucket(LogUnderTest, Bucket),
}

impl Files {
    fn log(&self) -> &LogUnderTest {
        match self {
            Files::Directory(log) | Files::Bucket(log, _) => log,
        }
    }

    fn read(&self, path: &str) -> Vec<u8> {
        match self {
            Files::Directory(log) => std::fs::read(log.data().join(path)).unwrap(),
            Files::Bucket(_, bucket) => run(bucket.get(&format!("data/{path}"))).unwrap(),
        }
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        match self {
            Files::Directory(log) => std::fs::write(log.data().join(path), bytes).unwrap(),
            Files::Bucket(_, bucket) => {
                run(bucket.put(&format!("data/{path}"), bytes)).unwrap();
            }
        }
    }

    /// Copies all files to a directory.
    fn copy(&self, paths: &[String], to: &Path) {
        for path in paths {
            let file = to.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, self.read(path)).unwrap();
        }
    }

    fn start(&self) -> Server {
        // The file has the time of the last pass. With this file, the next pass would be due in an
        // hour.
        let _ = std::fs::remove_file(self.log().path().join("cache/scrub"));
        let server = self.log().start().unwrap();
        run(ready(self.log()));
        server
    }
}

/// Returns the files that the signed tree needs: tiles of every level, and issuers.
pub(crate) fn needed(read: &dyn Fn(&str) -> Vec<u8>) -> Vec<String> {
    let note = SignedNote::parse(&read("checkpoint")).unwrap();
    let size = Checkpoint::parse(&note.text).unwrap().size;
    let levels = (0..=MAX_LEVEL).map(Level::Hashes).chain([Level::Data]);
    let tiles = levels.flat_map(|level| {
        let indexes = (0..).map_while(move |index| Tile::widest(level, index, size));
        indexes.map(|tile| tile.path())
    });
    let mut paths: Vec<String> = tiles.collect();
    let issuers: BTreeSet<String> = paths
        .iter()
        .filter(|path| path.starts_with("tile/data/"))
        .flat_map(|path| issuers(&read(path)))
        .collect();
    paths.extend(issuers);
    paths
}

/// Returns the issuers that the entries of a data tile refer to.
fn issuers(packed: &[u8]) -> Vec<String> {
    let mut plain = Vec::new();
    let mut unpacked = flate2::read::GzDecoder::new(packed);
    std::io::Read::read_to_end(&mut unpacked, &mut plain).unwrap();
    let mut rest = &plain[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let leaf = lucarne_ct::TileLeafRef::read(&mut rest).unwrap();
        found.extend(leaf.fingerprints.map(|print| format!("issuer/{print}")));
    }
    found
}

fn grow(log: &LogUnderTest, entries: u64) {
    let mut server = log.start().unwrap();
    run(async {
        ready(log).await;
        let load = Arc::new(Load::new(log));
        let each = |load: Arc<Load>| async move {
            while (load.count() as u64) < entries {
                assert_eq!(load.submit(&load.fresh()).await, Some(true));
            }
        };
        let tasks: Vec<_> = (0..64).map(|_| tokio::spawn(each(load.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Flips one bit in each of `count` files, and follows these files until they are repaired.
fn flip(files: &Files, copy: &Path, paths: &[String], count: usize, random: &mut StdRng) {
    let mut server = files.start();
    let wrong: Vec<&String> = paths.choose_multiple(random, count).collect();
    let good: Vec<Vec<u8>> = wrong.iter().map(|path| files.read(path)).collect();
    for (path, good) in wrong.iter().zip(&good) {
        let bad = flipped(good, random);
        files.write(path, &bad);
    }
    server.wait_for_output("scrub: pass ended", PASS).unwrap();
    let output = server.output();
    for (path, good) in wrong.iter().zip(&good) {
        let named = |line: &str| line.contains("scrub: a file differs") && line.contains(*path);
        // An issuer cannot be checked while the entries that name it are wrong as well: a pass
        // after the repair would find it, and so does the repair.
        let hidden = path.starts_with("issuer/") && wrong.iter().any(is_entries);
        let is_named = output.lines().any(named);
        assert!(is_named || hidden, "{path} is not named:\n{output}");
        let answer = run(files.log().client().get(path)).unwrap();
        // The newest tiles are served from memory, and are correct there.
        match answer.status.as_u16() {
            200 => assert_eq!(plain(&answer.body), plain(good), "{path}"),
            status => assert_eq!(status, 503, "{path}"),
        }
    }
    let repair = files.log().launch("repair").args(["--from"]).arg(copy);
    let (code, lines) = said(repair);
    assert_eq!(code, 0, "{lines:?}");
    // The log itself restores hash tiles whose entries are correct.
    let output = server.output();
    let restored = output.matches("restored a damaged file").count() as u64;
    let repaired = last(&lines)["repaired"].as_u64().unwrap();
    assert!(repaired + restored >= count as u64, "{lines:?}\n{output}");
    run(ready(files.log()));
    for (path, good) in wrong.iter().zip(&good) {
        let answer = run(files.log().client().get(path)).unwrap();
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(plain(&answer.body), plain(good), "{path}");
    }
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Returns the bytes with one flipped bit.
fn flipped(good: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bad = good.to_vec();
    let bit = random.random_range(0..8 * bad.len());
    bad[bit / 8] ^= 1 << (bit % 8);
    bad
}

fn is_entries(path: &&String) -> bool {
    path.starts_with("tile/data/")
}

/// Returns the decompressed bytes, because the compressed form is not signed.
fn plain(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut plain) {
        Ok(_) => plain,
        Err(_) => bytes.to_vec(),
    }
}

fn all_are_found_and_put_right(files: &Files, usual: u64) {
    let flips = number("LUCARNE_FLIPS", usual) as usize;
    let seed = number("LUCARNE_SEED", 1);
    println!("LUCARNE_SEED={seed}");
    grow(files.log(), number("LUCARNE_FLIP_ENTRIES", 600));
    let paths = needed(&|path| files.read(path));
    let copy = files.log().path().join("copy");
    files.copy(&paths, &copy);
    let mut random = StdRng::seed_from_u64(seed);
    let mut done = 0;
    while done < flips {
        let count = AT_ONCE.min(flips - done).min(paths.len() / 2);
        flip(files, &copy, &paths, count, &mut random);
        done += count;
        println!("{done} of {flips}");
    }
    let (code, lines) = said(files.log().launch("fsck"));
    assert_eq!(code, 0, "{lines:?}");
}

/// Repairs flipped bits on a disk.
#[test]
fn a_bit_anywhere_in_a_directory() {
    all_are_found_and_put_right(&Files::Directory(log(SETTINGS)), 6);
}

/// Repairs flipped bits in a bucket, which this configuration scrubs completely.
#[test]
fn a_bit_anywhere_in_a_bucket() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let log = log_at(Place::bucket(&bucket, None), SETTINGS);
    all_are_found_and_put_right(&Files::Bucket(log, bucket), 6);
}
