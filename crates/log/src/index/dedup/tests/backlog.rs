//! Tests of the backlog and the gaps of an index.

use super::*;

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
        dedup.mend(Vec::new(), &[], &[gap(3, 6)]).unwrap();
        add(&dedup, 0..3);
        add(&dedup, 6..9);
        dedup.flush().unwrap();
    }
    {
        let dedup = Dedup::open(dir.path(), owner).unwrap();
        assert_eq!((dedup.indexed(), dedup.gaps.all()), (9, vec![gap(3, 6)]));
        let mended = vec![(identity(3), place(3)), (identity(4), place(4))];
        dedup.mend(mended, &[gap(3, 6)], &[gap(5, 6)]).unwrap();
    }
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(dedup.gaps.all(), [gap(5, 6)]);
    assert_eq!(dedup.find(&identity(4)).unwrap(), Some(place(4)));
    assert_eq!(dedup.find(&identity(5)).unwrap(), None);
}

/// Returns a part of the backlog, with the timestamp of its oldest entry.
pub(super) fn part(range: std::ops::Range<u64>) -> Part {
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

/// The file of a failure has this form in all versions.
#[test]
fn the_newest_tree_of_a_failed_index_is_read_unless_its_file_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("failed");
    let content = format!(
        "{{\"indexed\":10,\"head\":{{\"size\":12,\"root\":{:?}}},\
         \"backlog\":[{{\"first\":3,\"end\":10,\"latest_ms\":5}}]}}",
        head(12).root.0
    );
    std::fs::write(&path, &content).unwrap();
    assert_eq!(last_seen(dir.path()), Some(head(12)));
    for cut in 0..content.len() {
        std::fs::write(&path, &content[..cut]).unwrap();
        assert_eq!(last_seen(dir.path()), None);
    }
    std::fs::write(&path, content.replace("\"end\":10", "\"end\":11")).unwrap();
    assert_eq!(last_seen(dir.path()), None, "an entry that was not indexed");
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
