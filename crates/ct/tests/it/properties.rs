//! Properties: no input causes a panic, encoded data can be parsed, and removing the poison leaves
//! no trace.

use std::sync::{Arc, LazyLock};

use crate::rewrapping::{Wrapping, wrapped};
use bytes::Bytes;
use lucarne_ct::{
    Certificate, Chain, ChainLimits, Entry, EntryKind, Issuer, Policy, Roots, SignedEntry,
    SignedEntryRef, TileLeaf, TileLeafRef, Validator, merkle_tree_leaf, tbs_without_poison,
};
use lucarne_mint::{Der, Extension, Oid, Template, extension, testing::Pki};
use proptest::prelude::*;

/// A log, and a chain and a precertificate chain that it accepts, with their roots.
struct Fixture {
    log: Validator,
    chain: Vec<Vec<u8>>,
    precert_chain: Vec<Vec<u8>>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let pki = Pki::shared();
    let (roots, _) = Roots::from_pem(pki.roots_pem().as_bytes());
    let leaf = pki.leaf("example.test");
    let whole = |options| pki.p256.full_chain(pki.p256.issue(options).unwrap());
    let (chain, precert_chain) = (whole(&leaf), whole(&leaf.clone().precertificate()));
    Fixture {
        log: Validator::new(Arc::new(roots), Policy::default()),
        chain: chain.into_certificates(),
        precert_chain: precert_chain.into_certificates(),
    }
});

fn verdict(chain: &[Vec<u8>], kind: EntryKind) -> bool {
    let log = &FIXTURE.log;
    let chain = Chain::from_ders(chain).unwrap();
    let entry = log
        .examine(&chain, kind, 0)
        .and_then(|examined| log.verify(examined));
    entry.is_ok()
}

/// A modification of bytes.
#[derive(Debug, Clone)]
enum Damage {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Cut(usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len().max(1);
        match self {
            Damage::Set(at, value) => {
                if let Some(byte) = bytes.get_mut(at % len) {
                    *byte = *value;
                }
            }
            Damage::Insert(at, more) => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Remove(at, count) => {
                let start = (at % len).min(bytes.len());
                let end = (start + count).min(bytes.len());
                bytes.drain(start..end);
            }
            Damage::Cut(at) => bytes.truncate(at % (bytes.len() + 1)),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0..4096usize;
    let odd_byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![0u8, 0x7f, 0x80, 0x84, 0xff, 0x30])
    ];
    prop_oneof![
        6 => (at(), odd_byte).prop_map(|(at, value)| Damage::Set(at, value)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, more)| Damage::Insert(at, more)),
        1 => (at(), 1..64usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => at().prop_map(Damage::Cut),
    ]
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    prop::collection::vec(damage(), 1..4)
}

fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    damages.iter().for_each(|damage| damage.apply(&mut bytes));
    bytes
}

fn json(chain: &[Vec<u8>]) -> Vec<u8> {
    let base64 = |der: &Vec<u8>| base64_simd::STANDARD.encode_to_string(der);
    let chain: Vec<_> = chain.iter().map(base64).collect();
    format!(r#"{{"chain":["{}"]}}"#, chain.join("\",\"")).into_bytes()
}

#[test]
fn the_fixtures_are_accepted() {
    assert!(verdict(&FIXTURE.chain, EntryKind::X509));
    assert!(verdict(&FIXTURE.precert_chain, EntryKind::Precert));
}

/// No unsigned bit in a chain can be changed: not in a length, an algorithm, a signature, or an
/// optional root.
#[test]
fn every_bit_that_nobody_signed_matters() {
    for (chain, kind) in [
        (&FIXTURE.chain, EntryKind::X509),
        (&FIXTURE.precert_chain, EntryKind::Precert),
    ] {
        for place in 0..chain.len() {
            let der = &chain[place];
            let tbs = Certificate::parse(der).unwrap().tbs().as_ptr_range();
            for at in (0..der.len()).filter(|at| !tbs.contains(&der[*at..].as_ptr())) {
                for bit in 0..8 {
                    let mut flipped = chain.clone();
                    flipped[place][at] ^= 1 << bit;
                    assert!(!verdict(&flipped, kind), "{kind:?} {place}: {at}, {bit}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Of all encodings around a signed part, only the authority's own is accepted.
    #[test]
    fn a_signed_part_has_one_wrapping(wrapping in wrapping(), place in 0..3usize, precert: bool) {
        let (mut chain, kind) = if precert {
            (FIXTURE.precert_chain.clone(), EntryKind::Precert)
        } else {
            (FIXTURE.chain.clone(), EntryKind::X509)
        };
        let other = wrapped(&chain[place], &wrapping);
        let same = other == chain[place];
        chain[place] = other;
        prop_assert_eq!(verdict(&chain, kind), same);
    }

    /// A chain with any damage is refused without a panic: every byte is signed or has only one
    /// valid value.
    #[test]
    fn damaged_chains(damages in damages(), place in 0..3usize, precert: bool) {
        let (chain, kind) = if precert {
            (&FIXTURE.precert_chain, EntryKind::Precert)
        } else {
            (&FIXTURE.chain, EntryKind::X509)
        };
        let mut bad = chain.clone();
        bad[place] = damaged(&chain[place], &damages);
        prop_assert_eq!(verdict(&bad, kind), bad == *chain);
    }

    #[test]
    fn damaged_certificates_are_walked_without_panic(damages in damages()) {
        let der = damaged(&FIXTURE.precert_chain[0], &damages);
        if let Ok(certificate) = Certificate::parse(&der) {
            let _ = (certificate.not_before(), certificate.not_after(), certificate.is_authority());
            let _ = certificate.extended_key_usages().map(Iterator::count);
            let _ = lucarne_ct::display_name(certificate.subject());
            let _ = lucarne_ct::names_match(certificate.issuer(), certificate.subject());
            let _ = tbs_without_poison(&certificate);
        }
    }

    #[test]
    fn damaged_bodies(damages in damages()) {
        let body = damaged(&json(&FIXTURE.chain), &damages);
        if let Ok(chain) = Chain::decode_json(&body, &ChainLimits::default()) {
            let chain: Vec<_> = chain.iter().map(<[u8]>::to_vec).collect();
            verdict(&chain, EntryKind::X509);
        }
    }

    #[test]
    fn bodies_decode_to_what_they_encode(chain in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..6)) {
        let decoded = Chain::decode_json(&json(&chain), &ChainLimits::default()).unwrap();
        prop_assert!(decoded.iter().eq(chain.iter().map(Vec::as_slice)));
        prop_assert_eq!(decoded.len(), chain.len());
    }

    #[test]
    fn noise_is_no_root(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Roots::from_pem(&noise).0.is_empty());
    }

    #[test]
    fn tile_leaves_read_back(entry in entry(), timestamp: u64, index in 0..1u64 << 40, tail in prop::collection::vec(any::<u8>(), 0..10)) {
        let mut tile = Vec::new();
        TileLeaf::encode(timestamp, &entry, index, &mut tile);
        let encoded = tile.clone();
        tile.extend_from_slice(&tail);
        let mut rest = &tile[..];
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        prop_assert_eq!(rest, &tail);
        prop_assert_eq!((leaf.timestamp, leaf.index), (timestamp, index));
        prop_assert_eq!(leaf.signed, SignedEntryRef::from(&entry.signed));
        prop_assert_eq!(leaf.precertificate, entry.precertificate.as_deref());
        prop_assert!(leaf.fingerprints.eq(entry.issuers.iter().map(|issuer| issuer.fingerprint)));
        prop_assert_eq!(leaf.identity(), entry.identity);
        let (mut again, mut hashed, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        leaf.encode(&mut again);
        prop_assert_eq!(again, &encoded[..]);
        leaf.merkle_tree_leaf(&mut hashed);
        merkle_tree_leaf(timestamp, &entry.signed, index, &mut expected);
        prop_assert_eq!(hashed, expected);
        for length in 0..encoded.len() {
            let mut cut = &encoded[..length];
            prop_assert!(TileLeafRef::read(&mut cut).is_err());
            prop_assert_eq!(cut.len(), length);
        }
    }

    #[test]
    fn noise_is_no_tile(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut rest = &noise[..];
        while TileLeafRef::read(&mut rest).is_ok() {}
    }

    /// Any extensions, with the poison at any position.
    #[test]
    fn the_poison_leaves_no_trace(extensions in prop::collection::vec(extension(), 0..8), place: prop::sample::Index) {
        let pki = Pki::shared();
        let mut template = Template {
            extensions,
            ..pki.p256.leaf_template(&pki.leaf("example.test")).unwrap()
        };
        let tbs = template.tbs();
        template.extensions.insert(place.index(template.extensions.len() + 1), extension::poison());
        let der = pki.p256.sign(&template).unwrap();
        prop_assert_eq!(tbs_without_poison(&Certificate::parse(&der).unwrap()), tbs);
    }
}

/// Mostly no deviations, so that each choice is also tested alone.
fn wrapping() -> impl Strategy<Value = Wrapping> {
    let octets = prop::array::uniform4(prop_oneof![6 => Just(0), 1 => 1..5usize]);
    let after = prop_oneof![6 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 1..8)];
    let unused = prop_oneof![6 => Just(0), 1 => any::<u8>()];
    (octets, prop::array::uniform4(after), unused).prop_map(|(octets, after, unused)| Wrapping {
        octets,
        after,
        unused,
    })
}

fn extension() -> impl Strategy<Value = Extension> {
    (1..127u8, any::<bool>(), 0..300usize).prop_map(|(last, critical, length)| {
        let oid = format!("1.2.3.{last}").parse::<Oid>().unwrap();
        Extension::new(oid, critical, |der: &mut Der| {
            der.octet_string(&vec![last; length])
        })
    })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 1..300).prop_map(Bytes::from)
}

fn entry() -> impl Strategy<Value = Entry> {
    let precert = (any::<[u8; 32]>(), bytes(), bytes()).prop_map(|(issuer_key_hash, tbs, der)| {
        let signed = SignedEntry::Precert {
            issuer_key_hash,
            tbs,
        };
        (signed, Some(der))
    });
    let x509 = bytes().prop_map(|certificate| (SignedEntry::X509 { certificate }, None));
    let issuers = prop::collection::vec(bytes().prop_map(|der| Arc::new(Issuer::new(der))), 0..4);
    (prop_oneof![precert, x509], issuers).prop_map(|((signed, precertificate), issuers)| Entry {
        identity: signed.identity(),
        signed,
        precertificate,
        issuers: issuers.into(),
    })
}
