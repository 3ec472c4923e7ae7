//! Tests of lookups, and the places that all tests of an index share.

use lucarne_ct::LogId;
use lucarne_tlog::EMPTY_ROOT;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;

mod backlog;
pub(crate) mod earlier;
mod failures;
mod tables;

fn identity(n: u64) -> Identity {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    Identity(bytes)
}

fn place(n: u64) -> LeafPosition {
    LeafPosition {
        index: n,
        timestamp_ms: 1_000_000 + n,
    }
}

fn head(size: u64) -> TreeHead {
    let mut root = EMPTY_ROOT;
    root.0[..8].copy_from_slice(&size.to_be_bytes());
    TreeHead { size, root }
}

fn add(dedup: &Dedup, range: std::ops::Range<u64>) {
    let entries = range.clone().map(|n| (identity(n), place(n)));
    dedup.extend(entries, range.end, head(range.end)).unwrap();
}

fn all_are_found(dedup: &Dedup, entries: u64) {
    for n in 0..entries {
        assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)), "{n}");
    }
    assert_eq!(dedup.find(&identity(entries)).unwrap(), None);
}

#[test]
fn finds_what_was_added_in_memory_and_in_tables() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let table = TABLE_ENTRIES as u64;
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!(dedup.indexed(), 0);
        add(&dedup, 0..1000);
        add(&dedup, 1000..table + 5);
        add(&dedup, table + 5..table + 9);
        assert_eq!(dedup.indexed(), table + 9);
        for n in [0, 999, 1000, table, table + 8] {
            assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)));
        }
        assert_eq!(dedup.find(&identity(table + 9)).unwrap(), None);
    }
    // The same state as after a crash: the table exists, the entries in memory are lost, and the
    // anchor shows that there were more entries.
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.indexed(), table + 5);
    assert_eq!(dedup.anchor().head, head(table + 9));
    add(&dedup, table + 5..table + 9);
    dedup.flush().unwrap();
    drop(dedup);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.indexed(), table + 9);
    for n in (0..table + 9).step_by(97) {
        assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)));
    }
}

/// The filter of a small table excludes nearly all entries that the table does not have, but only
/// the disk has its places.
#[test]
fn memory_has_the_newest_places_and_excludes_other_entries() {
    let dir = tempfile::tempdir().unwrap();
    let dedup = Dedup::open(dir.path(), LogId([1; 32])).unwrap();
    // A filter depends on all bytes of an identity.
    let hashed = |n: u64| {
        let hash = |salt| xxh3_64_with_seed(&n.to_be_bytes(), salt).to_be_bytes();
        Identity(std::array::from_fn(|at| hash(at as u64 / 8)[at % 8]))
    };
    let extend = |range: std::ops::Range<u64>| {
        let entries = range.clone().map(|n| (hashed(n), place(n)));
        dedup.extend(entries, range.end, head(range.end)).unwrap();
    };
    let in_memory = |n: u64| dedup.find_in_memory(&hashed(n));
    extend(0..1000);
    assert!(matches!(in_memory(7), Ok(Some(found)) if found == place(7)));
    assert!(matches!(in_memory(1000), Ok(None)));
    dedup.flush().unwrap();
    extend(1000..1001);
    assert!((0..1000).all(|n| in_memory(n).is_err()));
    assert!(matches!(in_memory(1000), Ok(Some(found)) if found == place(1000)));
    let others: Vec<_> = (2000..3000).map(in_memory).collect();
    assert!(others.iter().all(|found| !matches!(found, Ok(Some(_)))));
    let unknown = others.iter().filter(|found| found.is_err()).count();
    assert!(unknown < 20, "{unknown} of 1,000");
}

/// If only a part of the identity were the key, a client that can create two identities with the
/// same part would get an SCT for an entry that is not in the log.
#[test]
fn an_identity_that_differs_in_one_bit_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let others = || {
        (0..256).map(|bit| {
            let mut other = identity(3);
            other.0[bit / 8] ^= 1 << (bit % 8);
            other
        })
    };
    let is_alone = |dedup: &Dedup| {
        assert_eq!(dedup.find(&identity(3)).unwrap(), Some(place(3)));
        for other in others() {
            assert_eq!(dedup.find(&other).unwrap(), None, "{:x?}", other.0);
        }
    };
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..5);
    is_alone(&dedup);
    dedup.flush().unwrap();
    drop(dedup);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.indexed(), 5, "it is read from its tables");
    is_alone(&dedup);
}

#[test]
fn a_stream_that_is_not_in_order_or_ends_early_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    dedup.go_over(head(10)).unwrap();
    let mut records: Vec<_> = (0..4).map(|n| (identity(n), place(n))).collect();
    records.sort_unstable_by_key(|(identity, _)| *identity);
    let stream =
        |records: &[Record]| -> Vec<u8> { records.iter().flat_map(table::encode).collect() };
    let take_up_with = |wanted: Vec<Identity>, indexed, bytes: Vec<u8>| {
        let mut chunks = [bytes::Bytes::from(bytes)].into_iter();
        let next = || chunks.next().ok_or(BadStream::Truncated);
        dedup.take_up_stream(indexed, 4, wanted, next).unwrap()
    };
    let take_up = |indexed, bytes| take_up_with(Vec::new(), indexed, bytes);
    let whole = stream(&records);
    let cut = whole[..whole.len() - 1].to_vec();
    assert_eq!(take_up(4, cut), Err(BadStream::Truncated));
    assert_eq!(take_up(3, whole.clone()), Err(BadStream::Beyond(3)));
    let mut reversed = records.clone();
    reversed.reverse();
    assert_eq!(take_up(4, stream(&reversed)), Err(BadStream::Order));
    for lacking in [identity(4), Identity([0; 32]), Identity([0xff; 32])] {
        let wanted = vec![identity(0), lacking];
        let taken = take_up_with(wanted, 4, whole.clone());
        assert_eq!(taken, Err(BadStream::Missing));
    }
    assert_eq!(dedup.backlog().entries(), 10);
    assert_eq!(dedup.find(&identity(0)).unwrap(), None);
    // The wanted identities may be in any order, and may repeat if the log has an entry twice.
    let wanted = [3, 0, 2, 0].map(identity).to_vec();
    assert_eq!(take_up_with(wanted, 4, whole), Ok(()));
    assert_eq!((dedup.backlog().entries(), dedup.known()), (6, 4));
    for (identity, place) in records {
        assert_eq!(dedup.find(&identity).unwrap(), Some(place));
    }
}
