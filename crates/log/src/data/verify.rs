//! Verification before signing: a second computation of the root.
//!
//! The bytes to be published are read back: each entry is parsed, compared with the submission, and
//! hashed again. The frontier, which shares no code with the tiles, computes the root. The tiles
//! are compared hash by hash. A bit that flipped since the chain was examined changes the identity;
//! a bit that flips later changes a hash. In both cases the round is discarded, and nothing is
//! signed.

use std::collections::HashMap;
use std::sync::Arc;

use lucarne_ct::{
    Certificate, Entry, SignedEntryRef, TileEntries, TileLeafRef, tbs_without_poison,
    tbs_without_poison_for,
};
use lucarne_tlog::{Frontier, Hash, Level, TILE_WIDTH, Tile, tile_root};

use crate::data::record::Record;
use crate::data::round::Round;
use crate::data::tree::Tree;
use crate::error::{EntryError, Fatal, VerifyError};

/// A round that may be staged and signed. Only [`Verified::check`] creates it.
pub(crate) struct Verified(Round);

impl Verified {
    /// Compares a round with the tree before it and with the submitted entries.
    ///
    /// # Errors
    /// If anything differs. In this case, nothing has been stored yet.
    pub(crate) fn check(
        before: &Tree,
        entries: &[Arc<Entry>],
        mut round: Round,
    ) -> Result<Verified, Fatal> {
        round.tree.frontier = check_round(before, entries, &round).map_err(Fatal::Verify)?;
        Ok(Verified(round))
    }

    pub(crate) fn into_round(self) -> Round {
        self.0
    }
}

/// Returns the frontier after the round, or the difference that was found.
fn check_round(
    before: &Tree,
    entries: &[Arc<Entry>],
    round: &Round,
) -> Result<Frontier, VerifyError> {
    let record = Record::parse(round.record.clone())?;
    check(record.step == round.step, || VerifyError::Header)?;
    // Consistency with the last signed head: the frontier still has its root.
    check(before.frontier.root() == round.step.old_root, || {
        VerifyError::Before
    })?;

    let leaves = leaves(&record, entries)?;
    let mut frontier = before.frontier.clone();
    leaves.iter().for_each(|leaf| frontier.push(*leaf));
    check(frontier.size() == round.step.new_size, || VerifyError::Size)?;
    check(frontier.root() == round.step.new_root, || {
        VerifyError::Root {
            tiles: round.step.new_root,
            leaves: frontier.root(),
        }
    })?;
    hash_tiles(before, &leaves, &round.tiles.hashes)?;
    data_tiles(before, &record, &round.tiles.data)?;
    Ok(frontier)
}

/// Parses the entries of the record, compares them with the submitted entries, and returns their
/// leaf hashes.
fn leaves(record: &Record, entries: &[Arc<Entry>]) -> Result<Vec<Hash>, VerifyError> {
    let first = record.step.old_size;
    let mut logged = TileEntries::first(&record.entries, first, entries.len() as u64);
    let mut buffer = Vec::with_capacity(4096);
    let mut leaves = Vec::with_capacity(entries.len());
    for ((index, entry), leaf) in (first..).zip(entries).zip(logged.by_ref()) {
        let wrong = |problem| VerifyError::Entry { index, problem };
        let leaf = leaf.map_err(|error| wrong(error.into()))?.leaf;
        same_entry(&leaf, entry, index, record.step.timestamp_ms).map_err(wrong)?;
        leaves.push(leaf.leaf_hash(&mut buffer));
    }
    let extra = logged.rest().len();
    check(extra == 0, || VerifyError::Extra(extra))?;
    Ok(leaves)
}

fn same_entry(
    leaf: &TileLeafRef<'_>,
    entry: &Entry,
    index: u64,
    timestamp_ms: u64,
) -> Result<(), EntryError> {
    check(leaf.index == index, || EntryError::Index(leaf.index))?;
    check(leaf.timestamp == timestamp_ms, || EntryError::Timestamp)?;
    // The identity was computed from the submitted bytes before their signature was verified. Equal
    // identities therefore prove that the CA signed this leaf.
    check(leaf.identity() == entry.identity, || EntryError::Identity)?;
    check(
        leaf.precertificate == entry.precertificate.as_deref(),
        || EntryError::Precertificate,
    )?;
    check(
        leaf.fingerprints
            .eq(entry.issuers.iter().map(|issuer| issuer.fingerprint)),
        || EntryError::Chain,
    )?;
    same_tbs(leaf, entry)
}

/// Checks that the logged `TBSCertificate` is derived from its precertificate, with the issuer of
/// the precertificate or of its signing certificate. The log Nessie 2024 once logged a
/// `TBSCertificate` that was not.
fn same_tbs(leaf: &TileLeafRef<'_>, entry: &Entry) -> Result<(), EntryError> {
    let (SignedEntryRef::Precert { tbs, .. }, Some(der)) = (leaf.signed, leaf.precertificate)
    else {
        return Ok(());
    };
    let precertificate = Certificate::parse(der)?;
    if tbs_without_poison(&precertificate) == tbs {
        return Ok(());
    }
    let signer = entry.issuers.first().ok_or(EntryError::NoIssuer)?;
    check(
        tbs_without_poison_for(&precertificate, &Certificate::parse(&signer.der)?) == tbs,
        || EntryError::Tbs,
    )
}

/// Compares the hash tiles with the leaves, and each level with the level below.
fn hash_tiles(
    before: &Tree,
    leaves: &[Hash],
    tiles: &[(Tile, bytes::Bytes)],
) -> Result<(), VerifyError> {
    let mut level_hashes: Vec<Hash> = leaves.to_vec();
    let mut first = before.size();
    for level in 0..=lucarne_tlog::MAX_LEVEL {
        if level_hashes.is_empty() {
            return check(tiles.iter().all(|(tile, _)| below(tile, level)), || {
                VerifyError::ExtraTiles(level)
            });
        }
        let here: HashMap<u64, &[u8]> = tiles
            .iter()
            .filter(|(tile, _)| tile.level() == Level::Hashes(level))
            .map(|(tile, bytes)| (tile.index(), bytes.as_ref()))
            .collect();
        // A partial tile is written again completely, with its previous hashes.
        let old = before.edge.partial(level).iter();
        let old = (first - first % TILE_WIDTH..).zip(old);
        for (position, hash) in old.chain((first..).zip(&level_hashes)) {
            let offset = (position % TILE_WIDTH) as usize * Hash::LENGTH;
            let found = here
                .get(&(position / TILE_WIDTH))
                .and_then(|bytes| bytes.get(offset..offset + Hash::LENGTH));
            check(found == Some(hash.0.as_slice()), || VerifyError::Hash {
                position,
                level,
            })?;
        }
        let completed = first / TILE_WIDTH..(first + level_hashes.len() as u64) / TILE_WIDTH;
        first /= TILE_WIDTH;
        level_hashes = completed
            .map(|index| {
                here.get(&index)
                    .and_then(|bytes| tile_root(bytes))
                    .ok_or(VerifyError::NotWhole { index, level })
            })
            .collect::<Result<_, _>>()?;
    }
    Ok(())
}

fn below(tile: &Tile, level: u8) -> bool {
    matches!(tile.level(), Level::Hashes(l) if l < level)
}

/// Compares the data tiles with the staged entries, byte for byte.
fn data_tiles(
    before: &Tree,
    record: &Record,
    tiles: &[(Tile, bytes::Bytes)],
) -> Result<(), VerifyError> {
    // The first tile begins with the old partial tile, the other tiles with new entries.
    let mut old = before.data.bytes.as_ref();
    let mut new = record.entries.as_ref();
    for (tile, bytes) in tiles {
        let rest = bytes
            .strip_prefix(old)
            .and_then(|here| new.strip_prefix(here));
        new = rest.ok_or_else(|| VerifyError::Data(tile.path()))?;
        old = &[];
    }
    check(new.is_empty(), || VerifyError::MissingData)
}

fn check<E>(holds: bool, otherwise: impl FnOnce() -> E) -> Result<(), E> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lucarne_ct::{EntryKind, Issuer, SignedEntry};

    use super::*;

    fn entries(range: std::ops::Range<u32>) -> Vec<Arc<Entry>> {
        let issuers: Arc<[Arc<Issuer>]> = [Arc::new(Issuer::new(Bytes::from_static(b"ca")))].into();
        range.map(|n| Arc::new(entry(n, issuers.clone()))).collect()
    }

    /// Returns an entry: every eighth entry has a real precertificate, the other entries have
    /// arbitrary bytes.
    fn entry(n: u32, issuers: Arc<[Arc<Issuer>]>) -> Entry {
        let body = Bytes::from(n.to_be_bytes().repeat(20));
        let (signed, precertificate) = if n % 8 == 3 {
            let precertificate = precertificate();
            let parsed = Certificate::parse(precertificate).unwrap();
            let mut issuer_key_hash = [9; 32];
            issuer_key_hash[..4].copy_from_slice(&n.to_be_bytes());
            let tbs = tbs_without_poison(&parsed).into();
            let signed = SignedEntry::Precert {
                issuer_key_hash,
                tbs,
            };
            (signed, Some(Bytes::from_static(precertificate)))
        } else {
            (SignedEntry::X509 { certificate: body }, None)
        };
        Entry {
            identity: signed.identity(),
            signed,
            precertificate,
            issuers,
        }
    }

    fn precertificate() -> &'static [u8] {
        static DER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        DER.get_or_init(|| {
            let pki = lucarne_mint::testing::Pki::shared();
            let chain = pki.precertificate(&pki.p256, "flip.example").unwrap();
            chain.into_certificates().swap_remove(0)
        })
    }

    fn prepare(tree: &Tree, entries: &[Arc<Entry>]) -> Round {
        let round = Round::encode(tree, entries, Vec::new(), tree.timestamp_ms + 1);
        Verified::check(tree, entries, round).unwrap().into_round()
    }

    fn flipped(bytes: &Bytes, bit: usize) -> Bytes {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes.into()
    }

    #[test]
    fn rounds_of_all_shapes_are_sound() {
        let mut tree = Tree::empty();
        let mut next = 0;
        for count in [1, 2, 253, 1, 255, 256, 257, 512, 700, 3] {
            let entries = entries(next..next + count);
            next += count;
            tree = prepare(&tree, &entries).tree;
            assert_eq!(tree.size(), u64::from(next));
            assert_eq!(tree.frontier.root(), tree.root);
            assert_eq!(tree.data.ends.len() as u64, tree.size() % TILE_WIDTH);
        }
    }

    /// A single flipped bit at any place is detected. Flipped bits ended the logs Yeti 2022 and
    /// Nimbus 2018.
    #[test]
    fn any_flipped_bit_is_noticed() {
        let tree = prepare(&Tree::empty(), &entries(0..250)).tree;
        let entries = entries(250..257);
        let mut sample = prepare(&tree, &entries);
        let sound = (
            sample.record.clone(),
            sample.tiles.hashes.clone(),
            sample.tiles.data.clone(),
        );
        assert!(check_round(&tree, &entries, &sample).is_ok());
        for bit in 0..8 * sample.record.len() {
            sample.record = flipped(&sound.0, bit);
            assert!(
                check_round(&tree, &entries, &sample).is_err(),
                "record, bit {bit}"
            );
        }
        sample.record = sound.0.clone();
        for tile in 0..sound.1.len() {
            let (name, bytes) = &sound.1[tile];
            // A bit of each byte.
            for bit in (0..8 * bytes.len()).step_by(7) {
                sample.tiles.hashes[tile].1 = flipped(bytes, bit);
                assert!(
                    check_round(&tree, &entries, &sample).is_err(),
                    "{}, bit {bit}",
                    name.path()
                );
            }
            sample.tiles.hashes = sound.1.clone();
        }
        for tile in 0..sound.2.len() {
            let (name, bytes) = &sound.2[tile];
            for bit in (0..8 * bytes.len()).step_by(3) {
                sample.tiles.data[tile].1 = flipped(bytes, bit);
                assert!(
                    check_round(&tree, &entries, &sample).is_err(),
                    "{}, bit {bit}",
                    name.path()
                );
            }
            sample.tiles.data = sound.2.clone();
        }
    }

    #[test]
    fn an_entry_that_changed_since_it_was_examined_is_noticed() {
        let tree = Tree::empty();
        let entries = entries(0..4);
        let mut changed = entries.clone();
        let mut entry = Entry::clone(&entries[2]);
        entry.signed = SignedEntry::X509 {
            certificate: Bytes::from_static(b"another"),
        };
        assert_eq!(entry.signed.kind(), EntryKind::X509);
        changed[2] = Arc::new(entry);
        let round = Round::encode(&tree, &changed, Vec::new(), 1);
        let error = Verified::check(&tree, &changed, round).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("entry 2: differs from the submission"),
            "{error}"
        );
    }

    #[test]
    fn a_tree_that_changed_since_it_was_signed_is_noticed() {
        let mut tree = prepare(&Tree::empty(), &entries(0..9)).tree;
        tree.root = Hash([3; 32]);
        let entries = entries(9..10);
        let round = Round::encode(&tree, &entries, Vec::new(), 2);
        assert!(Verified::check(&tree, &entries, round).is_err());
    }
}
