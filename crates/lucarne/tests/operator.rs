//! `lucarne check` and `lucarne init`, and when logs are created.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{LUCARNE, PATIENCE, assert_has, edit, log, lucarne, pki, ready, run};
use jiff::Timestamp;
use lucarne_testkit::LogUnderTest;

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
    assert_has(&said, "made lock lock.sqlite");
    assert_has(&said, "made log test");
    let checkpoint = fs::read(log.data().join("checkpoint")).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "kept lock lock.sqlite");
    assert_has(&said, "kept log test");
    assert_eq!(fs::read(log.data().join("checkpoint")).unwrap(), checkpoint);
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "no problems");
    assert_has(&said, "1 roots");
    assert_has(&said, "is on the same file system");
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
    assert_eq!(code, 1);
    assert_has(&said, "was the prefix changed?");
    assert_has(&said, "mount it or restore it");
}

#[test]
fn no_configuration_no_start() {
    let directory = lucarne_testkit::temp_dir();
    for command in ["serve", "check", "init"] {
        let (code, said) = lucarne(directory.path(), &[command]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "lucarne.yaml: cannot be read: No such file");
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
        // With a lock database, the log still does not come into being.
        run(sunlight_database(&log));
        let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
        assert_eq!(code, 1);
        assert_has(&said, "A mistyped path or key must not fork a log");
        assert!(!log.data().join("checkpoint").exists());
    }
}

/// A lock database as Sunlight's documentation has its operators make it.
async fn sunlight_database(log: &LogUnderTest) {
    use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
    let options = SqliteConnectOptions::new()
        .filename(log.path().join("lock.sqlite"))
        .create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let schema = "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body TEXT)";
    sqlx::query(schema).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[test]
fn a_lock_database_of_sunlight_is_accepted_and_inception_creates() {
    let log = prepared(&format!("inception: {}", today()));
    run(sunlight_database(&log));
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "`serve` will create it");
    for _ in 0..2 {
        let mut server = log.start().unwrap();
        run(ready(&log));
        assert_eq!(server.stop(PATIENCE).unwrap().code(), Some(0));
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
}

/// What docs/operations.md tells an operator whose lock is gone.
#[test]
fn a_lost_lock_is_made_from_the_published_checkpoint() {
    use sqlx::Connection;
    let log = log(WINDOW);
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert!(server.stop(PATIENCE).unwrap().success());
    for entry in fs::read_dir(log.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("lock.sqlite") {
            fs::remove_file(path).unwrap();
        }
    }
    run(async {
        sunlight_database(&log).await;
        let file = log.path().join("lock.sqlite");
        let url = format!("sqlite:{}", file.display());
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let seed = fs::read(log.path().join("seed.bin")).unwrap();
        let key = lucarne_ct::LogKey::from_seed(&seed).unwrap();
        sqlx::query("INSERT INTO checkpoints VALUES (?, ?)")
            .bind(key.log_id().0.to_vec())
            .bind(fs::read(log.data().join("checkpoint")).unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    });
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert!(server.stop(PATIENCE).unwrap().success());
}

#[test]
fn ccadb_roots_are_kept_for_starts_without_network() {
    let log = log("");
    let pem = pki().root.certificate_pem();
    let csv = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{pem}'\",Included\n");
    let report = log.path().join("report.csv");
    fs::write(&report, csv).unwrap();
    let roots = format!("roots: {}/roots.pem", log.path().display());
    edit(
        &log.configuration(),
        &roots,
        "ccadbroots: trusted\n    rootsurl: report.csv",
    );
    let serve = || {
        let mut server = log.start().unwrap();
        run(async {
            ready(&log).await;
            let roots = log
                .client()
                .get("ct/v1/get-roots")
                .await
                .unwrap()
                .json()
                .unwrap();
            assert_eq!(roots["certificates"].as_array().unwrap().len(), 1);
        });
        assert!(server.stop(PATIENCE).unwrap().success());
        server.output()
    };
    serve();
    fs::remove_file(&report).unwrap();
    assert_has(&serve(), "the 1 roots of");
    fs::remove_dir_all(log.path().join("cache")).unwrap();
    let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "cannot get CCADB's roots");
}
