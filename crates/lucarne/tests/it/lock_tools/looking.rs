//! Inspection of lock and journal while the server runs or is stopped.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lucarne_storage::{Lease, Lock, SqlLock};
use lucarne_testkit::Place;
use serde_json::Value;

use super::{everything, grow, site, stop, take};
use crate::common::site::Site;
use crate::common::{all, assert_has, run};

/// Leaves log `ill` as after a power cut between commit and publication: the lock and the journal
/// have four entries, and the published checkpoint has two.
fn leave_a_gap(site: &Site) {
    grow(site, 2);
    let old = fs::read(site.data("ill").join("checkpoint")).unwrap();
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), 2).await;
    });
    assert!(!server.kill().unwrap().success());
    fs::write(site.data("ill").join("checkpoint"), old).unwrap();
    for width in ["3", "4"] {
        for tile in ["tile/0/000.p", "tile/data/000.p"] {
            fs::remove_file(site.data("ill").join(tile).join(width)).unwrap();
        }
    }
}

/// Runs a command that only reads, and checks that no file has changed.
fn look(site: &Site, args: &[&str]) -> (i32, String) {
    let before = everything(site.path());
    let looked = site.lucarne(args);
    assert!(everything(site.path()) == before, "{args:?} wrote");
    looked
}

const SHOW: [&str; 2] = ["lock", "show"];
const LIST: [&str; 2] = ["journal", "list"];

#[test]
fn what_the_lock_of_a_sane_log_holds() {
    let site = site();
    grow(&site, 3);
    let (code, said) = look(&site, &SHOW);
    assert_eq!(code, 0, "{said}");
    for words in [
        "log ill",
        "lock.sqlite",
        "size       3",
        "verified with the log's key",
        "all signed entries are published",
        "log well",
        "size       0",
    ] {
        assert_has(&said, words);
    }
    assert!(!said.contains('✗'), "{said}");
    let (code, said) = look(&site, &["lock", "show", "ill", "--json"]);
    assert_eq!(code, 0, "{said}");
    let json: Value = serde_json::from_str(&said).unwrap();
    let logs = json["logs"].as_array().unwrap();
    assert_eq!(logs.len(), 1);
    for held in ["lock", "published"] {
        let checkpoint = &logs[0][held]["checkpoint"];
        assert_eq!(checkpoint["size"], 3, "{said}");
        assert_eq!(checkpoint["verified"], true, "{said}");
    }
    assert_eq!(logs[0]["consistent"], true);
    assert_eq!(logs[0]["verdict"], "fine");
    let (code, said) = look(&site, &["lock", "show", "nobody"]);
    assert_eq!(code, 2, "{said}");
    assert_has(&said, "expected: ill, well");
}

/// The server continues during the inspection, and always appears healthy.
#[test]
fn a_log_is_looked_at_while_it_signs() {
    let site = site();
    let mut server = site.start();
    run(async { site.ready("ill").await });
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| run(take(&site.client_of("ill"), 120)));
        let mut looks = 0;
        while !taking.is_finished() || looks < 10 {
            for command in [SHOW, LIST] {
                let (code, said) = site.lucarne(&command);
                assert_eq!(code, 0, "{said}");
            }
            looks += 1;
        }
        println!("looked {looks} times");
    });
    assert_eq!(run(site.health("ill"))["healthy"], true);
    stop(&mut server);
    let output = server.output();
    let mut warned = output.lines().filter(|line| line.contains(" WARN "));
    assert!(
        warned.all(|line| line.contains("maxconnections")),
        "{output}"
    );
    assert!(!output.contains(" ERROR "), "{output}");
    let (code, said) = look(&site, &SHOW);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "size       120");
}

#[test]
fn a_lock_that_was_rolled_back_is_shown() {
    let site = site();
    grow(&site, 2);
    let old = site.signed("ill").unwrap();
    grow(&site, 2);
    site.sign("ill", &old);
    let (code, said) = look(&site, &SHOW);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "publishes a checkpoint of 4 entries");
    assert_has(&said, "The lock was rolled back");
    assert_eq!(look(&site, &["lock", "show", "well"]).0, 0);
}

#[test]
fn rows_that_are_not_the_logs_are_shown() {
    let site = site();
    grow(&site, 2);
    let newest = site.signed("ill").unwrap();
    site.sign("ill", &site.signed("well").unwrap());
    for command in [SHOW, LIST] {
        let (code, said) = look(&site, &command);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "not this log's");
    }
    site.sign("ill", b"nothing that anybody signed");
    assert_eq!(look(&site, &SHOW).0, 1);
    site.forget("ill");
    for (command, words) in [
        (SHOW, "has no log with ID"),
        (LIST, "the lock holds no checkpoint of this log"),
    ] {
        let (code, said) = look(&site, &command);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, words);
    }
    // Missing data cannot be inspected.
    site.sign("ill", &newest);
    fs::rename(site.data("ill"), site.path().join("away")).unwrap();
    let (code, said) = look(&site, &["lock", "show", "ill"]);
    assert_eq!(code, 2, "{said}");
    assert_has(&said, "does not exist");
    fs::rename(site.path().join("away"), site.data("ill")).unwrap();
    fs::remove_file(site.lock()).unwrap();
    for command in [SHOW, LIST] {
        let (code, said) = look(&site, &command);
        assert_eq!(code, 2, "{said}");
        assert_has(&said, "the lock database does not exist");
    }
}

#[test]
fn the_rounds_between_lock_and_checkpoint_are_shown() {
    let site = site();
    leave_a_gap(&site);
    let (code, said) = look(&site, &["lock", "show", "ill"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "2 rounds of the journal (2 → 3 → 4)");
    let (code, said) = look(&site, &["journal", "list", "ill"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "2 → 3  1 entry,");
    assert_has(&said, "signed, to be published");
    // Without the journal, the published checkpoint does not lead to the lock.
    let journal = site.data("ill").join(".lucarne/journal");
    fs::rename(&journal, site.path().join("away")).unwrap();
    let (code, said) = look(&site, &["lock", "show", "ill"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "neither journal nor storage");
    let (code, said) = look(&site, &["journal", "list", "ill"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "the journal does not lead from there");
    fs::rename(site.path().join("away"), &journal).unwrap();
    grow(&site, 1);
}

/// Returns the segment with records.
fn segment(site: &Site) -> PathBuf {
    let files = everything(&site.data("ill").join(".lucarne/journal"));
    let written = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0);
    let fullest = files.into_iter().max_by_key(|(_, bytes)| written(bytes));
    fullest.unwrap().0
}

#[test]
fn a_torn_or_damaged_journal_is_listed() {
    let site = site();
    leave_a_gap(&site);
    let (code, said) = look(&site, &["journal", "list", "ill", "--json"]);
    assert_eq!(code, 0, "{said}");
    let json: Value = serde_json::from_str(&said).unwrap();
    let rounds = json["logs"][0]["rounds"].as_array().unwrap().clone();
    let last = rounds.last().unwrap();
    assert_eq!(last["standing"], "signed", "{said}");
    assert_eq!(last["follows"], true, "{said}");
    assert_eq!(
        (&last["old_size"], &last["new_size"]),
        (&3.into(), &4.into())
    );
    let segment = segment(&site);
    let mut whole = fs::read(&segment).unwrap();
    let end = |round: &Value| {
        let number = |key: &str| round["at"][key].as_u64().unwrap();
        number("offset") + number("bytes")
    };
    // The rest of the segment is preallocated.
    let room = whole.split_off(end(last) as usize);
    assert!(room.iter().all(|byte| *byte == 0));
    assert_eq!(last["at"]["file"], segment.to_str().unwrap());

    // The last append was cut off.
    let cut = whole.len() - 7;
    fs::write(&segment, &whole[..cut]).unwrap();
    let (code, said) = look(&site, &["journal", "list", "ill"]);
    assert_has(&said, "torn tail: ");
    let start = last["at"]["offset"].as_u64().unwrap();
    assert_has(&said, &format!("from byte {start}:"));
    // That round was signed, so a crash does not explain the cut.
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "the journal does not lead from there");
    assert_eq!(look(&site, &["lock", "show", "ill"]).0, 1);

    // Another append was in progress.
    let begun = &whole[start as usize..][..30];
    let bytes = begun.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    fs::write(&segment, [&whole[..], begun].concat()).unwrap();
    let (code, said) = look(&site, &["journal", "list", "ill"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, &format!("torn tail: {bytes} bytes"));
    assert_has(&said, &format!("from byte {}:", whole.len()));

    // A flipped bit in the middle.
    let mut damaged = whole.clone();
    damaged[start as usize - 10] ^= 1;
    fs::write(&segment, &damaged).unwrap();
    for command in [SHOW, LIST] {
        let (code, said) = look(&site, &command);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "is damaged at byte");
    }
}

#[test]
fn a_journal_in_a_bucket_is_listed_beside_its_server() {
    let site = Site::create_at(run(Place::s3_alone()).unwrap(), [("ill", String::new())]);
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), 3).await;
    });
    for _ in 0..3 {
        let (code, said) = site.lucarne(&["journal", "list", "--json"]);
        assert_eq!(code, 0, "{said}");
        let json: Value = serde_json::from_str(&said).unwrap();
        let rounds = json["logs"][0]["rounds"].as_array().unwrap();
        assert!(!rounds.is_empty(), "{said}");
        assert_eq!(rounds.last().unwrap()["new_size"], 3, "{said}");
        assert_eq!(rounds.last().unwrap()["standing"], "published", "{said}");
        let file = rounds[0]["at"]["file"].as_str().unwrap();
        assert_has(file, ".lucarne/journal/");
        let (code, said) = site.lucarne(&SHOW);
        assert_eq!(code, 0, "{said}");
        assert_has(&said, "size       3");
    }
    stop(&mut server);
}

/// An instance leads a log whose configuration has no `instances`.
#[test]
fn the_lease_and_its_address_are_shown() {
    let site = site();
    grow(&site, 1);
    let id = site.key("ill").log_id().0;
    let mut lease = Lease {
        holder: Some([1; 16]),
        address: "10.0.0.1:6963".into(),
        epoch: 7,
        renewal: 0,
    };
    let open = || async { SqlLock::open(&site.lock().display().to_string()).await };
    run(async {
        let lock = open().await.unwrap();
        lease.create(&lock, &id).await.unwrap();
        lock.close().await;
    });
    let (code, said) = look(&site, &["lock", "show", "ill"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "the instance at 10.0.0.1:6963 leads: epoch 7");
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        !said.contains("leads this log"),
        "the instance is dead: {said}"
    );
    // A server without `instances` commits beside this lease.
    let checkpoints = [(); 4].map(|()| {
        grow(&site, 1);
        site.signed("ill").unwrap()
    });
    let checking = site.launch_of(&["check"]);
    let checking = std::thread::spawn(move || checking.run().unwrap());
    let mut turn = checkpoints.iter().cycle();
    while !checking.is_finished() {
        site.sign("ill", turn.next().unwrap());
        // The pace of a leader.
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = all(&checking.join().unwrap());
    assert!(!said.contains("leads this log"), "{said}");
    site.sign("ill", &checkpoints[3]);
    run(async {
        let lock = open().await.unwrap();
        let checking = tokio::task::spawn_blocking({
            let check = site.launch_of(&["check"]);
            move || check.run().unwrap()
        });
        while !checking.is_finished() {
            let renewal = lease.renewal + 1;
            let next = Lease {
                renewal,
                ..lease.clone()
            };
            lease.replace(&next, &lock, &id).await.unwrap();
            lease = next;
            // The pace of a leader.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let said = all(&checking.await.unwrap());
        assert_has(&said, "the instance at 10.0.0.1:6963 leads this log");
        lock.close().await;
    });
}
