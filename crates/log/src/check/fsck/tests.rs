use std::pin::pin;

use bytes::Bytes;
use lucarne_ct::{Entry, Fingerprint, Issuer, SignedEntry, TileLeafRef};
use lucarne_tlog::EMPTY_ROOT;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::check::stored_log::{Stored, certified};
use crate::check::unsigned::PartsError;

/// Returns a log of `size` entries, without superseded partial tiles.
fn log(size: u32) -> (Arc<Stored>, Checkpoint) {
    let issuer = Arc::new(Issuer::new(Bytes::from_static(b"ca")));
    let issuers: Arc<[Arc<Issuer>]> = [issuer].into();
    Stored::log((0..size).map(|n| entry(n, issuers.clone())))
}

fn entry(n: u32, issuers: Arc<[Arc<Issuer>]>) -> Arc<Entry> {
    let certificate = Bytes::from(n.to_be_bytes().repeat(6));
    let signed = SignedEntry::X509 { certificate };
    Arc::new(Entry {
        identity: signed.identity(),
        signed,
        precertificate: None,
        issuers,
    })
}

async fn findings(stored: &Arc<Stored>, signed: &Checkpoint) -> Vec<Finding> {
    let (mut found, mut entries) = (Vec::new(), 0);
    let mut tiles = pin!(fsck(
        stored.clone(),
        signed.clone(),
        FsckPosition::default(),
        FsckOptions::new(8),
    ));
    while let Some(checked) = tiles.next().await {
        entries = checked.entries;
        found.extend(checked.findings);
    }
    assert_eq!(entries, signed.size);
    found
}

#[tokio::test]
async fn a_log_as_it_was_written_is_right() {
    for size in [0, 1, 255, 256, 257, 1000, 65_536, 66_000] {
        let (stored, signed) = log(size);
        assert_eq!(signed.root == EMPTY_ROOT, size == 0);
        let found = findings(&stored, &signed).await;
        assert!(found.is_empty(), "{size}: {}", found[0]);
    }
}

/// The check reports the file of a flipped bit, and no other.
#[tokio::test]
async fn a_flipped_bit_is_found_in_its_file() {
    let (stored, signed) = log(66_000);
    let paths: Vec<_> = stored.0.read().keys().cloned().collect();
    let seed = 14;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..40 {
        let path = &paths[random.random_range(0..paths.len())];
        let bit = random.random_range(0..8 * stored.0.read()[path].len());
        stored.flip(path, bit);
        let found = findings(&stored, &signed).await;
        let named: Vec<_> = found.iter().map(|finding| &finding.path).collect();
        assert!(
            !named.is_empty() && named.iter().all(|name| *name == path),
            "seed {seed}, round {round}: bit {bit} of {path}: {named:?}"
        );
        if let (Some(offset), false) = (found[0].offset, path.contains("data")) {
            assert_eq!(offset, bit as u64 / 8, "{}", found[0]);
        }
        stored.flip(path, bit);
    }
}

#[tokio::test]
async fn a_file_that_is_missing_is_named() {
    let (stored, signed) = log(66_000);
    let mut paths: Vec<_> = stored.0.read().keys().cloned().collect();
    // If the last names tile is missing, the check expects no names tiles.
    paths.retain(|path| !path.starts_with("tile/names/"));
    for path in paths.iter().step_by(37).chain(paths.last()) {
        let bytes = stored.0.write().remove(path).unwrap();
        let found = findings(&stored, &signed).await;
        assert!(!found.is_empty(), "{path}");
        for finding in &found {
            assert_eq!(&finding.path, path, "{finding}");
            assert!(matches!(finding.problem, Problem::Missing), "{finding}");
            let words = if path.contains(".p/") {
                "is missing, as is the full tile"
            } else {
                "is missing"
            };
            assert_eq!(finding.detail(), words, "{finding}");
        }
        stored.0.write().insert(path.clone(), bytes);
    }
}

/// A check in parts has the same findings as a single check: it omits no tile between the parts,
/// and the order of timestamps spans them.
#[tokio::test]
async fn a_check_goes_on_where_it_was_left() {
    let (stored, signed) = log(2000);
    let first = pin!(fsck(
        stored.clone(),
        signed.clone(),
        FsckPosition::default(),
        FsckOptions::new(3),
    ));
    let left = first.take(3).collect::<Vec<_>>().await;
    let next = left.last().unwrap().next;
    assert_eq!((next.tile, left[2].entries), (3, 768));
    assert!(next.newest_ms > 0);
    for path in ["tile/data/001", "tile/data/005"] {
        stored.0.write().remove(path).unwrap();
    }
    let rest = fsck(stored.clone(), signed.clone(), next, FsckOptions::new(3));
    let rest = rest.collect::<Vec<_>>().await;
    let named = rest.iter().flat_map(|checked| &checked.findings);
    let named: Vec<_> = named.map(|finding| &finding.path).collect();
    assert_eq!(named, ["tile/data/005"]);
    assert_eq!(rest.last().unwrap().entries, 2000);

    // Timestamps out of order are counted, but are not damage.
    assert!(rest.iter().all(|checked| checked.disordered == 0));
    let late = FsckPosition {
        newest_ms: u64::MAX,
        ..next
    };
    let rest = fsck(stored, signed, late, FsckOptions::new(3))
        .collect::<Vec<_>>()
        .await;
    assert!(rest[0].findings.is_empty());
    assert_eq!(rest[0].disordered, 256);
}

/// The check reports wrong names tiles, and expects no names tiles in a log that never wrote any.
#[tokio::test]
async fn names_tiles_are_held_against_the_entries() {
    let (stored, signed) = log(1000);
    let other = crate::data::gzip::gzip(b"{}\n").unwrap();
    stored.0.write().insert("tile/names/000".to_owned(), other);
    stored.0.write().remove("tile/names/002").unwrap();
    let found = findings(&stored, &signed).await;
    let found: Vec<_> = found
        .iter()
        .map(|finding| (finding.path.as_str(), finding.problem.code(), finding.entry))
        .collect();
    assert_eq!(
        found,
        [
            ("tile/names/000", "names", Some(0)),
            ("tile/names/002", "missing", Some(512)),
        ]
    );
    // Names tiles before the first existing names tile are not expected: other software wrote the
    // log before.
    stored.0.write().remove("tile/names/000").unwrap();
    stored.0.write().remove("tile/names/001").unwrap();
    assert!(findings(&stored, &signed).await.is_empty());
    let all = fsck(
        stored.clone(),
        signed.clone(),
        FsckPosition::default(),
        FsckOptions {
            names: NamesTiles::All,
            ..FsckOptions::new(3)
        },
    );
    let all: Vec<_> = all
        .flat_map(|tile| futures_util::stream::iter(tile.findings))
        .collect()
        .await;
    assert_eq!(all.len(), 3);
    // The check expects no names tiles if the last names tile is missing.
    stored.0.write().remove("tile/names/003.p/232").unwrap();
    assert!(findings(&stored, &signed).await.is_empty());
}

/// The check reports the uncompressed data tile of a flipped bit, and no other file,
/// also if no hash covers the bit.
#[tokio::test]
async fn a_flipped_bit_is_found_in_an_uncompressed_tile() {
    let (stored, signed) = certified(3);
    stored.store_plain();
    assert!(findings(&stored, &signed).await.is_empty());
    let path = "tile/data/000.p/3";
    let tile = stored.0.read()[path].clone();
    let mut rest = &tile[..];
    // There is an entry of each kind, the precertificate first.
    for kind in 0..2 {
        let start = tile.len() - rest.len();
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        let end = tile.len() - rest.len();
        let unsigned =
            2 + 32 * leaf.fingerprints.len() + leaf.precertificate.map_or(0, <[u8]>::len);
        // Every bit of the chain's length is flipped: a wrong length names issuers that never
        // existed.
        let length = end - 32 * leaf.fingerprints.len() - 2..end - 32 * leaf.fingerprints.len();
        let sample = (end - unsigned..end).step_by(3).chain(start..start + 8);
        let sample = sample.map(|byte| 8 * byte + byte % 8);
        for bit in sample.chain(8 * length.start..8 * length.end) {
            stored.flip(path, bit);
            let found = findings(&stored, &signed).await;
            let named: Vec<_> = found.iter().map(|finding| &finding.path).collect();
            assert!(
                !named.is_empty() && named.iter().all(|name| *name == path),
                "kind {kind}, bit {bit} of {start}..{end}: {named:?}"
            );
            stored.flip(path, bit);
        }
    }
}

/// Only a later tile refers to the right issuer. The check still reports the damaged tile, and not
/// an issuer that never existed.
#[tokio::test]
async fn a_flipped_bit_of_a_fingerprint_is_found_before_its_issuer_is_known() {
    let issuers = [&b"one"[..], b"other"].map(|der| Arc::new(Issuer::new(Bytes::from(der))));
    let (stored, signed) = Stored::log((0..300).map(|n| {
        let of_entry = &issuers[usize::from(!matches!(n, 3 | 299))];
        entry(n, [of_entry.clone()].into())
    }));
    stored.store_plain();
    let fingerprint = Fingerprint::of(b"one");
    let path = "tile/data/000";
    let tile = stored.0.read()[path].clone();
    let place = tile.windows(32).position(|it| it == fingerprint.0).unwrap();
    for bit in [0, 77, 255] {
        stored.flip(path, 8 * place + bit);
        let found = findings(&stored, &signed).await;
        let named: Vec<_> = found.iter().map(|it| (&it.path[..], it.entry)).collect();
        assert_eq!(named, [(path, Some(3))], "bit {bit}");
        stored.flip(path, 8 * place + bit);
    }
    // A missing issuer is reported as missing.
    let missing = format!("issuer/{fingerprint}");
    stored.0.write().remove(&missing);
    let found = findings(&stored, &signed).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, missing);
}

/// Inverts every bit, so that the number of damaged bits does not depend on the certificates.
fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Fingerprints with many damaged bits resemble no issuer. The rest of the chain shows the right
/// issuer of each fingerprint.
#[tokio::test]
async fn a_damaged_fingerprint_is_told_from_a_missing_issuer() {
    let (stored, signed) = certified(300);
    stored.store_plain();
    let path = "tile/data/000";
    let tile = stored.0.read()[path].clone();
    let mut rest = &tile[..];
    // An entry of each kind, the precertificate first.
    for index in 0..2 {
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        let end = tile.len() - rest.len();
        let count = leaf.fingerprints.len();
        for (position, right) in leaf.fingerprints.enumerate() {
            let place = end - 32 * (count - position);
            let mut damaged = tile.to_vec();
            invert(&mut damaged[place..place + 16]);
            let wrong = damaged[place..place + 32].try_into().unwrap();
            stored
                .0
                .write()
                .insert(path.to_owned(), damaged.clone().into());
            let found = findings(&stored, &signed).await;
            let named: Vec<_> = found.iter().map(|it| (&it.path[..], it.entry)).collect();
            assert_eq!(named, [(path, Some(index))], "position {position}");
            let problem = PartsError::Completed {
                found: Fingerprint(wrong),
                expected: right,
            };
            assert_eq!(found[0].problem.to_string(), problem.to_string());
            // Another certificate with the same name and key may be the missing issuer.
            damaged[place..place + 32].fill(0xa5);
            stored.0.write().insert(path.to_owned(), damaged.into());
            let found = findings(&stored, &signed).await;
            let named: Vec<_> = found.iter().map(|it| it.path.clone()).collect();
            assert_eq!(named, [format!("issuer/{}", Fingerprint([0xa5; 32]))]);
        }
    }
    // Two entries name the same issuer: it existed.
    let mut damaged = tile.to_vec();
    let right = TileLeafRef::read(&mut &tile[..])
        .unwrap()
        .fingerprints
        .next();
    let right = right.unwrap().0;
    let mut twice = right;
    invert(&mut twice[..16]);
    let twice = Fingerprint(twice);
    let places: Vec<_> = (0..tile.len() - 32)
        .filter(|at| tile[*at..*at + 32] == right)
        .take(2)
        .collect();
    for place in places {
        damaged[place..place + 32].copy_from_slice(&twice.0);
    }
    stored.0.write().insert(path.to_owned(), damaged.into());
    let found = findings(&stored, &signed).await;
    let named: Vec<_> = found.iter().map(|it| it.path.clone()).collect();
    assert_eq!(named, [format!("issuer/{twice}")]);
    // The file of an issuer that all entries name is missing.
    stored.0.write().insert(path.to_owned(), tile.clone());
    let missing = format!("issuer/{}", Fingerprint(right));
    stored.0.write().remove(&missing);
    let found = findings(&stored, &signed).await;
    let named: Vec<_> = found.iter().map(|it| it.path.clone()).collect();
    assert_eq!(named, [missing]);
}

/// The checksum of gzip protects a compressed tile against bit rot, but not against forgery.
#[tokio::test]
async fn entries_are_verified_in_the_tiles_that_are_asked_for() {
    let (stored, signed) = certified(300);
    let path = "tile/data/000";
    stored.store_plain();
    let tile = stored.0.read()[path].clone();
    let leaf = TileLeafRef::read(&mut &tile[..]).unwrap();
    let precertificate = leaf.precertificate.unwrap();
    let start = precertificate.as_ptr() as usize - tile.as_ptr() as usize;
    stored.flip(path, 8 * (start + precertificate.len() - 5));
    let found = findings(&stored, &signed).await;
    let problem = &found[0].problem;
    assert!(
        matches!(problem, Problem::Parts(PartsError::Rejected(_))),
        "{problem}"
    );
    assert_eq!((found[0].entry, found[0].offset), (Some(0), Some(0)));
    let forged = crate::data::gzip::gzip(&stored.0.read()[path]).unwrap();
    stored.0.write().insert(path.to_owned(), forged);
    assert_eq!(findings(&stored, &signed).await.len(), 1);
    let options = FsckOptions {
        parts: Parts::Uncompressed,
        ..FsckOptions::new(2)
    };
    let tiles = fsck(stored, signed, FsckPosition::default(), options);
    let found = tiles.flat_map(|tile| stream::iter(tile.findings));
    assert_eq!(found.count().await, 0);
}

/// A gzip bomb in place of a tile is decompressed only up to its first wrong entry.
#[tokio::test]
async fn a_bomb_is_not_unpacked() {
    let (stored, signed) = certified(300);
    let tile = Tile::parse("tile/data/000").unwrap();
    let bomb = crate::data::gzip::gzip(&vec![0; 64 << 20]).unwrap();
    stored.0.write().insert(tile.path(), bomb);
    let plain = tiles::tile(&*stored, tile).await.unwrap();
    assert!(plain.len() < 1 << 20, "{}", plain.len());
    let found = findings(&stored, &signed).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0].path, found[0].problem.code()),
        (&tile.path(), "entry")
    );
}
