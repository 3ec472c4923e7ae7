//! The comparison with checkpoints in other places at startup.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lucarne_mint::now_ms;
use lucarne_testkit::free_port;

use super::elsewhere::{Answer, Elsewhere, forged};
use super::{grow, stop, take};
use crate::common::load::is_retry_later;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, edit, pki, run, submission};

/// Creates the logs `ill`, with these places as known checkpoints, and `well`.
fn site_known_at(places: &[&str]) -> Site {
    let known = format!("known_checkpoints: [{}]", places.join(", "));
    Site::create([("ill", known), ("well", String::new())])
}

fn checkpoint(site: &Site) -> Vec<u8> {
    fs::read(site.data("ill").join("checkpoint")).unwrap()
}

/// Copies lock, data and caches of all logs.
fn copy_all(site: &Site, from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for part in ["ill", "ill-cache", "well", "well-cache", "lock.sqlite"] {
        let status = Command::new("rm").arg("-rf").arg(to.join(part)).status();
        assert!(status.unwrap().success());
        let copied = Command::new("cp")
            .arg("-a")
            .args([from.join(part), to.join(part)])
            .status();
        assert!(copied.unwrap().success());
    }
    assert!(!site.path().join("lock.sqlite-wal").exists());
}

/// Checks that log `ill` does not start for this reason, and signs nothing; `well` still runs.
fn is_refused(site: &Site, words: &[&str]) {
    let before = site.signed("ill");
    let mut server = site.start();
    run(async {
        let reason = site.reaches("ill", "stopped").await;
        println!("{reason}");
        words.iter().for_each(|words| assert_has(&reason, words));
        let answer = site.client_of("ill");
        let answer = answer.post("ct/v1/add-chain", submission(&pki().p256));
        assert!(is_retry_later(&answer.await.unwrap()));
        site.ready("well").await;
        take(&site.client_of("well"), 1).await;
    });
    assert_eq!(site.signed("ill"), before);
    stop(&mut server);
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 3, "{said}");
    words.iter().for_each(|words| assert_has(&said, words));
}

/// A snapshot of a machine contains data, lock and cache, so none of them reveals the rollback.
#[test]
fn a_machine_that_was_rolled_back_is_caught() {
    let elsewhere = Elsewhere::new(Answer::NotFound);
    let site = site_known_at(&[&elsewhere.prefix()]);
    grow(&site, 3);
    let (old, snapshot) = (checkpoint(&site), site.path().join("snapshot"));
    copy_all(&site, site.path(), &snapshot);
    grow(&site, 3);
    let (newest, right) = (checkpoint(&site), site.path().join("right"));
    copy_all(&site, site.path(), &right);
    copy_all(&site, &snapshot, site.path());

    elsewhere.answers(Answer::Checkpoint(newest));
    is_refused(
        &site,
        &[
            &elsewhere.url(),
            "has a checkpoint of 6 entries",
            "lock, journal and storage here have 3",
            "it would sign a fork",
            "(known_checkpoint_newer)",
        ],
    );
    assert!(
        elsewhere
            .asked()
            .iter()
            .all(|path| path == "/mirror/checkpoint")
    );

    // A place with an older checkpoint, or none, does not prevent the start.
    for unknowing in [Answer::Checkpoint(old), Answer::NotFound] {
        elsewhere.answers(unknowing);
        let mut server = site.start();
        run(site.ready("ill"));
        stop(&mut server);
    }
    copy_all(&site, &right, site.path());
    grow(&site, 1);
}

/// A refused log starts by itself after its missing data is restored.
#[test]
fn a_refused_log_goes_on_once_it_has_what_others_have() {
    let elsewhere = Elsewhere::new(Answer::NotFound);
    let site = site_known_at(&[&elsewhere.url()]);
    grow(&site, 3);
    let newest = checkpoint(&site);
    let ahead = forged(&site, 4, now_ms());
    elsewhere.answers(Answer::Checkpoint(ahead));
    let mut server = site.start();
    run(async {
        let reason = site.reaches("ill", "stopped").await;
        assert_has(&reason, "(known_checkpoint_newer)");
        elsewhere.answers(Answer::Checkpoint(newest));
        site.ready("ill").await;
        take(&site.client_of("ill"), 1).await;
    });
    stop(&mut server);
}

#[test]
fn another_history_is_caught() {
    let elsewhere = Elsewhere::new(Answer::NotFound);
    let site = site_known_at(&[&elsewhere.prefix()]);
    grow(&site, 5);
    for size in [5, 4] {
        elsewhere.answers(Answer::Checkpoint(forged(&site, size, now_ms())));
        is_refused(
            &site,
            &[
                &format!("has a checkpoint of {size} entries with the root"),
                &format!("the root of the first {size} entries here is"),
                "(known_checkpoint_fork)",
            ],
        );
    }
}

/// An outage of another place causes only a warning and a bounded delay at startup.
#[test]
fn who_does_not_answer_keeps_no_log_from_starting() {
    let places = [
        Answer::NotFound,
        Answer::Silence,
        Answer::Trickle,
        Answer::Flood,
        Answer::Checkpoint(b"no checkpoint".into()),
    ]
    .map(Elsewhere::new);
    let foreign = Elsewhere::new(Answer::NotFound);
    let nobody = format!("http://127.0.0.1:{}/", free_port());
    let mut urls: Vec<String> = places.iter().map(Elsewhere::prefix).collect();
    urls.extend([foreign.prefix(), nobody]);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let site = site_known_at(&urls);
    foreign.answers(Answer::Checkpoint(site.signed("well").unwrap()));
    let started = Instant::now();
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        // The wait is longer on a busy machine.
        let waited = started.elapsed();
        assert!(
            waited >= Duration::from_secs(4),
            "{waited:?}: nobody was waited for"
        );
        take(&site.client_of("ill"), 1).await;
    });
    stop(&mut server);
    let output = server.output();
    for url in &urls {
        let place = format!("{}/checkpoint", url.trim_end_matches('/'));
        let warned = |line: &&str| line.contains(" WARN ") && line.contains(&place);
        assert_eq!(
            output.lines().filter(warned).count(),
            1,
            "{place} in {output}"
        );
    }
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 0, "{said}");
    let warnings = said.lines().filter(|line| {
        line.starts_with("warning: ") && line.contains("logs[ill].known_checkpoints")
    });
    assert_eq!(warnings.count(), urls.len(), "{said}");
}

#[test]
fn known_checkpoints_are_urls_of_one_log() {
    let site = site_known_at(&["http://127.0.0.1:9/a/checkpoint"]);
    edit(
        &site.configuration(),
        "[http://127.0.0.1:9/a/checkpoint]",
        "ct.example/a",
    );
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "known_checkpoints");
    assert_has(&said, "does not begin with https:// or http://");
    edit(
        &site.configuration(),
        "    known_checkpoints: ct.example/a\n",
        "",
    );
    edit(
        &site.configuration(),
        "defaults: {",
        "defaults: {known_checkpoints: [https://ct.example/a], ",
    );
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "is not allowed here");
}

#[test]
fn a_damaged_tile_is_no_fork() {
    let elsewhere = Elsewhere::new(Answer::NotFound);
    let site = site_known_at(&[&elsewhere.prefix()]);
    grow(&site, 3);
    elsewhere.answers(Answer::Checkpoint(checkpoint(&site)));
    grow(&site, 300);
    let tile = site.data("ill").join("tile/0/000");
    let whole = fs::read(&tile).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    fs::write(&tile, &damaged).unwrap();
    let mut server = site.start();
    server
        .wait_for_output("(known_checkpoint_untold)", EVENT_TIMEOUT)
        .unwrap();
    run(async {
        let health = site.reaches("ill", "running").await;
        println!("{health}");
    });
    stop(&mut server);
}
