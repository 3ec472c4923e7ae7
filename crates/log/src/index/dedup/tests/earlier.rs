//! Tests of an index of an earlier version beside the index.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::*;
use crate::index::dedup::earlier::{is_in_use, remove};

/// The files of an index of an earlier version, except for its lock.
const FILES: [&str; 6] = [
    "0.jnl",
    "failed",
    "keyspaces/1/current",
    "tables/0000000001",
    "tables/0000000001.filter",
    "version",
];

/// Creates an index of an earlier version, and returns its directory and its lock.
pub(crate) fn create(cache: &Path) -> (PathBuf, File) {
    let directory = cache.join("dedup");
    for file in FILES {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    let lock = File::create(directory.join("lock")).unwrap();
    (directory, lock)
}

/// Returns the names and contents of all files in a directory.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let content = fs::read(&path).unwrap();
            files.push((path, content));
        }
    }
    files.sort();
    files
}

#[test]
fn an_earlier_index_is_evidence_until_there_is_a_new_one() {
    let cache = tempfile::tempdir().unwrap();
    let (path, owner) = (cache.path().join("index"), LogId([1; 32]));
    let (directory, lock) = create(cache.path());
    let before = files(cache.path());
    assert!(!is_in_use(&path).unwrap());
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(TreeHead::EMPTY));
    lock.lock().unwrap();
    assert!(is_in_use(&path).unwrap());
    for error in [
        Dedup::look(&path, owner).unwrap_err(),
        remove(&path).unwrap_err(),
    ] {
        assert!(error.is_index_in_use(), "{error}");
    }
    assert_eq!(files(cache.path()), before);
    // The index of this version is built while the process of the earlier version runs.
    let dedup = Dedup::open(&path, owner).unwrap();
    add(&dedup, 0..7);
    drop(dedup);
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(head(7)));
    assert_eq!(files(&directory), before);
}

#[test]
fn a_kill_at_any_step_of_the_removal_leaves_no_file_behind() {
    for step in 0..=FILES.len() {
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("index");
        let (directory, _lock) = create(cache.path());
        for file in &FILES[..step] {
            fs::remove_file(directory.join(file)).unwrap();
        }
        assert!(remove(&path).unwrap());
        assert!(!directory.exists(), "{:?}", files(&directory));
        assert!(!remove(&path).unwrap());
    }
}

#[test]
fn the_removal_touches_neither_foreign_files_nor_an_index_of_this_version() {
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().join("index");
    let (directory, _lock) = create(cache.path());
    let foreign = directory.join("notes");
    fs::write(&foreign, "notes").unwrap();
    assert!(remove(&path).unwrap());
    assert_eq!(files(&directory), [(foreign, b"notes".to_vec())]);
    // The index of this version may have the name of an earlier index.
    let dedup = Dedup::open(&directory, LogId([1; 32])).unwrap();
    add(&dedup, 0..3);
    dedup.flush().unwrap();
    drop(dedup);
    let before = files(cache.path());
    for path in [&path, &directory] {
        assert!(!remove(path).unwrap());
    }
    assert_eq!(files(cache.path()), before);
}

/// `check` reads an index. The files are as after a crash, with a table that is in no list.
#[test]
fn a_look_at_an_index_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = (dir.path().join("index"), LogId([1; 32]));
    let dedup = Dedup::open(&path, owner).unwrap();
    for n in 0..3 {
        add(&dedup, 100 * n..100 * (n + 1));
        dedup.flush().unwrap();
    }
    dedup
        .tables
        .write(&[(identity(1000), place(1000))])
        .unwrap();
    add(&dedup, 300..305);
    drop(dedup);
    fs::write(path.join("anchor.new"), "half").unwrap();
    let before = files(dir.path());
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(head(305)));
    assert_eq!(files(dir.path()), before);
    // Neither a lost `head` nor a damaged anchor is written again.
    fs::remove_file(path.join("head")).unwrap();
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(head(300)));
    assert!(!path.join("head").exists());
    fs::write(path.join("anchor"), "damaged").unwrap();
    let before = files(dir.path());
    Dedup::look(&path, owner).unwrap_err();
    assert_eq!(files(dir.path()), before);
}
