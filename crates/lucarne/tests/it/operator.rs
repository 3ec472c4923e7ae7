//! `lucarne check` and `lucarne init`, and the creation of logs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, edit, log, lucarne, pki, ready, run};
use jiff::Timestamp;
use lucarne_testkit::{Launch, LogUnderTest};

const WINDOW: &str = "notafterstart: 2026-01-01\nnotafterlimit: 2126-01-01";

fn prepared(settings: &str) -> LogUnderTest {
    LogUnderTest::prepare(LUCARNE, &pki().root.certificate_pem(), settings).unwrap()
}

fn today() -> String {
    Timestamp::now().strftime("%F").to_string()
}

#[test]
fn check_passes_once_init_has_run_and_init_does_nothing_twice() {
    let log = prepared(WINDOW);
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "lock.sqlite: does not exist");
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "created lock lock.sqlite");
    assert_has(&said, "created log test");
    let checkpoint = fs::read(log.data().join("checkpoint")).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "kept lock lock.sqlite");
    assert_has(&said, "kept log test");
    assert_eq!(fs::read(log.data().join("checkpoint")).unwrap(), checkpoint);
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "no problems");
    assert_has(&said, "1 root,");
    assert_has(&said, "is on the same file system");
    // With another directory, the log is not kept.
    let right = fs::read_to_string(log.configuration()).unwrap();
    let line = right.lines().find(|line| line.contains("localdirectory:"));
    let wrong = right.replace(line.unwrap(), "    localdirectory: elsewhere");
    fs::write(log.configuration(), wrong).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{said}");
    assert_has(
        &said,
        "has signed 0 entries, but elsewhere does not have this log",
    );
    assert_has(&said, "correct `logs[test].localdirectory`");
    assert!(!said.contains("kept log") && !log.path().join("elsewhere").exists());
}

#[test]
fn check_warns_of_what_will_bite() {
    let log = log(
        "notafterstart: 2020-01-01\nnotafterlimit: 2020-07-01\nperiod: 5000\npoolsize: 100\ncheckpointinterval: 50000",
    );
    let roots = log.path().join("roots.pem");
    let text = fs::read_to_string(&roots).unwrap();
    let broken = text
        .replace("MII", "!!!")
        .replace("MIG", "!!!")
        .replace("MIH", "!!!");
    fs::write(&roots, text + "some words\n" + &broken).unwrap();
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(
        &said,
        "the window ended on 2020-07-01T00:00:00Z: the log is read-only",
    );
    assert_has(&said, "period: 5000 ms");
    assert_has(&said, "at most 20 entries/s");
    assert_has(
        &said,
        "checkpointinterval: an idle log's checkpoint gets older",
    );
    assert_has(&said, "roots: ");
    assert_has(&said, "certificate 2 (line ");
    edit(
        &log.configuration(),
        "    notafterstart: 2020-01-01\n    notafterlimit: 2020-07-01\n",
        "",
    );
    let said = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]).1;
    assert_has(&said, "there is no notAfter window");
}

#[test]
fn check_finds_the_log_of_another_prefix_and_a_lost_directory() {
    let log = log(WINDOW);
    fs::rename(log.data(), log.path().join("elsewhere")).unwrap();
    edit(&log.configuration(), "/test\n", "/other\n");
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 3);
    assert_has(&said, "check whether the prefix was changed");
    assert_has(&said, "mount or restore the directory");
}

#[test]
fn no_configuration_no_start() {
    let directory = lucarne_testkit::temp_dir();
    for command in ["serve", "check", "init"] {
        let (code, said) = lucarne(directory.path(), &[command]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "lucarne.yaml: cannot be read: No such file");
        assert_has(&said, "docs/getting-started.md and run `lucarne init`");
    }
    assert_eq!(lucarne(directory.path(), &["serve", "--no-such-flag"]).0, 2);
}

#[test]
fn serve_refuses_a_log_that_does_not_exist() {
    for inception in ["", "inception: 2020-01-01", "inception: 2120-01-01"] {
        let log = prepared(inception);
        let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
        assert_eq!(code, 1);
        assert_has(&said, "lock.sqlite: does not exist");
        // Even with a lock database, the log is not created.
        sunlight_database(&log);
        let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
        assert_eq!(code, 1);
        assert_has(&said, "A mistyped path or key must not fork a log");
        assert!(!log.data().join("checkpoint").exists());
    }
}

/// Creates a lock database as described in Sunlight's documentation.
fn sunlight_database(log: &LogUnderTest) {
    let database = rusqlite::Connection::open(log.path().join("lock.sqlite")).unwrap();
    let schema = "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body TEXT)";
    database.execute(schema, ()).unwrap();
}

#[test]
fn a_lock_database_of_sunlight_is_accepted_and_inception_creates() {
    let log = prepared(&format!("inception: {}", today()));
    sunlight_database(&log);
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "`serve` will create it");
    for _ in 0..2 {
        let mut server = log.start().unwrap();
        run(ready(&log));
        assert_eq!(server.stop(EVENT_TIMEOUT).unwrap().code(), Some(0));
    }
}

#[test]
fn a_lost_lock_never_makes_a_log_anew() {
    let log = log("");
    fs::remove_file(log.path().join("lock.sqlite")).unwrap();
    let before = fs::read(log.data().join("checkpoint")).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "would fork it");
    assert_eq!(fs::read(log.data().join("checkpoint")).unwrap(), before);
    // The refused command leaves no file.
    assert!(!log.path().join("lock.sqlite").exists());
}

/// The index belongs to the key of the log. With another key, the message names both.
#[test]
fn the_wrong_secret_is_not_reported_as_the_wrong_cache() {
    let log = log(WINDOW);
    grow(&log, 1, stop);
    let (code, said) = lucarne(log.path(), &["keygen", "-f", "other.bin"]);
    assert_eq!(code, 0, "{said}");
    edit(&log.configuration(), "seed.bin", "other.bin");
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "and the key of this log (`secret`) has ID ");
    assert_has(
        &said,
        "configure the right key, or give this log its own `cache`",
    );
}

#[test]
fn nothing_private_is_put_among_public_files() {
    let log = log(WINDOW);
    let (file, data) = (log.configuration(), log.data());
    let text = fs::read_to_string(&file).unwrap();
    let checkpoints = text.replace("lock.sqlite", &format!("{}/lock.sqlite", data.display()));
    let cache = format!("cache: {}/cache\n", data.display());
    let cache: String = text
        .lines()
        .map(|line| {
            if line.trim_start().starts_with("cache:") {
                format!("    {cache}")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    fs::copy(log.path().join("seed.bin"), data.join("seed.bin")).unwrap();
    let seed = log.path().join("seed.bin").display().to_string();
    assert_has(&text, &seed);
    let secret = text.replace(&seed, &data.join("seed.bin").display().to_string());
    for (text, key) in [
        (checkpoints, "checkpoints: "),
        (cache, "logs[test].cache: "),
        (secret, "logs[test].secret: "),
    ] {
        fs::write(&file, text).unwrap();
        for command in ["check", "init", "serve"] {
            let (code, said) = lucarne(log.path(), &[command, "-c", "lucarne.yaml"]);
            assert_eq!(code, 1, "{said}");
            assert_has(&said, &format!("{key}is in the public files of log `test`"));
        }
    }
}

/// Public files are readable, and private ones are not, with any umask.
#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["000", "077"] {
        let log = prepared("cache: data/.lucarne/cache");
        let text = fs::read_to_string(log.configuration()).unwrap();
        let lines = text.lines().filter(|line| {
            !line.trim_start().starts_with("cache:") || line.contains(".lucarne/cache")
        });
        let text: Vec<_> = lines.collect();
        fs::write(log.configuration(), text.join("\n")).unwrap();
        let launch = |command: &str| {
            let script = format!("umask {umask}; exec \"$0\" {command} -c lucarne.yaml");
            Launch::new("/bin/sh")
                .args(["-c", &script, LUCARNE])
                .directory(log.path())
        };
        let made = launch("init").run().unwrap();
        assert!(made.status.success(), "{made:?}");
        let mut server = launch("serve").start(log.address()).unwrap();
        run(async {
            ready(&log).await;
            let client = lucarne_testkit::Client::new(log.url());
            let response = client.post("ct/v1/add-chain", crate::common::submission(&pki().p256));
            assert_eq!(response.await.unwrap().status, 200);
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let mut private = 0;
        for (path, _) in everything(&log.data()) {
            let ours = path.starts_with(log.data().join(".lucarne"));
            let expected = match (ours, path.is_dir()) {
                (true, true) => 0o700,
                (true, false) => 0o600,
                (false, true) => 0o755,
                (false, false) => 0o644,
            };
            assert_eq!(mode(&path), expected, "{} with {umask}", path.display());
            private += usize::from(ours);
        }
        assert!(private > 5, "{private}");
        assert_eq!(mode(&log.data()), 0o755);
    }
}

/// Removes the files of the lock database.
fn lose_the_lock(directory: &std::path::Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("lock.sqlite") {
            fs::remove_file(path).unwrap();
        }
    }
}

/// Runs the server once, while the log accepts `entries` new submissions; `end` ends the server.
fn grow(log: &LogUnderTest, entries: usize, end: impl FnOnce(&mut lucarne_testkit::Server)) {
    let mut server = log.start().unwrap();
    run(async {
        ready(log).await;
        let client = lucarne_testkit::Client::new(log.url());
        for _ in 0..entries {
            let answer = client.post("ct/v1/add-chain", crate::common::submission(&pki().p256));
            assert_eq!(answer.await.unwrap().status, 200);
        }
    });
    end(&mut server);
}

fn stop(server: &mut lucarne_testkit::Server) {
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// The recipe of docs/how-to/disaster-recovery.md for a lost lock.
#[test]
fn a_lost_lock_is_made_from_the_published_checkpoint() {
    let log = log(WINDOW);
    grow(&log, 3, stop);
    let rebuild = ["lock", "rebuild", "-c", "lucarne.yaml", "test"];
    let (code, said) = lucarne(log.path(), &rebuild);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "replace it with --replace-older");

    lose_the_lock(log.path());
    let (code, said) = lucarne(log.path(), &rebuild);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "is now at 3 entries");
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    grow(&log, 1, stop);
    let checkpoint = fs::read_to_string(log.data().join("checkpoint")).unwrap();
    assert_eq!(checkpoint.lines().nth(1), Some("4"));
}

/// A power cut may remove the published files of a round that was signed and seen. The journal
/// still has the round, so the rebuilt lock has it as well.
#[test]
fn a_lost_lock_is_as_new_as_the_journal() {
    let log = log(WINDOW);
    grow(&log, 2, stop);
    let old = fs::read(log.data().join("checkpoint")).unwrap();
    grow(&log, 2, |server| assert!(!server.kill().unwrap().success()));
    fs::write(log.data().join("checkpoint"), old).unwrap();
    for tile in ["tile/0/000.p/4", "tile/data/000.p/4"] {
        fs::remove_file(log.data().join(tile)).unwrap();
    }
    lose_the_lock(log.path());
    let (code, said) = lucarne(log.path(), &["lock", "rebuild", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "is now at 4 entries");
    grow(&log, 1, stop);
    let checkpoint = fs::read_to_string(log.data().join("checkpoint")).unwrap();
    assert_eq!(checkpoint.lines().nth(1), Some("5"));
}

/// Data from a backup are not sufficient for a lock: existing tiles or the index prove that there
/// was a larger tree.
#[test]
fn no_lock_is_made_from_less_than_there_was() {
    let log = log(WINDOW);
    grow(&log, 2, stop);
    let old = fs::read(log.data().join("checkpoint")).unwrap();
    grow(&log, 2, stop);
    fs::remove_dir_all(log.data().join(".lucarne/journal")).unwrap();
    fs::write(log.data().join("checkpoint"), old).unwrap();
    lose_the_lock(log.path());
    let rebuild = ["lock", "rebuild", "-c", "lucarne.yaml"];
    let (code, said) = lucarne(log.path(), &rebuild);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "has tile/0/000.p/4, beyond the 2 entries");
    assert!(!log.path().join("lock.sqlite").exists());
    // The same if the tiles were restored as well, but not the index.
    for tile in ["tile/0/000.p", "tile/data/000.p"] {
        for width in ["3", "4"] {
            fs::remove_file(log.data().join(tile).join(width)).unwrap();
        }
    }
    let (code, said) = lucarne(log.path(), &rebuild);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "has seen 4 entries of this log");
    assert!(!log.path().join("lock.sqlite").exists());
}

/// Replaces the checkpoint in the lock.
fn sign(log: &LogUnderTest, body: &[u8]) {
    let database = rusqlite::Connection::open(log.path().join("lock.sqlite")).unwrap();
    let update = "UPDATE checkpoints SET body = ?";
    database.execute(update, [body]).unwrap();
}

/// Returns every file below a directory with its content.
fn everything(directory: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(everything(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// `check` reports the same problems as `serve`, and writes nothing.
#[test]
fn check_compares_what_serve_compares() {
    let log = log(WINDOW);
    grow(&log, 2, stop);
    let checkpoint = log.data().join("checkpoint");
    let old = fs::read(&checkpoint).unwrap();
    grow(&log, 2, |server| {
        let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
        assert_eq!(code, 0, "{said}");
        assert_has(&said, "is in use by process");
        stop(server);
    });
    let newest = fs::read(&checkpoint).unwrap();
    let check = || {
        let before = everything(&log.data());
        let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
        assert_eq!(everything(&log.data()), before);
        (code, said)
    };
    assert_eq!(check().0, 0);

    // The lock is older.
    sign(&log, &old);
    let (code, said) = check();
    assert_eq!(code, 3, "{said}");
    assert_has(&said, "The lock was rolled back");
    sign(&log, &newest);

    // The right edge differs from the signed one.
    let tile = log.data().join("tile/data/000.p/4");
    let good = fs::read(&tile).unwrap();
    fs::remove_dir_all(log.data().join(".lucarne/journal")).unwrap();
    fs::write(&tile, &good[..good.len() - 1]).unwrap();
    let (code, said) = check();
    assert_eq!(code, 3, "{said}");
    assert_has(&said, "tile/data/000.p/4");
    fs::write(&tile, good).unwrap();
    assert_eq!(check().0, 0);

    // The checkpoint belongs to another log.
    let note = fs::read_to_string(&checkpoint).unwrap();
    let (_, rest) = note.split_once('\n').unwrap();
    fs::write(&checkpoint, format!("example.com/another-log\n{rest}")).unwrap();
    let (code, said) = check();
    assert_eq!(code, 3, "{said}");
    assert_has(&said, "is not a checkpoint of");
}
