//! Tests of the tables of an index.

use std::path::Path;

use super::*;

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

/// Places that fjall stores are found together with places in later tables. The old version, which
/// has no tables, opens the result as an empty index.
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
