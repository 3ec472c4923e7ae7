//! `lucarne fsck`, run by an operator and by other parties.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64_simd::STANDARD;
use lucarne_ct::LogKey;
use lucarne_testkit::{Launch, LogUnderTest, Place, Server, temp_dir};
use lucarne_tlog::EMPTY_ROOT;
use serde_json::Value;

use crate::common::load::Load;
use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, eventually, log, log_at, lucarne, ready, run,
};

const ENTRIES: usize = 300;

/// Starts a server whose log has two data tiles.
pub(crate) fn grown(log: &LogUnderTest) -> Server {
    let server = log.start().unwrap();
    run(async {
        ready(log).await;
        let load = Arc::new(Load::new(log));
        let each = async |load: Arc<Load>| {
            while load.count() < ENTRIES {
                assert_eq!(load.submit(&load.fresh()).await, Some(true));
            }
        };
        let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(each(load.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    server
}

/// Waits for a file that the server writes in the background.
fn eventually_exists(file: &Path) {
    run(eventually("the file exists", async || file.exists()));
}

/// Returns the exit code and the JSON lines of a check.
pub(crate) fn checked(directory: &Path, args: &[&str]) -> (i32, Vec<Value>) {
    let launch = Launch::new(LUCARNE).args(["fsck"]).args(args);
    said(launch.directory(directory))
}

pub(crate) fn said(launch: Launch) -> (i32, Vec<Value>) {
    let output = launch.args(["--json"]).run().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (output.status.code().unwrap(), lines.collect())
}

/// Returns the last line of a check, which has the verdict.
pub(crate) fn last(lines: &[Value]) -> &Value {
    lines.last().unwrap()
}

/// Checks a running log by its configuration, in its directory and at its URL: no file is wrong,
/// and the check writes nothing.
#[test]
fn a_running_log_is_right_from_everywhere() {
    let log = log("period: 20");
    let mut server = grown(&log);
    // The server writes the file some time after the log has opened.
    eventually_exists(&log.data().join("log.v3.json"));
    let key = STANDARD.encode_to_string(log.public_key());
    let (data, url, origin) = (log.data(), log.url(), log.origin());
    let known = ["--log-public-key", &key, "--origin", &origin];
    for (place, of_itself) in [
        (&[][..], false),
        (&["--at", data.to_str().unwrap()], true),
        (&["--at", &url], true),
        (
            &[&["--at", url.trim_end_matches('/')][..], &known].concat(),
            false,
        ),
    ] {
        let (code, lines) = checked(log.path(), place);
        let end = last(&lines);
        assert_eq!(code, 0, "{place:?}: {lines:?}");
        assert_eq!(end["verdict"], "right", "{place:?}");
        assert_eq!(end["entries"], end["size"], "{place:?}");
        assert!(end["size"].as_u64().unwrap() >= ENTRIES as u64, "{end}");
        assert!(end["bytes"].as_u64().unwrap() > 50_000, "{end}");
        let note = lines[0]["note"].as_str().unwrap_or_default();
        assert_eq!(
            note.contains("the key comes from"),
            of_itself,
            "{place:?}: {note}"
        );
    }
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let (code, said) = lucarne(log.path(), &["fsck"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "right: 0 wrong, 0 unreadable; ");
}

/// Each fault alone is reported with file, byte and entry, and the exit code is 1.
#[test]
fn what_is_wrong_is_named_to_the_byte() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let issuers = std::fs::read_dir(log.data().join("issuer")).unwrap();
    let issuer = issuers.last().unwrap().unwrap().file_name();
    let issuer = format!("issuer/{}", issuer.to_str().unwrap());
    let flip = |byte: usize| {
        move |mut bytes: Vec<u8>| {
            bytes[byte] ^= 4;
            Some(bytes)
        }
    };
    type Fault = Box<dyn Fn(Vec<u8>) -> Option<Vec<u8>>>;
    let faults: [(&str, Fault, &str, Value, u64); 6] = [
        (
            "tile/0/000",
            Box::new(flip(32 * 40 + 3)),
            "hash",
            1283.into(),
            40,
        ),
        ("tile/0/000", Box::new(|_| None), "missing", Value::Null, 0),
        (
            "tile/data/000",
            Box::new(flip(5000)),
            "gzip",
            Value::Null,
            0,
        ),
        (
            "tile/data/000",
            Box::new(|_| None),
            "missing",
            Value::Null,
            0,
        ),
        (&issuer, Box::new(flip(70)), "issuer", Value::Null, 0),
        (&issuer, Box::new(|_| None), "missing", Value::Null, 0),
    ];
    for (path, fault, problem, offset, entry) in faults {
        let file = log.data().join(path);
        let good = std::fs::read(&file).unwrap();
        match fault(good.clone()) {
            Some(bad) => std::fs::write(&file, bad).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let (code, lines) = checked(log.path(), &[]);
        assert_eq!(code, 1, "{path} {problem}: {lines:?}");
        let found = lines.iter().find(|line| line["path"] == path).unwrap();
        assert_eq!(found["problem"], problem, "{found}");
        assert_eq!(found["offset"], offset, "{found}");
        // An issuer is reported with the first tile whose entries name it.
        let place = found["entry"].as_u64().unwrap();
        if path == issuer {
            assert!(place.is_multiple_of(256), "{found}");
        } else {
            assert_eq!(place, entry, "{found}");
        }
        assert_eq!(last(&lines)["verdict"], "wrong");
        std::fs::write(&file, good).unwrap();
    }
    assert_eq!(checked(log.path(), &[]).0, 0);
}

/// Other files in the directory are reported and are not faults. A superseded tile that is not a
/// prefix of its wider tile is a fault.
#[test]
fn what_lies_beside_the_tree_is_looked_at() {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    std::fs::write(log.data().join("tile/data/notes.txt"), "mine").unwrap();
    let partial = log.data().join("tile/0/000.p");
    std::fs::create_dir_all(&partial).unwrap();
    let full = std::fs::read(log.data().join("tile/0/000")).unwrap();
    std::fs::write(partial.join("7"), &full[..7 * 32]).unwrap();
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 0, "{lines:?}");
    let said = serde_json::to_string(&lines).unwrap();
    assert_has(&said, "tile/data/notes.txt is not a file of a log");
    assert_has(&said, "no longer needed");

    std::fs::write(partial.join("7"), &full[32..8 * 32]).unwrap();
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 1, "{lines:?}");
    let found = lines.iter().find(|line| line["path"] == "tile/0/000.p/7");
    assert_eq!(found.unwrap()["problem"], "partial");
}

/// Files that could not be checked do not pass: the exit code is 2.
#[test]
fn what_cannot_be_told_is_not_right() {
    let log = log("period: 20");
    let mut server = grown(&log);
    let (url, data) = (log.url(), log.data());
    let other = STANDARD.encode_to_string(LogKey::from_seed(&[9; 32]).unwrap().public_key_spki());
    for (args, why) in [
        (&["--at", &url, "--log-public-key", &other][..], "signature"),
        (&["--at", &url, "--origin", "log.example/other"], "origin"),
        (&["--at", "/nowhere"], "/nowhere"),
        (&["nosuchlog"], "there is no log `nosuchlog`"),
    ] {
        let (code, said) = lucarne(log.path(), &[&["fsck"][..], args].concat());
        assert_eq!(code, 2, "{args:?}: {said}");
        assert_has(&said, "the log was not checked");
        assert_has(&said, why);
    }
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let (code, said) = lucarne(log.path(), &["fsck", "--at", &url]);
    assert_eq!(code, 2, "{said}");
    // The tile exists and cannot be read, because it is a directory.
    let tile = data.join("tile/0/000");
    std::fs::remove_file(&tile).unwrap();
    std::fs::create_dir(&tile).unwrap();
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 2, "{lines:?}");
    assert_eq!(last(&lines)["verdict"], "not to be told");
}

/// A file that is not a regular tile neither blocks the check nor is read without bound. A copy
/// replaces it.
#[test]
fn what_is_not_a_tile_is_not_read() {
    let log = log("period: 20");
    let mut server = grown(&log);
    let (data, copied) = (log.data(), log.path().join("copy"));
    let copy = Command::new("cp").arg("-a").args([&data, &copied]).status();
    assert!(copy.unwrap().success());
    let damage = || {
        let (sparse, fifo) = (data.join("tile/data/000"), data.join("tile/0/000"));
        for path in [&sparse, &fifo] {
            let _ = std::fs::remove_file(path);
        }
        let sparse = std::fs::File::create(sparse).unwrap();
        sparse.set_len(3 << 30).unwrap();
        let made = Command::new("mkfifo").arg(fifo).status();
        assert!(made.unwrap().success());
    };
    damage();
    run(async {
        for path in ["tile/data/000", "tile/0/000"] {
            // The log may have restored the second tile while the first was requested.
            let response = log.client().get(path).await.unwrap();
            assert!([200, 503].contains(&response.status.as_u16()), "{path}");
        }
    });
    // A running log restores tiles from its journal.
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    damage();
    let (code, lines) = checked(log.path(), &[]);
    assert_eq!(code, 2, "{lines:?}");
    let said = serde_json::to_string(&lines).unwrap();
    assert_has(&said, "cannot be read: is a FIFO; expected a file");
    assert_has(
        &said,
        "cannot be read: has 3221225472 bytes; expected at most",
    );
    let (code, lines) = self::said(
        log.launch("repair")
            .args(["--from", copied.to_str().unwrap()]),
    );
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(last(&lines)["repaired"], 2);
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        for path in ["tile/data/000", "tile/0/000"] {
            let response = log.client().get(path).await.unwrap();
            assert_eq!(response.status, 200, "{path}");
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A checkpoint of a tree without tiles does not keep the check busy.
#[test]
fn a_tree_without_tiles_is_not_walked_to_its_end() {
    const MISSING: u64 = 4096 * 256;
    let (directory, origin) = (temp_dir(), "log.example/one");
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let spki = STANDARD.encode_to_string(key.public_key_spki());
    let place = ["--at", ".", "--origin", origin, "--log-public-key", &spki];
    let sign = |size: u64| {
        let note = key.sign_checkpoint(origin, size, &EMPTY_ROOT, 1).unwrap();
        std::fs::write(directory.path().join("checkpoint"), note).unwrap();
    };
    sign(1 << 40);
    // With a state, the next check continues after the missing tiles.
    for entries in [MISSING, 2 * MISSING] {
        let state = [&place[..], &["--state", "state.json"]].concat();
        let (code, lines) = checked(directory.path(), &state);
        let end = last(&lines);
        assert_eq!((code, &end["verdict"]), (1, &"wrong".into()), "{end}");
        assert_eq!(
            (&end["entries"], &end["size"]),
            (&entries.into(), &(1u64 << 40).into())
        );
        let note = lines[lines.len() - 2]["note"].as_str().unwrap();
        assert_has(note, "no file of the last 4096 data tiles is right");
    }
    sign((1 << 40) + 1);
    let (code, said) = lucarne(directory.path(), &[&["fsck"], &place[..]].concat());
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "it has 1099511627777 entries");
}

/// A resumed check continues with the same tree and the same log.
#[test]
fn a_check_goes_on_from_its_state() {
    let log = log("period: 20");
    let mut server = grown(&log);
    let note = std::fs::read_to_string(log.data().join("checkpoint")).unwrap();
    let state = log.path().join("state.json");
    let left = |tile: u64, note: &str| {
        let json = serde_json::json!({
            "checkpoint": note, "tile": tile, "newest_ms": 0, "wrong": 0, "unread": 0,
        });
        std::fs::write(&state, json.to_string()).unwrap();
    };
    run(async {
        let load = Load::new(&log);
        for _ in 0..5 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let args = ["--state", state.to_str().unwrap()];

    left(1, &note);
    // Tiles before the position in the state are not checked again.
    let tile = log.data().join("tile/data/000");
    let good = std::fs::read(&tile).unwrap();
    std::fs::write(&tile, "rotten").unwrap();
    let (code, lines) = checked(log.path(), &args);
    assert_eq!(code, 0, "{lines:?}");
    assert_has(
        &serde_json::to_string(&lines).unwrap(),
        "more entries than the tree",
    );
    assert!(!state.exists(), "it came to its end");
    std::fs::write(&tile, good).unwrap();

    left(0, &note.replacen(&log.origin(), "log.example/other", 1));
    let (code, text) = lucarne(log.path(), &["fsck", args[0], args[1]]);
    assert_eq!(code, 2, "{text}");
    // A log older than the state was rolled back.
    let now = std::fs::read_to_string(log.data().join("checkpoint")).unwrap();
    left(0, &now);
    std::fs::write(log.data().join("checkpoint"), &note).unwrap();
    let (code, text) = lucarne(log.path(), &["fsck", args[0], args[1]]);
    assert_eq!(code, 2, "{text}");
    assert_has(&text, "evidence of a fork or a rollback");
    // Without the state, the lock proves that entries are missing.
    let (code, lines) = said(log.launch("fsck"));
    assert_eq!(code, 0, "its tiles are there: {lines:?}");
    let notes = serde_json::to_string(&lines).unwrap();
    assert_has(&notes, "not published yet: the checkpoint of 305 entries");
    std::fs::remove_file(log.data().join("tile/data/001.p/49")).unwrap();
    let (code, lines) = said(log.launch("fsck"));
    assert_eq!(code, 1, "{lines:?}");
    let problem = lines.iter().find(|line| line["problem"] == "lock");
    let detail = problem.unwrap()["detail"].as_str().unwrap();
    assert_has(detail, "neither journal nor storage");
    // A message has each of its causes once.
    let extended = note.replacen("\n\n", "\nextension\n\n", 1);
    std::fs::write(log.data().join("checkpoint"), extended).unwrap();
    let (code, text) = lucarne(log.path(), &["fsck"]);
    assert_eq!(code, 2, "{text}");
    assert_has(&text, "cannot verify the checkpoint in ");
    assert_eq!(text.matches("has extension lines").count(), 1, "{text}");
}

/// Checks a log in a bucket.
#[test]
fn a_log_in_a_bucket() {
    let log = log_at(run(Place::s3_alone()).unwrap(), "period: 100");
    let mut server = grown(&log);
    let (code, lines) = said(log.launch("fsck"));
    assert_eq!(code, 0, "{lines:?}");
    assert_eq!(last(&lines)["verdict"], "right");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
