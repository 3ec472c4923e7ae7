use lucarne_tlog::EMPTY_ROOT;

use super::*;

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

/// fjall asserts that each of its journals is a file.
#[test]
fn an_assertion_that_fails_while_an_index_opens_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
    let dedup = Dedup::open(&path, owner).unwrap();
    add(&dedup, 0..3);
    drop(dedup);
    std::fs::create_dir(path.join("999.jnl")).unwrap();
    let Err(fatal) = Dedup::open(&path, owner) else {
        panic!("it was opened");
    };
    let damaged = matches!(fatal, Fatal::Dedup { damaged: true, .. });
    assert!(
        damaged && fatal.to_string().contains("assertion"),
        "{fatal}"
    );
    let again = Dedup::rebuild(&path, owner).unwrap();
    assert_eq!(again.indexed(), 0);
}

#[test]
fn an_assertion_that_fails_in_use_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..3);
    let failed: Result<(), Fatal> = dedup.caught(|| panic!("these files do not fit"));
    let fatal = failed.unwrap_err();
    assert!(
        fatal.to_string().contains("these files do not fit"),
        "{fatal}"
    );
    assert!(dedup.is_unsound());
    drop(dedup);
    let reopened = Dedup::open(dir.path(), owner);
    assert!(matches!(reopened, Err(Fatal::Dedup { damaged: true, .. })));
    assert_eq!(last_seen(dir.path()), Some(head(3)));
}

#[test]
fn an_index_that_has_failed_is_not_written_and_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..3);
    let full = std::io::ErrorKind::StorageFull.into();
    dedup.fatal(&fjall::Error::Io(full));
    // fjall refuses further writes, but no longer reports the reason.
    for fatal in [
        dedup.fatal(&fjall::Error::Poisoned),
        dedup.flush().unwrap_err(),
        dedup.note_distrust().unwrap_err(),
    ] {
        let passing = matches!(fatal, Fatal::Dedup { damaged: false, .. });
        assert!(
            passing && fatal.to_string().contains("StorageFull"),
            "{fatal}"
        );
    }
    drop(dedup);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..5);
    let error = std::io::Error::from_raw_os_error(5);
    dedup.fatal(&fjall::Error::Io(error));
    assert!(dedup.extend([].into_iter(), 5, head(6)).is_err());
    assert!(dedup.flush().is_err() && dedup.mend(&[], &[], &[]).is_err());
    drop(dedup);
    let error = Dedup::open(dir.path(), owner).err().unwrap();
    assert!(
        matches!(error, Fatal::Dedup { damaged: true, .. }),
        "{error}"
    );
    // The head that could not be stored any more is that of a signed tree.
    assert_eq!(last_seen(dir.path()), Some(head(5)));
    assert_eq!(Dedup::look(dir.path(), owner).unwrap(), Some(5));
}

#[test]
fn another_logs_index_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Dedup::open(dir.path(), LogId([1; 32])).unwrap());
    let error = Dedup::open(dir.path(), LogId([2; 32])).err().unwrap();
    assert!(
        error.to_string().contains("is of the log with ID"),
        "{error}"
    );
}

#[test]
fn a_rebuilt_index_is_empty_and_those_before_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
    for _ in 0..MOST_SET_ASIDE {
        let dedup = Dedup::open(&path, owner).unwrap();
        add(&dedup, 0..2);
        dedup.flush().unwrap();
        drop(dedup);
        let dedup = Dedup::rebuild(&path, owner).unwrap();
        assert_eq!(dedup.indexed(), 0);
        assert_eq!(dedup.find(&identity(1)).unwrap(), None);
    }
    let aside = Dedup::open(&dir.path().join("dedup.damaged-1"), owner).unwrap();
    assert_eq!(aside.find(&identity(1)).unwrap(), Some(place(1)));
    let error = Dedup::rebuild(&path, owner).err().unwrap();
    assert!(error.to_string().contains("lie beside it"), "{error}");
    assert!(path.exists());
}

#[test]
fn an_index_of_the_older_format_says_how_much_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
    assert_eq!(Dedup::look(&path, owner).unwrap(), None);
    assert!(!path.exists());
    let dedup = Dedup::open(&path, owner).unwrap();
    dedup.meta.insert(UNBOUND, 7_u64.to_be_bytes()).unwrap();
    drop(dedup);
    assert_eq!(Dedup::open(&path, owner).unwrap().unbound, Some(7));
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(7));
}

fn all_are_found(dedup: &Dedup, entries: u64) {
    for n in 0..entries {
        assert_eq!(dedup.find(&identity(n)).unwrap(), Some(place(n)), "{n}");
    }
    assert_eq!(dedup.find(&identity(entries)).unwrap(), None);
}

/// Adds tables of 100 entries each.
fn add_tables(dedup: &Dedup, tables: std::ops::Range<u64>) {
    for n in tables {
        add(dedup, 100 * n..100 * (n + 1));
        dedup.flush().unwrap();
    }
}

fn becomes_one_table(dedup: &Dedup) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while dedup.tables.entries().len() > 1 {
        assert!(std::time::Instant::now() < until, "they are not merged");
        std::thread::yield_now();
    }
}

fn table_files(path: &Path) -> usize {
    path.join("tables").read_dir().unwrap().count()
}

#[test]
fn tables_are_merged_into_one_that_has_all() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        add_tables(&dedup, 0..7);
        assert_eq!(dedup.tables.entries(), [100; 7]);
        // The merged table has a repeated entry only once.
        add(&dedup, 600..700);
        dedup.flush().unwrap();
        becomes_one_table(&dedup);
        assert_eq!(dedup.tables.entries(), [700]);
        all_are_found(&dedup, 700);
    }
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!((dedup.indexed(), table_files(dir.path())), (700, 2));
    all_are_found(&dedup, 700);
}

/// A crash can leave a table that was not recorded, and a table that was merged and not removed.
#[test]
fn tables_that_are_not_noted_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add_tables(&dedup, 0..3);
    let left = [(identity(1000), place(1000))];
    dedup.tables.write(&left).unwrap();
    drop(dedup);
    assert_eq!(table_files(dir.path()), 8);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(table_files(dir.path()), 6);
    all_are_found(&dedup, 300);
    add_tables(&dedup, 3..8);
    becomes_one_table(&dedup);
    all_are_found(&dedup, 800);
}

#[test]
fn a_table_that_is_lost_or_cut_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add_tables(&dedup, 0..3);
    drop(dedup);
    for file in dir.path().join("tables").read_dir().unwrap() {
        let path = file.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let cut = Dedup::open(dir.path(), owner).err().unwrap();
        std::fs::remove_file(&path).unwrap();
        let lost = Dedup::open(dir.path(), owner).err().unwrap();
        for error in [cut, lost] {
            let damaged = matches!(error, Fatal::Dedup { damaged: true, .. });
            assert!(damaged, "{error}");
        }
        std::fs::write(&path, whole).unwrap();
    }
    all_are_found(&Dedup::open(dir.path(), owner).unwrap(), 300);
}

/// Places in fjall are found together with those in later tables. The old version, which has no
/// tables, opens the result as an empty index.
#[test]
fn an_index_from_before_there_were_tables_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        for n in 0..300 {
            let (identity, place) = (identity(n), place(n));
            dedup.places.insert(identity.0, place.encode()).unwrap();
        }
        let anchor = Anchor {
            indexed: 300,
            head: head(300),
            backlog: Backlog::EMPTY,
        };
        let old = ANCHOR_WITHOUT_TABLES;
        dedup.meta.insert(old, anchor.encode()).unwrap();
    }
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!((dedup.indexed(), dedup.unusable()), (300, None));
        all_are_found(&dedup, 300);
        add(&dedup, 300..400);
        let old = dedup.meta.get(ANCHOR_WITHOUT_TABLES).unwrap();
        assert_eq!(old, None);
        dedup.flush().unwrap();
    }
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.anchor().head, head(400));
    all_are_found(&dedup, 400);
}

#[test]
fn what_was_unknown_is_found_once_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let gap = |first, end| Gap {
        first,
        end,
        latest_ms: u64::MAX,
    };
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        dedup.mend(&[], &[], &[gap(3, 6)]).unwrap();
        add(&dedup, 0..3);
        add(&dedup, 6..9);
        dedup.flush().unwrap();
    }
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!((dedup.indexed(), dedup.gaps.all()), (9, vec![gap(3, 6)]));
        let mended = [3, 4].map(|n| (identity(n), place(n)));
        dedup.mend(&mended, &[gap(3, 6)], &[gap(5, 6)]).unwrap();
    }
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.gaps.all(), [gap(5, 6)]);
    assert_eq!(dedup.find(&identity(4)).unwrap(), Some(place(4)));
    assert_eq!(dedup.find(&identity(5)).unwrap(), None);
}

/// Returns a part of the backlog, with the timestamp of its oldest entry.
fn part(range: std::ops::Range<u64>) -> Part {
    Part {
        records: range.clone().map(|n| (identity(n), place(n))).collect(),
        gaps: Vec::new(),
        from: range.start,
        to: range.end,
        timestamp_ms: place(range.start).timestamp_ms,
    }
}

#[test]
fn what_was_read_of_a_backlog_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let ranges = |dedup: &Dedup| {
        let mut backlog = dedup.backlog();
        let mut ranges = Vec::new();
        while let Some(range) = backlog.newest() {
            ranges.push((range.first, range.end, range.latest_ms));
            backlog.cut(range.first..range.end, 0);
        }
        ranges
    };
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        add(&dedup, 0..100);
        dedup.flush().unwrap();
        dedup.go_over(head(1000)).unwrap();
        assert_eq!((dedup.indexed(), dedup.known()), (1000, 100));
        assert_eq!(ranges(&dedup), [(100, 1000, u64::MAX)]);
        dedup.take_up(part(600..1000)).unwrap();
        // Rounds continue during this time; their entries in memory are lost.
        add(&dedup, 1000..1010);
        assert_eq!((dedup.indexed(), dedup.known()), (1010, 510));
        assert_eq!(dedup.find(&identity(1009)).unwrap(), Some(place(1009)));
    }
    let rest = (100, 600, place(600).timestamp_ms);
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!((dedup.indexed(), dedup.anchor().head), (1000, head(1010)));
        assert_eq!(ranges(&dedup), [rest]);
        dedup.go_over(head(1020)).unwrap();
        assert_eq!(ranges(&dedup), [(1000, 1020, u64::MAX), rest]);
        dedup.take_up(part(1000..1020)).unwrap();
    }
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!((dedup.indexed(), ranges(&dedup)), (1020, vec![rest]));
    // A part that is not at the end of the backlog's range is ignored.
    dedup.take_up(part(100..200)).unwrap();
    assert_eq!(ranges(&dedup), [rest]);
    dedup.take_up(part(100..600)).unwrap();
    assert_eq!((dedup.known(), ranges(&dedup)), (1020, vec![]));
    assert!(dedup.unknown(None).is_none());
    all_are_found(&dedup, 1020);
}

/// Older versions read an anchor without a backlog, which has their format, and refuse an anchor
/// with a backlog.
#[test]
fn an_anchor_with_a_backlog_is_none_to_whoever_knows_no_backlog() {
    let mut anchor = Anchor {
        indexed: 10,
        head: head(12),
        backlog: Backlog::EMPTY,
    };
    let plain = anchor.encode();
    assert_eq!(
        (plain.len(), Anchor::decode(&plain)),
        (48, Some(anchor.clone()))
    );
    anchor.backlog.push(Gap {
        first: 3,
        end: 10,
        latest_ms: 5,
    });
    let behind = anchor.encode();
    assert_eq!((behind.len(), Anchor::decode(&behind)), (72, Some(anchor)));
    for cut in 49..72 {
        assert_eq!(Anchor::decode(&behind[..cut]), None);
    }
}

/// A lookup that first checks for unknown entries never takes an entry of the log for a new entry.
#[test]
fn what_is_read_is_found_before_it_counts_as_read() {
    let dir = tempfile::tempdir().unwrap();
    let dedup = Dedup::open(dir.path(), LogId([1; 32])).unwrap();
    let (parts, each) = (40, 50);
    let entries = parts * each;
    dedup.go_over(head(entries)).unwrap();
    let (stop, looks) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (dedup, stop, looks) = (&dedup, &stop, &looks);
            scope.spawn(move || {
                for n in (0..).map(|n| (first + 7 * n) % entries) {
                    let unknown = dedup.unknown(None).is_some();
                    let found = dedup.find(&identity(n)).unwrap();
                    assert!(unknown || found.is_some(), "{n} is taken for a new entry");
                    looks.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        for n in (0..parts).rev() {
            // Lookups run between two parts.
            let seen = looks.load(Ordering::SeqCst);
            while looks.load(Ordering::SeqCst) < seen + 10 {
                std::thread::yield_now();
            }
            dedup.take_up(part(n * each..(n + 1) * each)).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    all_are_found(&dedup, entries);
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
    // In any order, and twice if the log has an entry twice.
    let wanted = [3, 0, 2, 0].map(identity).to_vec();
    assert_eq!(take_up_with(wanted, 4, whole), Ok(()));
    assert_eq!((dedup.backlog().entries(), dedup.known()), (6, 4));
    for (identity, place) in records {
        assert_eq!(dedup.find(&identity).unwrap(), Some(place));
    }
}
