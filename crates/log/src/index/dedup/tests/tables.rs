//! Tests of the tables of an index.

use std::path::Path;

use super::backlog::part;
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
    path.join(TABLES).read_dir().unwrap().count()
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
    // Files of others stay.
    for foreign in ["9", "9.filter", "0000000009.copy", "notes"] {
        std::fs::write(dir.path().join(TABLES).join(foreign), foreign).unwrap();
    }
    assert_eq!(table_files(dir.path()), 12);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!(table_files(dir.path()), 10);
    all_are_found(&dedup, 300);
    add_tables(&dedup, 3..8);
    becomes_one_table(&dedup);
    all_are_found(&dedup, 800);
}

/// The merge is repeated after each further table.
#[test]
fn a_merge_that_cannot_be_recorded_on_a_full_disk_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let dedup = Dedup::open(dir.path(), LogId([1; 32])).unwrap();
    add_tables(&dedup, 0..3);
    let all = dedup.tables.all();
    for _ in 0..2 {
        let merged = dedup.tables.merge(&all).unwrap().unwrap();
        assert_eq!(table_files(dir.path()), 8);
        let full = |_| Err(std::io::ErrorKind::StorageFull.into());
        dedup.tables.change(&all, merged, full).unwrap_err();
        assert_eq!(table_files(dir.path()), 6);
    }
    assert_eq!(dedup.tables.entries(), [100; 3]);
    all_are_found(&dedup, 300);
}

#[test]
fn a_table_that_is_lost_or_cut_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add_tables(&dedup, 0..3);
    drop(dedup);
    for file in dir.path().join(TABLES).read_dir().unwrap() {
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

/// A flush writes the files of its table, and then replaces the anchor. Entries of a table that no
/// anchor has come back from the tiles.
#[test]
fn a_kill_at_any_step_of_a_flush_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(&after, owner).unwrap();
    add_tables(&dedup, 0..2);
    add(&dedup, 200..300);
    copy(&after, &before);
    dedup.flush().unwrap();
    drop(dedup);
    let files = [
        ("tables/0000000003.filter", "tables/0000000003.filter"),
        ("tables/0000000003", "tables/0000000003"),
        ("anchor.new", "anchor"),
        ("anchor", "anchor"),
    ];
    for (step, half) in (0..files.len()).flat_map(|step| [(step, true), (step, false)]) {
        if (step, half) == (3, true) {
            continue; // the anchor is renamed
        }
        let killed = dir.path().join(format!("{step}-{half}"));
        copy(&before, &killed);
        for (name, from) in &files[..=step] {
            let whole = std::fs::read(after.join(from)).unwrap();
            let is_last = *name == files[step].0;
            let length = whole.len() / if half && is_last { 2 } else { 1 };
            std::fs::write(killed.join(name), &whole[..length]).unwrap();
        }
        let dedup = Dedup::open(&killed, owner).unwrap();
        let indexed = if step == 3 { 300 } else { 200 };
        assert_eq!((dedup.indexed(), dedup.anchor().head), (indexed, head(300)));
        dedup.go_over(head(300)).unwrap();
        assert_eq!(dedup.backlog().entries(), 300 - indexed);
        if indexed < 300 {
            dedup.take_up(part(200..300)).unwrap();
        }
        all_are_found(&dedup, 300);
        drop(dedup);
        assert_eq!(table_files(&killed), 6, "step {step}");
        all_are_found(&Dedup::open(&killed, owner).unwrap(), 300);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
