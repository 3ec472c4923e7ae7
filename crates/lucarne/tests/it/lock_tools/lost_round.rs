//! A round that the lock has signed and a failing disk has lost. The log goes back to the round
//! before only if nothing of the lost round was published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elsewhere::{Answer, Elsewhere, forged};
use super::{grow, site, stop, take};
use crate::common::site::Site;
use crate::common::{assert_has, run};

const GO_BACK: [&str; 4] = ["lock", "rebuild", "ill", "--never-published"];

/// Returns the directories of log `ill`, and the places of their copies.
fn directories(site: &Site) -> [(PathBuf, PathBuf); 2] {
    let aside = |name: &str| site.path().join(format!("{name}.aside"));
    let cache = site.path().join("ill-cache");
    [(site.data("ill"), aside("data")), (cache, aside("cache"))]
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Creates a log whose lock has signed five entries. Its disk has four, and nothing of the last
/// round. Also returns a checkpoint of three entries, and the published one of four.
fn lost() -> (Site, Vec<u8>, Vec<u8>) {
    let site = site();
    let published = || fs::read(site.data("ill").join("checkpoint")).unwrap();
    grow(&site, 3);
    let older = published();
    grow(&site, 1);
    let published = published();
    for (here, aside) in directories(&site) {
        copy(&here, &aside);
    }
    grow(&site, 1);
    for (here, aside) in directories(&site) {
        fs::rename(&here, here.with_extension("newest")).unwrap();
        fs::rename(&aside, &here).unwrap();
    }
    (site, older, published)
}

/// Checks that the command refuses with these words, and the lock is unchanged.
fn refuses(site: &Site, more: &[&str], words: &[&str]) {
    let before = site.signed("ill");
    let (code, said) = site.lucarne(&[&GO_BACK[..], more].concat());
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "nothing was changed");
    words.iter().for_each(|words| assert_has(&said, words));
    assert_eq!(site.signed("ill"), before);
}

#[test]
fn a_log_goes_back_from_a_round_that_was_never_published() {
    let (site, _, published) = lost();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("ill", "stopped").await;
        assert_has(&reason, "has signed 5 entries");
        assert_has(&reason, "`lucarne lock rebuild --never-published`");
    });
    stop(&mut server);
    let signed = String::from_utf8(site.signed("ill").unwrap()).unwrap();
    let mirror = Elsewhere::new(Answer::Checkpoint(published));
    let (code, said) = site.lucarne(&[&GO_BACK[..], &["--known", &mirror.url()]].concat());
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "is now at 4 entries");
    assert_has(&said, "The lock was at 5 entries");
    assert_has(&said, &signed);
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), 2).await;
    });
    stop(&mut server);
    let published = fs::read_to_string(site.data("ill").join("checkpoint")).unwrap();
    assert_eq!(published.lines().nth(1), Some("6"));
    refuses(
        &site,
        &["--known", &mirror.url()],
        &["have all 6 entries", "no round is lost"],
    );
}

#[test]
fn who_does_not_follow_the_log_cannot_tell_what_was_published() {
    let (site, older, published) = lost();
    refuses(&site, &[], &["no other place has the newest checkpoint"]);
    let stale = Elsewhere::new(Answer::Checkpoint(older));
    let fork = Elsewhere::new(Answer::Checkpoint(forged(&site, 4, 1)));
    let silent = Elsewhere::new(Answer::Silence);
    let well = Elsewhere::new(Answer::Checkpoint(published));
    let newer = Elsewhere::new(Answer::Checkpoint(site.signed("ill").unwrap()));
    let (stale, silent, fork) = (stale.url(), silent.url(), fork.url());
    let (well, newer) = (well.url(), newer.url());
    refuses(
        &site,
        &["--known", &stale, "--known", &silent, "--without", &silent],
        &["no other place has the newest checkpoint"],
    );
    refuses(
        &site,
        &["--known", &well, "--known", &silent],
        &[&silent, "no response within 5 s"],
    );
    refuses(
        &site,
        &["--known", &well, "--known", &newer],
        &[&newer, "(known_checkpoint_newer)"],
    );
    refuses(
        &site,
        &["--known", &well, "--known", &fork],
        &[&fork, "(known_checkpoint_fork)"],
    );
}

#[test]
fn a_trace_of_the_round_refuses() {
    let (site, _, published) = lost();
    let well = Elsewhere::new(Answer::Checkpoint(published));
    let well = ["--known", &well.url()];
    // A tile of the lost round.
    let tile = "tile/0/000.p/5";
    let here = site.data("ill").join(tile);
    let newest = site.data("ill").with_extension("newest").join(tile);
    fs::create_dir_all(here.parent().unwrap()).unwrap();
    fs::copy(newest, &here).unwrap();
    refuses(&site, &well, &["tile/0/000.p/5", "beyond the 4 entries"]);
    fs::remove_file(here).unwrap();
    // The index, which has a round only after its publication.
    let cache = site.path().join("ill-cache");
    fs::rename(&cache, site.path().join("older")).unwrap();
    fs::rename(cache.with_extension("newest"), &cache).unwrap();
    refuses(
        &site,
        &well,
        &[
            "has seen 5 entries",
            "the lock (rebuilt from storage and journal) has only 4",
        ],
    );
    // Therefore the message of a start does not advise this command.
    let mut server = site.start();
    run(async {
        let reason = site.reaches("ill", "stopped").await;
        assert_has(&reason, "has signed 5 entries");
        assert!(!reason.contains("--never-published"), "{reason}");
    });
    stop(&mut server);
}
