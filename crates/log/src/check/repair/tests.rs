use std::pin::pin;

use lucarne_ct::{Certificate, Fingerprint, TileLeafRef};
use lucarne_mint::testing::Pki;
use lucarne_mint::{Authority, CaOptions, Der, KeyType, Lengths};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::check::fsck::Parts;
use crate::check::stored_log::{Stored, certified as log};
use crate::data::gzip::gzip;
use lucarne_ctread::gunzip;

/// Repairs a log, and returns the repaired files and the remaining problems.
async fn mend(
    stored: &Arc<Stored>,
    sources: &[&Arc<Stored>],
    signed: &Checkpoint,
) -> (Vec<String>, Vec<Finding>) {
    let sources = sources.iter().map(|files| OtherCopy {
        place: "elsewhere".into(),
        files: (*files).clone(),
    });
    let log = Repair {
        files: stored.clone(),
        repairs: stored.clone(),
        sources: sources.collect(),
        signed: signed.clone(),
        accepted: Arc::new(Roots::from_pem(Pki::shared().roots_pem().as_bytes()).0),
        options: FsckOptions {
            parts: match signed.size {
                ..1000 => Parts::All,
                // Verifying signatures takes long.
                _ => Parts::Uncompressed,
            },
            ..FsckOptions::new(4)
        },
    };
    let (mut cured, mut wrong) = (Vec::new(), Vec::new());
    let mut tiles = pin!(repair(log, FsckPosition::default()));
    while let Some(repaired) = tiles.next().await {
        let Repaired { checked, cures, .. } = repaired.unwrap();
        cured.extend(cures.into_iter().map(|cure| cure.finding.path));
        wrong.extend(checked.findings);
    }
    (cured, wrong)
}

/// A complete copy repairs any number of wrong files, byte for byte.
#[tokio::test]
async fn a_copy_puts_everything_right() {
    let (right, signed) = log(66_000);
    let paths: Vec<_> = right.0.read().keys().cloned().collect();
    let mut random = StdRng::seed_from_u64(14);
    for wrong in [1, 1, 1, 1, 2, 5, 40, 400] {
        let stored = right.copy();
        for _ in 0..wrong {
            let path = &paths[random.random_range(0..paths.len())];
            let bits = 8 * stored.0.read().get(path).map_or(0, Bytes::len);
            match random.random_range(0..8) {
                0 => drop(stored.0.write().remove(path)),
                _ if bits > 0 => stored.flip(path, random.random_range(0..bits)),
                _ => {}
            }
        }
        let (cured, left) = mend(&stored, &[&right], &signed).await;
        assert!(left.is_empty(), "{wrong}: {}", left[0]);
        assert!(cured.len() <= wrong, "{wrong}: {cured:?}");
        assert!(*stored.0.read() == *right.0.read(), "{wrong}: {cured:?}");
    }
}

#[test]
fn what_leads_to_a_tile() {
    let size = 66_000;
    for (upper, to, leads) in [
        ("tile/0/003", "tile/0/003", true),
        ("tile/0/003", "tile/data/003", true),
        ("tile/1/000", "tile/data/255", true),
        ("tile/1/000", "tile/0/255", true),
        ("tile/1/000", "tile/0/256", false),
        ("tile/0/000", "tile/1/000", false),
        ("tile/0/003", "tile/0/004", false),
        ("tile/data/003", "tile/0/003", false),
        ("issuer/00", "tile/0/003", false),
        // The right edge.
        ("tile/0/257.p/208", "tile/0/003", true),
        ("tile/2/000.p/1", "tile/data/000", true),
        ("tile/1/001.p/1", "tile/1/000", true),
    ] {
        assert_eq!(leads_to(upper, to, size), leads, "{upper} {to}");
    }
}

/// Hash tiles are recomputed from their entries, without another source.
#[tokio::test]
async fn hash_tiles_come_from_their_entries() {
    let (right, signed) = log(66_000);
    for lost in [
        &["tile/0/007"][..],
        &["tile/1/000"],
        &["tile/2/000.p/1"],
        &["tile/0/003", "tile/0/257.p/208", "tile/1/000"],
        &[
            "tile/0/000",
            "tile/0/255",
            "tile/1/000",
            "tile/1/001.p/1",
            "tile/2/000.p/1",
        ],
    ] {
        let stored = right.copy();
        lost.iter()
            .for_each(|path| drop(stored.0.write().remove(*path)));
        let (mut cured, left) = mend(&stored, &[], &signed).await;
        assert!(left.is_empty(), "{lost:?}: {}", left[0]);
        cured.sort();
        assert_eq!(cured, lost);
        assert!(*stored.0.read() == *right.0.read());
    }
}

/// Wrong entries stay wrong and are reported if no other source has the correct entries.
#[tokio::test]
async fn what_nobody_has_stays_wrong() {
    let (right, signed) = log(600);
    let stored = right.copy();
    stored.flip("tile/data/001", 99);
    let (cured, left) = mend(&stored, &[], &signed).await;
    assert!(cured.is_empty());
    assert_eq!(left[0].path, "tile/data/001");
    // A source with the same fault does not help, and neither does an empty source.
    let (cured, left) = mend(&stored, &[&stored.copy(), &Arc::default()], &signed).await;
    assert!(cured.is_empty());
    assert_eq!(left.len(), 1);
}

/// A source that has grown since has a wider tile instead of the partial tile.
#[tokio::test]
async fn a_place_that_has_grown_is_of_use() {
    let (right, signed) = log(600);
    let (grown, then) = log(700);
    let note = format!(
        "{}\n{}\n{}\n\n— x AAAAAAA=\n",
        then.origin, then.size, then.root
    );
    grown.0.write().insert("checkpoint".into(), note.into());
    let stored = right.copy();
    stored.flip("tile/data/002.p/88", 700);
    stored.0.write().remove("tile/0/002.p/88");
    let (cured, left) = mend(&stored, &[&grown], &signed).await;
    assert!(left.is_empty(), "{}", left[0]);
    assert_eq!(cured.len(), 2);
    assert!(*stored.0.read() == *right.0.read());
}

/// The parts that no hash covers are verified before they are accepted from a source.
#[tokio::test]
async fn what_no_hash_covers_is_looked_at() {
    let (right, signed) = log(300);
    let data = "tile/data/000";
    let plain = gunzip(right.0.read()[data].clone()).unwrap();
    let stored = right.copy();
    stored.0.write().remove(data);
    for hostile in [
        // Another precertificate in the first entry.
        changed(&plain, |leaf, out| {
            let der = leaf.precertificate.unwrap().to_vec();
            let last = der.len() - 1;
            out.precertificate = Some(der);
            out.precertificate.as_mut().unwrap()[last] ^= 1;
        }),
        // No issuers, too few issuers, or issuers in another order.
        changed(&plain, |_, out| out.fingerprints.clear()),
        changed(&plain, |_, out| out.fingerprints.truncate(1)),
        changed(&plain, |_, out| out.fingerprints.reverse()),
        changed(&plain, |_, out| out.fingerprints[0] = Fingerprint([1; 32])),
    ] {
        let other = right.copy();
        let packed = gzip(&hostile).unwrap();
        other.0.write().insert(data.into(), packed);
        let (cured, left) = mend(&stored, &[&other], &signed).await;
        assert!(cured.is_empty());
        assert_eq!(left[0].path, data);
        // Another source has the correct tile.
        let stored = stored.copy();
        let (cured, left) = mend(&stored, &[&other, &right], &signed).await;
        assert_eq!((cured.len(), left.len()), (1, 0));
        assert!(*stored.0.read() == *right.0.read());
    }
}

/// A hostile mirror has certificates of authorities with the right names and other keys, and
/// precertificates that these authorities signed. The repair accepts no file of the mirror, and
/// every correct file stays.
#[tokio::test]
async fn forged_chains_are_not_taken() {
    let (right, signed) = log(300);
    let pki = Pki::shared();
    let named = |name| CaOptions::named(name, KeyType::EcdsaP256);
    let root = Authority::root(&named("Lucarne Test Root X1")).unwrap();
    let forged = root.intermediate(&named("Lucarne Test E1")).unwrap();
    // The correct key, in a certificate issued by the forged root.
    let options = named("Lucarne Test E1");
    let template = root.ca_template(&options, pki.p256.key()).unwrap();
    let certified = root.sign(&template).unwrap();
    for (issuer, is_signed_again) in [(forged.cert_der(), true), (&certified, false)] {
        let data = "tile/data/000";
        let hostile = right.copy();
        let chain = [issuer, root.cert_der()].map(Bytes::copy_from_slice);
        let fingerprints = chain.each_ref().map(|der| Fingerprint::of(der));
        let paths = fingerprints.map(|fingerprint| format!("issuer/{fingerprint}"));
        hostile.0.write().extend(paths.iter().cloned().zip(chain));
        for path in [data, "tile/data/001.p/44"] {
            let mut plain = gunzip(right.0.read()[path].clone()).unwrap().to_vec();
            // Each iteration changes the first entry and moves it to the end.
            for _ in 0..Tile::parse(path).unwrap().width() {
                let (first, rest) = split(&changed(&plain, |leaf, out| {
                    out.fingerprints = fingerprints.to_vec();
                    if is_signed_again {
                        let sign = |der: &[u8]| signed_again(der, &forged);
                        out.precertificate = leaf.precertificate.map(sign);
                    }
                }));
                plain = [rest, first].concat();
            }
            hostile.0.write().insert(path.into(), gzip(&plain).unwrap());
        }
        let damage: [fn(&Stored, &str); 3] = [
            |stored, path| drop(stored.0.write().remove(path)),
            |stored, path| stored.flip(path, 8000),
            |stored, path| {
                stored.store_plain();
                // In the signature of the first precertificate.
                let tile = stored.0.read()[path].clone();
                let leaf = TileLeafRef::read(&mut &tile[..]).unwrap();
                let end = leaf.precertificate.unwrap().as_ptr_range().end as usize;
                stored.flip(path, 8 * (end - tile.as_ptr() as usize - 5));
            },
        ];
        for damage in damage {
            let stored = right.copy();
            damage(&stored, data);
            let before = stored.copy();
            let (cured, left) = mend(&stored, &[&hostile], &signed).await;
            assert!(cured.is_empty(), "{cured:?}");
            assert_eq!(left[0].path, data);
            assert!(*stored.0.read() == *before.0.read());
            // The check rejects a forged signature, but not the correct key under another root.
            let forged = before.copy();
            forged.0.write().extend(hostile.0.read().clone());
            let (_, left) = mend(&forged, &[], &signed).await;
            assert_eq!(left.is_empty(), !is_signed_again);
            let (cured, left) = mend(&stored, &[&hostile, &right], &signed).await;
            assert_eq!((cured.len(), left.len()), (1, 0), "{cured:?}");
            let tile = stored.0.read()[data].clone();
            let expected = gunzip(right.0.read()[data].clone()).unwrap();
            assert_eq!(gunzip(tile).unwrap(), expected);
            assert!(!paths.iter().any(|path| stored.0.read().contains_key(path)));
        }
    }
}

/// Splits a tile into its first entry and the other entries.
fn split(tile: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut rest = tile;
    TileLeafRef::read(&mut rest).unwrap();
    let (first, rest) = tile.split_at(tile.len() - rest.len());
    (first.to_vec(), rest.to_vec())
}

/// Returns the certificate with the signature of another authority.
fn signed_again(der: &[u8], by: &Authority) -> Vec<u8> {
    let certificate = Certificate::parse(der).unwrap();
    let algorithm = by.key().default_algorithm();
    let signature = by.key().sign(algorithm, certificate.tbs()).unwrap();
    let mut der = Der::with_lengths(Lengths::Minimal);
    der.sequence(|der| {
        der.raw(certificate.tbs());
        der.raw(certificate.algorithm());
        der.bit_string(&signature);
    });
    der.into_bytes()
}

/// Correct entries of a damaged tile stay, although another source has other correct versions of
/// these entries. A damaged fingerprint is not reported as a missing issuer.
#[tokio::test]
async fn only_wrong_entries_are_replaced() {
    let (right, signed) = log(300);
    let data = "tile/data/000";
    right.store_plain();
    let tile = right.0.read()[data].clone();
    let leaf = TileLeafRef::read(&mut &tile[..]).unwrap();
    let last = leaf.fingerprints.last().unwrap();
    let place = tile.windows(32).position(|bytes| bytes == last.0).unwrap();
    // In the other source, the other entries have another certificate of the same issuer in their
    // chains.
    let pki = Pki::shared();
    let template = pki.root.ca_template(
        &CaOptions::named("Lucarne Test E1", KeyType::EcdsaP256),
        pki.p256.key(),
    );
    let other = Bytes::from(pki.root.sign(&template.unwrap()).unwrap());
    let elsewhere = right.copy();
    let path = format!("issuer/{}", Fingerprint::of(&other));
    elsewhere.0.write().insert(path.clone(), other.clone());
    let (first, rest) = split(&tile);
    let rest = changed(&rest, |leaf, out| {
        out.precertificate = leaf.precertificate.map(<[u8]>::to_vec);
        out.fingerprints[0] = Fingerprint::of(&other);
    });
    elsewhere
        .0
        .write()
        .insert(data.into(), [first, rest].concat().into());
    // A flipped bit in the last fingerprint of the first entry.
    let stored = right.copy();
    stored.flip(data, 8 * (place + 7));
    let alone = stored.copy();
    let (cured, left) = mend(&alone, &[], &signed).await;
    assert!(left.is_empty(), "{}", left[0]);
    assert_eq!(cured, [data]);
    assert_eq!(gunzip(alone.0.read()[data].clone()).unwrap(), tile);
    let (cured, left) = mend(&stored, &[&elsewhere], &signed).await;
    assert!(left.is_empty(), "{}", left[0]);
    assert_eq!(cured, [data]);
    assert_eq!(gunzip(stored.0.read()[data].clone()).unwrap(), tile);
    assert!(!stored.0.read().contains_key(&path));
}

/// A fingerprint with many damaged bits is restored from the rest of its chain, unless another
/// source has an issuer with this fingerprint.
#[tokio::test]
async fn damaged_fingerprints_are_restored_from_their_chains() {
    let (right, signed) = log(300);
    let data = "tile/data/000";
    right.store_plain();
    let tile = right.0.read()[data].clone();
    // Another certificate for the key and the name of the issuer.
    let pki = Pki::shared();
    let options = CaOptions::named("Lucarne Test E1", KeyType::EcdsaP256);
    let template = pki.root.ca_template(&options, pki.p256.key()).unwrap();
    let other = Bytes::from(pki.root.sign(&template).unwrap());
    let path = format!("issuer/{}", Fingerprint::of(&other));
    for position in 0..2 {
        let damaged = changed(&tile, |leaf, out| {
            out.precertificate = leaf.precertificate.map(<[u8]>::to_vec);
            out.fingerprints[position].0[8..24].fill(0xa5);
        });
        let stored = right.copy();
        stored.0.write().insert(data.into(), damaged.into());
        let (cured, left) = mend(&stored, &[], &signed).await;
        assert!(left.is_empty(), "{}", left[0]);
        assert_eq!(cured, [data]);
        assert_eq!(gunzip(stored.0.read()[data].clone()).unwrap(), tile);
    }
    // A fingerprint with a difference in every byte is not repaired: an attacker can create two
    // certificates with this difference.
    let damaged = Bytes::from(changed(&tile, |_, out| {
        for byte in &mut out.fingerprints[0].0 {
            *byte ^= 0x11;
        }
    }));
    let stored = right.copy();
    stored.0.write().insert(data.into(), damaged.clone());
    let (cured, left) = mend(&stored, &[], &signed).await;
    assert!(cured.is_empty());
    let named: Vec<_> = left.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(named, [data]);
    assert_eq!(stored.0.read()[data], damaged);
    // The fingerprint is correct, and the file of its issuer was lost.
    let damaged = Bytes::from(changed(&tile, |leaf, out| {
        out.precertificate = leaf.precertificate.map(<[u8]>::to_vec);
        out.fingerprints[0] = Fingerprint::of(&other);
    }));
    let (stored, elsewhere) = (right.copy(), right.copy());
    for files in [&stored, &elsewhere] {
        files.0.write().insert(data.into(), damaged.clone());
    }
    // Without a copy of the issuer, nothing is replaced.
    let (cured, left) = mend(&stored, &[], &signed).await;
    assert!(cured.is_empty());
    assert_eq!(left.len(), 1);
    assert_eq!(stored.0.read()[data], damaged);
    elsewhere.0.write().insert(path.clone(), other.clone());
    let (cured, left) = mend(&stored, &[&elsewhere], &signed).await;
    assert!(left.is_empty(), "{}", left[0]);
    assert_eq!(cured, std::slice::from_ref(&path));
    assert_eq!(stored.0.read()[data], damaged);
    assert_eq!(stored.0.read()[&path], other);
}

/// A superseded partial tile is verified by itself, not against the wider tile.
#[tokio::test]
async fn a_right_partial_tile_is_no_fault() {
    let (right, signed) = log(300);
    let data = Tile::parse("tile/data/000.p/7").unwrap();
    let plain = gunzip(right.0.read()["tile/data/000"].clone()).unwrap();
    let seven = prefix(data, plain.clone()).unwrap();
    right.0.write().insert(data.path(), gzip(&seven).unwrap());
    let files: Arc<dyn Source> = right.clone();
    let fault = async || crate::check::fsck::superseded(&files, data, signed.size).await;
    assert!(fault().await.is_none());
    let forged = changed(&plain, |leaf, out| {
        out.precertificate = leaf.precertificate.map(<[u8]>::to_vec);
        out.fingerprints.reverse();
    });
    right
        .0
        .write()
        .insert("tile/data/000".into(), gzip(&forged).unwrap());
    assert!(fault().await.is_none());
    let forged = prefix(data, forged.into()).unwrap();
    right.0.write().insert(data.path(), gzip(&forged).unwrap());
    right
        .0
        .write()
        .insert("tile/data/000".into(), gzip(&plain).unwrap());
    assert!(fault().await.is_some());
}

/// The parts of an entry that no hash covers.
struct Unsigned {
    precertificate: Option<Vec<u8>>,
    fingerprints: Vec<Fingerprint>,
}

/// Returns a data tile with other unsigned parts in its first entry.
fn changed(tile: &[u8], change: impl Fn(&TileLeafRef<'_>, &mut Unsigned)) -> Vec<u8> {
    let mut rest = tile;
    let leaf = TileLeafRef::read(&mut rest).unwrap();
    let mut parts = Unsigned {
        precertificate: leaf.precertificate.map(<[u8]>::to_vec),
        fingerprints: leaf.fingerprints.collect(),
    };
    change(&leaf, &mut parts);
    let mut whole = Vec::new();
    leaf.encode(&mut whole);
    let chain = 2 + 32 * leaf.fingerprints.count();
    let precertificate = leaf.precertificate.map_or(0, |der| 3 + der.len());
    whole.truncate(whole.len() - chain - precertificate);
    if let Some(der) = &parts.precertificate {
        whole.extend_from_slice(&(der.len() as u32).to_be_bytes()[1..]);
        whole.extend_from_slice(der);
    }
    let chain = parts.fingerprints.iter().flat_map(|print| print.0);
    let chain: Vec<u8> = chain.collect();
    whole.extend_from_slice(&(chain.len() as u16).to_be_bytes());
    whole.extend_from_slice(&chain);
    whole.extend_from_slice(rest);
    whole
}

/// Files of a log of which some cannot be written.
struct Locked {
    stored: Arc<Stored>,
    /// The path that is refused, with the reason.
    refused: (&'static str, fn(String) -> AssetError),
}

#[async_trait::async_trait]
impl lucarne_storage::Repairs for Locked {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.may_replace(&asset.path).await?;
        lucarne_storage::Repairs::replace(&*self.stored, asset).await
    }

    async fn may_replace(&self, path: &str) -> Result<(), AssetError> {
        let (refused, reason) = self.refused;
        if path == refused {
            return Err(reason(path.to_owned()));
        }
        Ok(())
    }
}

/// An adopted log of Sunlight has immutable files.
#[tokio::test]
async fn a_file_that_cannot_be_written_is_listed_and_the_others_are_repaired() {
    let immutable = |path| AssetError::Immutable { path };
    let silent = |directory| AssetError::Silent { directory };
    for (reason, ends) in [
        (immutable as fn(String) -> AssetError, false),
        (silent, true),
    ] {
        for is_trial in [false, true] {
            let (stored, signed) = log(600);
            let right = stored.copy();
            let wrong = ["tile/data/000", "tile/names/000", "tile/data/001"];
            for path in wrong {
                stored.flip(path, 2000);
            }
            let locked = Arc::new(Locked {
                stored: stored.clone(),
                refused: ("tile/data/000", reason),
            });
            let overlay = Arc::new(Overlay::trial(stored.clone(), locked.clone()));
            let (files, repairs): (Arc<dyn Source>, Arc<dyn lucarne_storage::Repairs>) = if is_trial
            {
                (overlay.clone(), overlay)
            } else {
                (stored.clone(), locked)
            };
            let log = Repair {
                files,
                repairs,
                sources: vec![OtherCopy {
                    place: "elsewhere".into(),
                    files: right.clone(),
                }],
                signed: signed.clone(),
                accepted: Arc::new(Roots::from_pem(Pki::shared().roots_pem().as_bytes()).0),
                options: FsckOptions::new(4),
            };
            let (mut cured, mut left, mut unwritten) = (Vec::new(), Vec::new(), Vec::new());
            let mut tiles = pin!(repair(log, FsckPosition::default()));
            let mut failed = false;
            while let Some(repaired) = tiles.next().await {
                match repaired {
                    Ok(repaired) => {
                        cured.extend(repaired.cures.into_iter().map(|cure| cure.finding.path));
                        unwritten.extend(repaired.unwritten.into_iter().map(|file| file.path));
                        left.extend(repaired.checked.findings);
                    }
                    Err(_) => failed = true,
                }
            }
            assert_eq!(failed, ends);
            if ends {
                continue;
            }
            assert_eq!(unwritten, ["tile/data/000"]);
            assert!(cured.contains(&"tile/data/001".to_owned()), "{cured:?}");
            assert!(left.iter().any(|finding| finding.path == "tile/data/000"));
            let untouched = stored.0.read()["tile/data/001"] != right.0.read()["tile/data/001"];
            assert_eq!(untouched, is_trial);
        }
    }
}
