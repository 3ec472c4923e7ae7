//! Tests of damaged, failed and foreign indices.

use super::*;
use crate::error::inconsistency::{Inconsistency, IndexInconsistency};
use crate::index::dedup::opening::MOST_SET_ASIDE;

fn contradicts(fatal: Fatal) -> Inconsistency {
    match fatal {
        Fatal::Inconsistent(found) => *found,
        other => panic!("no contradiction: {other}"),
    }
}

#[test]
fn an_index_that_has_failed_is_not_written_and_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..3);
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let first = dedup.fatal(&full).to_string();
    for fatal in [
        dedup.flush().unwrap_err(),
        dedup.note_distrust().unwrap_err(),
    ] {
        let passing = matches!(fatal, Fatal::Dedup { damaged: false, .. });
        assert!(passing && fatal.to_string() == first, "{fatal}");
    }
    drop(dedup);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..5);
    let error = std::io::Error::from_raw_os_error(5);
    dedup.fatal(&error);
    assert!(dedup.extend([].into_iter(), 5, head(6)).is_err());
    assert!(dedup.flush().is_err() && dedup.mend(Vec::new(), &[], &[]).is_err());
    drop(dedup);
    let error = Dedup::open(dir.path(), owner).err().unwrap();
    assert!(
        matches!(error, Fatal::Dedup { damaged: true, .. }),
        "{error}"
    );
    // The index could not store the newest tree head, but the file of the failure has it.
    assert_eq!(last_seen(dir.path()), Some(head(5)));
    assert_eq!(Dedup::look(dir.path(), owner).unwrap(), Some(head(5)));
}

#[test]
fn another_logs_index_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Dedup::open(dir.path(), LogId([1; 32])).unwrap());
    let owner = LogId([2; 32]);
    let error = Dedup::open(dir.path(), owner).err().unwrap();
    let Inconsistency::Index(IndexInconsistency::OtherLog {
        path,
        found,
        owner: expected,
    }) = contradicts(error)
    else {
        panic!("another contradiction");
    };
    assert_eq!(path, dir.path());
    assert_eq!((found, expected), (LogId([1; 32]), owner));
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
    let found = contradicts(error);
    let too_many = matches!(
        found,
        Inconsistency::Index(IndexInconsistency::TooManyDamaged {
            most: MOST_SET_ASIDE,
            ..
        })
    );
    assert!(too_many, "{found}");
    assert!(path.exists());
}

#[test]
fn a_damaged_anchor_is_damage_and_a_damaged_head_is_older() {
    let dir = tempfile::tempdir().unwrap();
    let owner = LogId([1; 32]);
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    add(&dedup, 0..3);
    dedup.flush().unwrap();
    add(&dedup, 3..5);
    drop(dedup);
    let each_damage = |name: &str, expect: &dyn Fn(Result<Dedup, Fatal>, usize)| {
        let path = dir.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bytes in [&flipped, &whole[..at]] {
                std::fs::write(&path, bytes).unwrap();
                expect(Dedup::open(dir.path(), owner), at);
            }
        }
        std::fs::write(&path, whole).unwrap();
    };
    each_damage("anchor", &|opened, at| {
        let damaged = matches!(opened, Err(Fatal::Dedup { damaged: true, .. }));
        assert!(damaged, "byte {at}");
    });
    each_damage("head", &|opened, at| {
        assert_eq!(opened.unwrap().anchor().head, head(3), "byte {at}");
    });
    let dedup = Dedup::open(dir.path(), owner).unwrap();
    assert_eq!((dedup.indexed(), dedup.anchor().head), (3, head(5)));
}

#[test]
fn an_index_is_looked_at_and_opened_by_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = (dir.path().join("dedup"), LogId([1; 32]));
    assert_eq!(Dedup::look(&path, owner).unwrap(), None);
    assert!(!path.exists());
    let dedup = Dedup::open(&path, owner).unwrap();
    add(&dedup, 0..7);
    let error = Dedup::look(&path, owner).unwrap_err();
    assert!(error.is_index_in_use(), "{error}");
    drop(dedup);
    assert_eq!(Dedup::look(&path, owner).unwrap(), Some(head(7)));
}
