//! Tests of damaged, failed and foreign indices.

use super::*;
use crate::error::inconsistency::{Inconsistency, IndexInconsistency};
use crate::index::dedup::opening::{MOST_SET_ASIDE, UNBOUND};

fn contradicts(fatal: Fatal) -> Inconsistency {
    match fatal {
        Fatal::Inconsistent(found) => *found,
        other => panic!("no contradiction: {other}"),
    }
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
    // The index could not store the newest tree head, but the file of the failure has it.
    assert_eq!(last_seen(dir.path()), Some(head(5)));
    assert_eq!(Dedup::look(dir.path(), owner).unwrap(), Some(5));
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
    assert_eq!((found, expected), (Some(LogId([1; 32])), owner));
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
