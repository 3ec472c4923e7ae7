use std::pin::pin;
use std::sync::OnceLock;

use lucarne_ct::{Entry, Fingerprint, Issuer, SignedEntry, TileLeafRef};
use lucarne_mint::testing::Pki;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::compress::gunzip;
use crate::gzip::gzip;
use crate::stored_log::Stored;

type Submitted = (Bytes, Arc<[Arc<Issuer>]>);

/// A certificate and a precertificate, each with its chain up to the root.
fn submitted() -> &'static [Submitted; 2] {
    static SUBMITTED: OnceLock<[Submitted; 2]> = OnceLock::new();
    SUBMITTED.get_or_init(|| {
        let pki = Pki::shared();
        let certificate = pki.certificate(&pki.p256, "repair.example").unwrap();
        let precertificate = pki.precertificate(&pki.p256, "repair.example").unwrap();
        [certificate, precertificate].map(|chain| {
            let mut chain = chain.into_certificates().into_iter();
            let leaf = chain.next().unwrap().into();
            let chain = chain.chain(pki.root.certificates().iter().cloned());
            let issuers = chain.map(|der| Arc::new(Issuer::new(der.into())));
            (leaf, issuers.collect())
        })
    })
}

/// A log of `size` entries, every third of which is a precertificate.
fn log(size: u64) -> (Arc<Stored>, Checkpoint) {
    Stored::log((0..size).map(|n| {
        let is_precertificate = n % 3 == 0;
        let (der, issuers) = &submitted()[usize::from(is_precertificate)];
        let parsed = lucarne_ct::Certificate::parse(der).unwrap();
        let (signed, precertificate) = match is_precertificate {
            false => {
                let certificate = der.clone();
                (SignedEntry::X509 { certificate }, None)
            }
            true => {
                let tbs = lucarne_ct::tbs_without_poison(&parsed).into();
                let issuer_key_hash = [7; 32];
                let signed = SignedEntry::Precert {
                    issuer_key_hash,
                    tbs,
                };
                (signed, Some(der.clone()))
            }
        };
        Arc::new(Entry {
            identity: signed.identity(),
            signed,
            precertificate,
            issuers: issuers.clone(),
        })
    }))
}

/// The files that were put right, and what is still wrong.
async fn mend(
    stored: &Arc<Stored>,
    sources: &[&Arc<Stored>],
    signed: &Checkpoint,
) -> (Vec<String>, Vec<Finding>) {
    let sources = sources.iter().map(|files| Source {
        place: "elsewhere".into(),
        files: (*files).clone(),
    });
    let log = Repair {
        files: stored.clone(),
        repairs: stored.clone(),
        sources: sources.collect(),
        signed: signed.clone(),
        at_once: 4,
    };
    let (mut cured, mut wrong) = (Vec::new(), Vec::new());
    let mut tiles = pin!(repair(log, FsckPosition::default()));
    while let Some(repaired) = tiles.next().await {
        let Repaired { checked, cures } = repaired.unwrap();
        cured.extend(cures.into_iter().map(|cure| cure.finding.path));
        wrong.extend(checked.findings);
    }
    (cured, wrong)
}

/// Whatever is wrong at once, and however much: a whole copy puts it right, byte for byte.
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

/// Hash tiles need nobody else, as long as their entries are there.
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

/// Entries are nowhere else: without another place they stay wrong, and that is said.
#[tokio::test]
async fn what_nobody_has_stays_wrong() {
    let (right, signed) = log(600);
    let stored = right.copy();
    stored.flip("tile/data/001", 99);
    let (cured, left) = mend(&stored, &[], &signed).await;
    assert!(cured.is_empty());
    assert_eq!(left[0].path, "tile/data/001");
    // A place with the same fault has nothing to give, and one that is empty neither.
    let (cured, left) = mend(&stored, &[&stored.copy(), &Arc::default()], &signed).await;
    assert!(cured.is_empty());
    assert_eq!(left.len(), 1);
}

/// A place that has grown since has a wider tile in place of the partial one.
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

/// Parts that no hash covers are not taken from just anybody.
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
        // None of its issuers, or another order of them.
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
        // Somebody else has the right one.
        let stored = stored.copy();
        let (cured, left) = mend(&stored, &[&other, &right], &signed).await;
        assert_eq!((cured.len(), left.len()), (1, 0));
        assert!(*stored.0.read() == *right.0.read());
    }
}

/// The parts of an entry that no hash covers.
struct Unsigned {
    precertificate: Option<Vec<u8>>,
    fingerprints: Vec<Fingerprint>,
}

/// A data tile whose first entry has other parts.
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
