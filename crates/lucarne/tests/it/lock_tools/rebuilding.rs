//! Rebuilding a lost lock, with a comparison with checkpoints in other places.

use std::fs;

use super::elsewhere::{Answer, Elsewhere, forged};
use super::{grow, site, stop, take};
use crate::common::site::Site;
use crate::common::{assert_has, run};

const REBUILD: [&str; 3] = ["lock", "rebuild", "ill"];

/// Creates a log whose row in the lock is missing.
fn lost() -> (Site, Vec<u8>) {
    let site = site();
    grow(&site, 4);
    let newest = site.signed("ill").unwrap();
    site.forget("ill");
    (site, newest)
}

/// Checks that the command refuses with these words, and the lock is still empty.
fn refuses(site: &Site, more: &[&str], words: &[&str]) {
    let (code, said) = site.lucarne(&[&REBUILD[..], more].concat());
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "nothing was changed");
    words.iter().for_each(|words| assert_has(&said, words));
    assert_eq!(site.signed("ill"), None);
}

fn rebuilds(site: &Site, more: &[&str]) -> String {
    let (code, said) = site.lucarne(&[&REBUILD[..], more].concat());
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "is now at 4 entries");
    said
}

fn goes_on(site: &Site) {
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), 1).await;
    });
    stop(&mut server);
}

#[test]
fn a_newer_checkpoint_outside_refuses() {
    let (site, newest) = lost();
    let elsewhere = Elsewhere::new(Answer::Checkpoint(forged(&site, 5, 1)));
    let well = Elsewhere::new(Answer::Checkpoint(newest));
    let known = ["--known", &well.url(), "--known", &elsewhere.prefix()];
    let words = [
        &elsewhere.url(),
        "has a checkpoint of 5 entries",
        "storage here have 4",
        "(known_checkpoint_newer)",
    ];
    refuses(&site, &known, &words);
    // A place that responds cannot be left out.
    let url = elsewhere.url();
    let without = [&known[..], &["--without", &url]].concat();
    refuses(&site, &without, &["(known_checkpoint_newer)"]);
    // A place in the configuration is compared as well.
    let text = fs::read_to_string(site.configuration()).unwrap();
    let named = format!(
        "secret: ill.seed\n    known_checkpoints: {}",
        elsewhere.url()
    );
    fs::write(
        site.configuration(),
        text.replace("secret: ill.seed", &named),
    )
    .unwrap();
    refuses(&site, &[], &["(known_checkpoint_newer)"]);
}

#[test]
fn another_history_outside_refuses() {
    let (site, _) = lost();
    let file = site.path().join("seen");
    for size in [4, 3] {
        fs::write(&file, forged(&site, size, 1)).unwrap();
        refuses(
            &site,
            &["--known", "seen"],
            &["seen", "(known_checkpoint_fork)"],
        );
    }
}

#[test]
fn who_does_not_answer_refuses_unless_gone_without() {
    let (site, newest) = lost();
    let silent = Elsewhere::new(Answer::Silence);
    let other = Elsewhere::new(Answer::Checkpoint(site.signed("well").unwrap()));
    let well = Elsewhere::new(Answer::Checkpoint(newest));
    let known = ["--known", &well.prefix(), "--known", &silent.prefix()];
    let words = [&silent.url(), "no response within 5 s", "--without"];
    refuses(&site, &known, &words);
    refuses(
        &site,
        &["--known", &other.url()],
        &["not a checkpoint of this log"],
    );
    refuses(&site, &["--known", "nowhere"], &["nowhere: No such file"]);
    let url = other.url();
    let stranger = [&known[..], &["--without", &url]].concat();
    refuses(&site, &stranger, &["not a place of --known"]);
    let said = rebuilds(
        &site,
        &[&known[..], &["--without", &silent.prefix()]].concat(),
    );
    assert_has(&said, &format!("{} was skipped", silent.url()));
    assert_has(&said, &format!("{} has 4 entries", well.url()));
    goes_on(&site);
    let (code, said) = site.lucarne(&[&REBUILD[..], &known].concat());
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "replace it with --replace-older");
}

/// The last signed checkpoint of the same tree equals the checkpoint that the lock had.
#[test]
fn the_checkpoint_that_was_signed_last_is_the_one() {
    let site = Site::create([("ill", "checkpointinterval: 200".to_owned())]);
    grow(&site, 4);
    let old = fs::read(site.data("ill").join("checkpoint")).unwrap();
    // An idle log signs the same tree again.
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        crate::common::eventually("it is signed again", async || {
            site.signed("ill").unwrap() != old
        })
        .await;
    });
    stop(&mut server);
    let newest = site.signed("ill").unwrap();
    fs::write(site.data("ill").join("checkpoint"), &old).unwrap();
    site.forget("ill");
    let elsewhere = Elsewhere::new(Answer::Checkpoint(newest.clone()));
    rebuilds(&site, &["--known", &elsewhere.prefix()]);
    assert_eq!(site.signed("ill").unwrap(), newest);
    goes_on(&site);
}

/// The command prints the condition that the operator must verify if no other place is known.
#[test]
fn what_nobody_vouches_for_is_said() {
    let (site, newest) = lost();
    let said = rebuilds(&site, &[]);
    assert_has(&said, "If any other place has more of this log");
    assert_eq!(site.signed("ill").unwrap(), newest);
}

/// The lock is older than the log, or damaged. The checkpoint in another place proves that the lock
/// is wrong.
#[test]
fn an_older_or_damaged_lock_is_replaced() {
    let site = site();
    grow(&site, 2);
    let old = site.signed("ill").unwrap();
    grow(&site, 2);
    let newest = site.signed("ill").unwrap();
    let mut flipped = newest.clone();
    // The root is in the third line.
    let lines = newest.split(|byte| *byte == b'\n').take(2);
    let root: usize = lines.map(|line| line.len() + 1).sum();
    flipped[root] ^= 1;
    let file = site.path().join("known");
    let replace =
        |known: &[&str]| site.lucarne(&[&REBUILD[..], &["--replace-older"], known].concat());
    for wrong in [old.clone(), flipped] {
        fs::write(&file, &newest).unwrap();
        site.sign("ill", &wrong);
        let (code, said) = replace(&[]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "needs a checkpoint that is known outside");
        assert_eq!(site.signed("ill").unwrap(), wrong);
        let (code, said) = replace(&["--known", "known"]);
        assert_eq!(code, 0, "{said}");
        assert_has(&said, "is now at 4 entries");
        assert_eq!(site.signed("ill").unwrap(), newest);
    }
    // The newest checkpoint in the lock is never replaced, and neither is one newer than the log.
    let (code, said) = replace(&["--known", "known"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "holds the newest checkpoint already");
    let newer = forged(&site, 5, 1);
    site.sign("ill", &newer);
    let (code, said) = replace(&["--known", "known"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "(known_checkpoint_newer)");
    assert_eq!(site.signed("ill").unwrap(), newer);
    site.sign("ill", &newest);
    goes_on(&site);
}

/// The published checkpoint is older than the tiles, as after a power cut or a copy of a running
/// log. The checkpoint in another place covers all tiles.
#[test]
fn an_older_published_checkpoint_is_no_hindrance() {
    let site = site();
    grow(&site, 2);
    let checkpoint = site.data("ill").join("checkpoint");
    let old = fs::read(&checkpoint).unwrap();
    grow(&site, 2);
    let newest = site.signed("ill").unwrap();
    fs::write(site.path().join("known"), &newest).unwrap();
    fs::remove_dir_all(site.data("ill").join(".lucarne/journal")).unwrap();
    fs::write(&checkpoint, &old).unwrap();
    site.forget("ill");
    refuses(&site, &[], &["beyond the 2 entries"]);
    rebuilds(&site, &["--known", "known"]);
    assert_eq!(site.signed("ill").unwrap(), newest);
    goes_on(&site);
}

/// The lock may hold several logs, so the message names all of them.
#[test]
fn all_logs_of_a_lost_lock_are_named() {
    let site = site();
    grow(&site, 4);
    fs::write(site.lock(), "no database").unwrap();
    let (code, said) = site.lucarne(&REBUILD);
    assert_eq!(code, 1, "{said}");
    assert_has(
        &said,
        "This lock belongs to the logs ill, well. Move the lock away",
    );
    for file in ["lock.sqlite", "lock.sqlite-wal", "lock.sqlite-shm"] {
        let _ = fs::remove_file(site.path().join(file));
    }
    assert_has(
        &rebuilds(&site, &[]),
        "run `lucarne lock rebuild well`, too",
    );
}
