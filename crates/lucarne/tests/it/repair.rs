//! `lucarne repair`, while the server runs and from copies.

use std::path::Path;
use std::process::Command;

use lucarne_testkit::{Bucket, Client, Launch, LogUnderTest, Place};
use serde_json::Value;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, log, log_at, lucarne, ready, run};
use crate::fsck::{checked, grown, last, said};

/// Flips a bit in the middle of a file, and returns the original bytes.
fn flip(file: &Path) -> Vec<u8> {
    let good = std::fs::read(file).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(file, bad).unwrap();
    good
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.unwrap().success());
}

/// Returns the exit code and the JSON lines of `lucarne repair` with this log's configuration.
fn repaired(log: &LogUnderTest, args: &[&str]) -> (i32, Vec<Value>) {
    said(log.launch("repair").args(args))
}

/// Returns the line about this file.
fn about<'l>(lines: &'l [Value], path: &str) -> &'l Value {
    lines.iter().find(|line| line["path"] == path).unwrap()
}

/// Hash tiles are recomputed; entries and issuers need a copy. Afterwards readers get the correct
/// bytes, and the wrong bytes are kept.
#[test]
fn a_running_log_is_put_right_from_a_copy() {
    let log = log("period: 20\nscrub: off");
    let mut server = grown(&log);
    let copied = log.path().join("copy");
    copy(&log.data(), &copied);
    let issuers = std::fs::read_dir(log.data().join("issuer")).unwrap();
    let issuer = issuers.last().unwrap().unwrap().file_name();
    let issuer = format!("issuer/{}", issuer.to_str().unwrap());
    let paths = ["tile/0/000", "tile/data/000", &issuer];
    let wrong = paths.map(|path| {
        let good = flip(&log.data().join(path));
        (path, good, std::fs::read(log.data().join(path)).unwrap())
    });

    let (code, lines) = repaired(&log, &["--dry-run", "--from", copied.to_str().unwrap()]);
    assert_eq!(code, 1, "{lines:?}");
    assert_eq!(last(&lines)["repaired"], 3);
    for (path, _, bad) in &wrong {
        assert_eq!(
            std::fs::read(log.data().join(path)).unwrap(),
            *bad,
            "{path}"
        );
    }

    // Without a copy there are no correct entries, and so no hashes of them.
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 1, "{lines:?}");
    assert_eq!(about(&lines, "tile/data/000")["problem"], "gzip");
    assert_eq!(last(&lines)["verdict"], "wrong");

    let (code, lines) = repaired(&log, &["--from", copied.to_str().unwrap()]);
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(last(&lines)["verdict"], "right");
    for (path, good, bad) in &wrong {
        let line = about(&lines, path);
        let kept = line["kept"].as_str().unwrap();
        assert!(kept.contains(".lucarne/damaged/"), "{line}");
        assert_eq!(std::fs::read(kept).unwrap(), *bad, "{line}");
        assert_eq!(
            std::fs::read(log.data().join(path)).unwrap(),
            *good,
            "{line}"
        );
    }
    run(async {
        ready(&log).await;
        for (path, good, _) in &wrong {
            let answer = log.client().get(path).await.unwrap();
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(&answer.body[..], &good[..], "{path}");
        }
    });
    assert_eq!(checked(log.path(), &[]).0, 0);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Names tiles are regenerated from the entries: the wrong ones, and all of them if the log had
/// none.
#[test]
fn names_tiles_are_made_anew() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let names = log.data().join("tile/names");
    let good = flip(&names.join("000"));
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 1, "{lines:?}");
    assert_eq!(about(&lines, "tile/names/000")["problem"], "gzip");
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(std::fs::read(names.join("000")).unwrap(), good);

    // An earlier version wrote no names tiles.
    std::fs::remove_dir_all(&names).unwrap();
    assert_eq!(checked(log.path(), &[]).0, 0);
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(
        about(&lines, "tile/names/000")["repaired_from"],
        "the tiles or entries beneath it"
    );
    assert_eq!(std::fs::read(names.join("000")).unwrap(), good);
    std::fs::remove_file(names.join("000")).unwrap();
    let (code, lines) = checked(log.path(), &[]);
    // A missing tile before the first existing one is not a fault, because it may never have
    // existed.
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(repaired(&log, &[]).0, 0);
}

/// A hash tile is recomputed without a copy, and its line names the source.
#[test]
fn a_hash_tile_is_made_anew() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let tile = log.data().join("tile/0/000");
    let good = flip(&tile);
    let (code, text) = lucarne(log.path(), &["repair"]);
    assert_eq!(code, 0, "{text}");
    assert_has(
        &text,
        "repaired from the tiles or entries beneath it: tile/0/000, byte ",
    );
    assert_has(&text, "it is kept as ");
    assert_has(&text, "right: 1 repaired, 0 wrong");
    assert_eq!(std::fs::read(&tile).unwrap(), good);
    // The second set of wrong bytes is kept beside the first.
    flip(&tile);
    std::fs::remove_file(log.data().join("tile/0/001.p/44")).unwrap();
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 0, "{lines:?}");
    let kept = about(&lines, "tile/0/000")["kept"].as_str().unwrap();
    assert!(kept.ends_with("tile/0/000-2"), "{kept}");
    assert_eq!(about(&lines, "tile/0/001.p/44")["kept"], Value::Null);
}

/// A start restores a hash tile of the right edge without a copy, logs and counts it.
#[test]
fn a_start_restores_the_right_edge() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let tile = log.data().join("tile/0/001.p/44");
    let good = flip(&tile);
    let bad = std::fs::read(&tile).unwrap();
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let site = Client::new(format!("http://{}", log.address()));
        let metrics = site.get("metrics").await.unwrap().text();
        assert_has(&metrics, "lucarne_restored_files_total{log=\"test\"} 1");
    });
    server
        .wait_for_output("restored a damaged file", EVENT_TIMEOUT)
        .unwrap();
    assert_eq!(std::fs::read(&tile).unwrap(), good);
    let kept = log.data().join(".lucarne/damaged/tile/0/001.p/44-1");
    assert_eq!(std::fs::read(kept).unwrap(), bad);
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 0, "{lines:?}");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A copy is repaired from the URL of the log; files at a URL cannot be repaired.
#[test]
fn a_mirror_is_put_right_from_the_log() {
    let log = log("period: 20");
    let mut server = grown(&log);
    let mirror = log.path().join("mirror");
    copy(&log.data(), &mirror);
    let url = log.url();
    for path in ["tile/data/000", "tile/data/001.p/44", "tile/0/001.p/44"] {
        flip(&mirror.join(path));
    }
    let partial = mirror.join("tile/0/000.p");
    std::fs::create_dir_all(&partial).unwrap();
    std::fs::write(partial.join("7"), [1; 7 * 32]).unwrap();
    let at = |place: &str, roots: &[&str]| {
        let launch = Launch::new(LUCARNE).args(["repair", "--at", place, "--from", &url]);
        said(launch.args(roots).directory(log.path()))
    };
    // The log's URL alone does not prove precertificates and chains.
    let place = mirror.to_str().unwrap();
    let (code, lines) = at(place, &[]);
    assert_eq!(code, 1, "{lines:?}");
    assert_eq!(last(&lines)["repaired"], 1);
    let notes = serde_json::to_string(&lines).unwrap();
    assert_has(&notes, "no accepted roots are known");
    assert_has(
        &notes,
        &format!("not taken from {url}/: tile/data/000: entry 0: "),
    );
    let (code, lines) = at(place, &["--roots", "roots.pem"]);
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(last(&lines)["repaired"], 3);
    let line = about(&lines, "tile/0/000.p/7");
    assert_eq!(line["repaired_from"], "the wider tile");
    let differing = Command::new("diff")
        .args(["-r", "-x", ".lucarne", "-x", "*.p", "-x", "checkpoint"])
        .args([log.data(), mirror])
        .output();
    let differing = differing.unwrap();
    assert!(differing.status.success(), "{differing:?}");

    let (code, text) = lucarne(log.path(), &["repair", "--at", &url]);
    assert_eq!(code, 2, "{text}");
    assert_has(&text, "cannot write to");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// An object in a bucket was overwritten while the server runs.
#[test]
fn a_log_in_a_bucket_is_put_right() {
    let (bucket, place) = run(async {
        let bucket = Bucket::versitygw().await.unwrap();
        let place = Place::bucket(&bucket, None);
        (bucket, place)
    });
    let log = log_at(place, "period: 100");
    let mut server = grown(&log);
    let key = |path: &str| format!("data/{path}");
    let good = run(bucket.get(&key("tile/0/000"))).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 8;
    run(bucket.put(&key("tile/0/000"), &bad)).unwrap();
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(about(&lines, "tile/0/000")["offset"], 100);
    run(async {
        assert_eq!(bucket.get(&key("tile/0/000")).await.unwrap(), good);
        let kept = bucket.get(&key(".lucarne/damaged/tile/0/000-1")).await;
        assert_eq!(kept.unwrap(), bad);
        ready(&log).await;
        let answer = log.client().get("tile/0/000").await.unwrap();
        assert_eq!(&answer.body[..], &good[..]);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A damaged staged round that is already published stops no start; `repair` moves it aside.
#[test]
fn a_damaged_round_that_is_published_is_not_needed() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let log = log_at(Place::bucket(&bucket, None), "period: 100");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let load = Load::new(&log);
        for _ in 0..3 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    server.kill().unwrap();
    let rounds = || {
        let list = log.command().args(["journal", "list", "--json", "-c"]);
        let output = list.arg(log.configuration()).run().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["logs"][0].clone()
    };
    let file = rounds()["rounds"][0]["at"]["file"]
        .as_str()
        .unwrap()
        .to_owned();
    let key = format!("data/{file}");
    let mut bytes = run(bucket.get(&key)).unwrap();
    bytes[40] ^= 1;
    run(bucket.put(&key, &bytes)).unwrap();
    let mut server = log.start().unwrap();
    run(ready(&log));
    let damage = rounds()["problems"].to_string();
    assert_has(&damage, &file);
    let (code, lines) = repaired(&log, &["--dry-run"]);
    assert_eq!(code, 1, "{lines:?}");
    assert_eq!(last(&lines)["repaired"], 1);
    let removable = lines.iter().find(|line| line["problem"] == "round");
    assert_has(removable.unwrap()["path"].as_str().unwrap(), &file);
    assert_has(&rounds()["problems"].to_string(), &file);
    let (code, lines) = repaired(&log, &[]);
    assert_eq!(code, 0, "{lines:?}");
    let removed = lines.iter().find(|line| line["problem"] == "round");
    let kept = removed.unwrap()["kept"].as_str().unwrap();
    let (kept, _) = kept.split_once(" in ").unwrap();
    assert_eq!(run(bucket.get(&format!("data/{kept}"))).unwrap(), bytes);
    assert_eq!(rounds()["problems"], serde_json::json!([]));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// The checkpoint in the lock is used if no checkpoint is published.
#[test]
fn the_lock_stands_in_for_a_lost_checkpoint() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let checkpoint = log.data().join("checkpoint");
    for lost in [None, Some("")] {
        match lost {
            None => std::fs::remove_file(&checkpoint).unwrap(),
            Some(text) => std::fs::write(&checkpoint, text).unwrap(),
        }
        flip(&log.data().join("tile/0/000"));
        let (code, lines) = checked(log.path(), &[]);
        assert_eq!(code, 1, "{lines:?}");
        let note = "the tree that the lock has signed is checked";
        assert_has(&serde_json::to_string(&lines).unwrap(), note);
        assert_eq!(about(&lines, "tile/0/000")["problem"], "hash");
        // Only the checkpoint is still wrong.
        let (code, lines) = repaired(&log, &[]);
        assert_eq!(code, 1, "{lines:?}");
        assert_eq!(last(&lines)["repaired"], 1);
        assert_eq!(last(&lines)["wrong"], 1);
        assert!(
            lines.iter().any(|line| line["problem"] == "lock"),
            "{lines:?}"
        );
    }
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert_eq!(checked(log.path(), &[]).0, 0);
}
