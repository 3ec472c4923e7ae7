//! Locks and directories that do not match: rolled back, cloned, swapped, deleted. The log refuses
//! to sign and reports the reason; other logs continue.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::load::is_retry_later;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, edit, eventually, lucarne, pki, run, submission};
use lucarne_testkit::{
    Audit, Bucket, Client, DatabaseKind, DatabaseServer, Launch, Place, Server, free_port,
};

fn site() -> Site {
    Site::create([("ill", String::new()), ("well", String::new())])
}

/// Runs the server once, while log `ill` accepts `entries` new submissions.
fn grow(site: &Site, entries: usize) {
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), entries).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

async fn take(client: &Client, entries: usize) {
    for _ in 0..entries {
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
    }
}

/// Checks that log `ill` is refused with all of these words, in `/health` and in the log lines, and
/// signs nothing, while log `well` continues.
async fn refused(site: &Site, server: &mut Server, words: &[&str]) {
    let before = site.signed("ill");
    let reason = site.reaches("ill", "stopped").await;
    println!("{reason}");
    words.iter().for_each(|words| assert_has(&reason, words));
    server.wait_for_output(words[0], EVENT_TIMEOUT).unwrap();
    let client = site.client_of("ill");
    let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
    assert!(is_retry_later(&answer.await.unwrap()));
    site.ready("well").await;
    take(&site.client_of("well"), 1).await;
    assert_eq!(site.signed("ill"), before);
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_lock_that_was_rolled_back() {
    let site = site();
    grow(&site, 3);
    let old = site.signed("ill").unwrap();
    grow(&site, 3);
    let newest = site.signed("ill").unwrap();
    site.sign("ill", &old);
    let mut server = site.start();
    run(async {
        let words = [
            "The lock was rolled back",
            "publishes a checkpoint of 6 entries",
            "the lock has only 3 entries",
            "Restore the newest lock database",
            "it would sign a fork",
        ];
        refused(&site, &mut server, &words).await;
        site.sign("ill", &newest);
        site.ready("ill").await;
        take(&site.client_of("ill"), 1).await;
        let audit = site.audit("ill", &pki().roots_pem());
        let report = audit.run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size, 7);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_lock_database_of_other_logs() {
    let site = site();
    grow(&site, 3);
    let newest = site.signed("ill").unwrap();
    site.forget("ill");
    let mut server = site.start();
    run(async {
        let id = site.key("ill").log_id().to_string();
        let words = [
            &format!("has no log with ID {id} (ill)"),
            "Check the key and the lock in the configuration",
        ];
        refused(&site, &mut server, &words).await;
        site.sign("ill", &newest);
        site.ready("ill").await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_directory_of_another_log() {
    let site = site();
    grow(&site, 3);
    let own = site.path().join("own");
    fs::rename(site.data("ill"), &own).unwrap();
    copy(&site.data("well"), &site.data("ill"));
    let mut server = site.start();
    run(async {
        let words = [
            "Either the directory or the key belongs to another log",
            "/checkpoint is not a checkpoint of",
        ];
        refused(&site, &mut server, &words).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    fs::remove_dir_all(site.data("ill")).unwrap();
    fs::rename(&own, site.data("ill")).unwrap();
    grow(&site, 1);
}

#[test]
fn a_directory_that_was_rolled_back() {
    let site = site();
    grow(&site, 3);
    let (old, newest) = (site.path().join("old"), site.path().join("newest"));
    copy(&site.data("ill"), &old);
    grow(&site, 3);
    fs::rename(site.data("ill"), &newest).unwrap();
    fs::rename(&old, site.data("ill")).unwrap();
    let mut server = site.start();
    run(async {
        let words = [
            "has signed 6 entries, and neither journal nor storage",
            "the lock has signed 6 entries, and neither journal nor storage lead there",
            "Storage was rolled back, emptied, damaged, or belongs to another log",
            "Restore the newest storage",
        ];
        refused(&site, &mut server, &words).await;
        // The published checkpoint covers only entries that the old copy has.
        let audit = site.audit("ill", &pki().roots_pem());
        assert_eq!(audit.run().await.unwrap().size, 3);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    fs::remove_dir_all(site.data("ill")).unwrap();
    fs::rename(&newest, site.data("ill")).unwrap();
    grow(&site, 1);
}

/// A copy of the machine is started while the first runs, both with the same lock. The process that
/// signs the next entry continues, the other stops for good.
#[test]
fn a_clone_with_the_same_lock_never_forks_the_log() {
    let site = site();
    grow(&site, 3);
    let port = free_port();
    let clone = site.path().join("clone");
    for log in ["ill", "well"] {
        let to = clone.join(log);
        fs::create_dir_all(&clone).unwrap();
        copy(&site.data(log), &to);
    }
    let text = fs::read_to_string(site.configuration()).unwrap();
    fs::write(clone.join("lucarne.yaml"), text).unwrap();
    let configuration = clone.join("lucarne.yaml");
    let listen = format!("listen: {}", site.address());
    edit(
        &configuration,
        &listen,
        &format!("listen: 127.0.0.1:{port}"),
    );
    for file in ["lock.sqlite", "roots.pem", "ill.seed", "well.seed"] {
        edit(&configuration, file, &format!("../{file}"));
    }
    let mut servers = [
        site.start(),
        Launch::new(crate::common::LUCARNE)
            .arg("serve")
            .directory(&clone)
            .start(([127, 0, 0, 1], port).into())
            .unwrap(),
    ];
    let audits = [site.address().port(), port].map(|port| {
        let url = format!("http://127.0.0.1:{port}/ill");
        let origin = format!("{}/ill", site.address());
        let key = site.key("ill");
        let roots = pki().roots_pem();
        Audit::new(&url, &origin, key.public_key_spki(), roots.as_bytes()).unwrap()
    });
    let another = "Another process signs for this log";
    run(async {
        // Both processes start before either has a larger tree. The lock rejects the second
        // signature.
        for server in &servers {
            eventually("it has signed, or was overtaken", async || {
                let said = server.output();
                said.contains("log open log=\"ill\"") || said.contains(another)
            })
            .await;
        }
        let clients = [site.address().port(), port]
            .map(|port| Client::new(format!("http://127.0.0.1:{port}/ill")));
        // Both processes get submissions, until one process has accepted ten.
        let mut taken = [0, 0];
        let mut promises = Vec::new();
        eventually("one of them goes on", async || {
            for (n, client) in clients.iter().enumerate() {
                let body = submission(&pki().p256);
                let answer = client.post("ct/v1/add-chain", body.clone()).await.unwrap();
                if answer.status == 200 {
                    taken[n] += 1;
                    promises.push((body, answer.body));
                } else {
                    assert!(is_retry_later(&answer), "{}", answer.text());
                }
            }
            taken.iter().any(|taken| *taken >= 10)
        })
        .await;
        println!("{taken:?}");
        assert!(taken.contains(&0), "both gave SCTs: {taken:?}");
        let winner = usize::from(taken[0] == 0);
        for (body, sct) in &promises {
            let kind = lucarne_ct::EntryKind::X509;
            audits[winner].promised(kind, body.as_bytes(), sct);
        }
        // The last published tree of the loser is a prefix of the winner's log.
        let last = clients[1 - winner].get("checkpoint").await.unwrap();
        audits[winner].saw_checkpoint(&last.ok().unwrap()).unwrap();
        let report = audits[winner].run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size as usize, 3 + promises.len());
        // The loser is still refused after the winner has ended.
        let loser = &mut servers[1 - winner];
        loser.wait_for_output(another, EVENT_TIMEOUT).unwrap();
        assert!(servers[winner].stop(EVENT_TIMEOUT).unwrap().success());
        servers[1 - winner]
            .wait_for_output("neither journal nor storage", EVENT_TIMEOUT)
            .unwrap();
    });
}

/// The lock's file is removed while the log runs. The process still has it open, commits nothing
/// more to it, and reports that. docs/reference/errors.md describes the rescue.
#[test]
fn a_lock_database_deleted_while_in_use() {
    let site = site();
    grow(&site, 3);
    let mut server = site.start();
    let load = site.load("ill");
    run(async {
        site.ready("ill").await;
        for file in ["lock.sqlite", "lock.sqlite-wal", "lock.sqlite-shm"] {
            fs::remove_file(site.path().join(file)).unwrap();
        }
        eventually("the health says so", async || {
            let health = site.health("ill").await;
            health["healthy"] == false
        })
        .await;
        let health = site.health("ill").await.to_string();
        assert_has(&health, "was removed or replaced while in use");
        assert_has(&health, "save the checkpoints before you stop it");
        for _ in 0..5 {
            assert_eq!(load.submit(&load.fresh()).await, Some(false));
        }
    });
    rescue(&server, &site);
    server.kill().unwrap();
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        let report = load.audit.run().await.unwrap();
        print!("{report}");
        report.assert_clean();
        assert_eq!(report.size, 3, "{report}");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// The server does not start without the lost lock database, and no log is created.
#[test]
fn a_lock_database_that_is_gone() {
    let site = site();
    grow(&site, 3);
    fs::remove_file(site.lock()).unwrap();
    let (code, said) = lucarne(site.path(), &["serve"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "lock.sqlite: does not exist");
    let (code, said) = lucarne(site.path(), &["init"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "would fork it");
}

/// Lock and data are emptied together, as one bucket is, but the cache still has the log.
#[test]
fn a_log_whose_lock_and_data_are_gone() {
    let site = site();
    grow(&site, 3);
    fs::remove_file(site.lock()).unwrap();
    for log in ["ill", "well"] {
        fs::remove_dir_all(site.data(log)).unwrap();
    }
    let (code, said) = site.lucarne(&["init"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "log `ill`");
    assert_has(&said, "has seen 3 entries of the log");
    assert_has(&said, "would fork the existing log");
    assert!(!site.lock().exists());
    // The lock exists and is empty.
    let database = rusqlite::Connection::open(site.lock()).unwrap();
    let schema = "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body TEXT)";
    database.execute(schema, ()).unwrap();
    drop(database);
    for command in ["serve", "check"] {
        let (code, said) = site.lucarne(&[command]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "this log exists: the dedup index in");
        assert!(!said.contains("lucarne init"), "{said}");
    }
}

/// Copies the deleted database and its write-ahead log from the process.
fn rescue(server: &Server, site: &Site) {
    let mut rescued = 0;
    for entry in fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap() {
        let open = entry.unwrap().path();
        let target = fs::read_link(&open).unwrap_or_default();
        let target = target.to_string_lossy();
        for file in ["lock.sqlite", "lock.sqlite-wal"] {
            if target.ends_with(&format!("/{file} (deleted)")) {
                fs::copy(&open, site.path().join(file)).unwrap();
                rescued += 1;
            }
        }
    }
    assert!(rescued >= 2, "{rescued} files");
}

/// The data of a log are missing: `check` refuses with the same message as `serve`, for all kinds
/// of data and locks.
#[test]
fn check_says_what_serve_says_on_every_store() {
    let postgres = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
    for place in [
        Place::directory().with_lock(&postgres).unwrap(),
        run(Place::s3_and_mariadb()).unwrap(),
        run(Place::s3_alone()).unwrap(),
        run(Place::gcs()).unwrap(),
        run(Place::azure()).unwrap(),
    ] {
        let at = format!("{place:?}");
        let site = Site::create_at(place, [("ill", String::new())]);
        grow(&site, 3);
        assert_eq!(site.lucarne(&["check"]).0, 0, "{at}");
        fs::create_dir(site.path().join("elsewhere")).unwrap();
        let yaml = fs::read_to_string(site.configuration()).unwrap();
        let data = if yaml.contains("localdirectory: ill") {
            ("localdirectory: ill", "localdirectory: elsewhere")
        } else {
            ("ill/\n", "elsewhere/\n")
        };
        edit(&site.configuration(), data.0, data.1);
        let (code, said) = site.lucarne(&["check"]);
        assert_eq!(code, 3, "{at}: {said}");
        let said = said.replace(&format!("{}/", site.path().display()), "");
        let mut server = site.start();
        let reason = run(site.reaches("ill", "stopped"));
        assert_has(&reason, "has signed 3 entries");
        assert_has(&said, "has signed 3 entries");
        server.stop(EVENT_TIMEOUT).unwrap();
    }
}

/// The recipe of docs/how-to/disaster-recovery.md for locks on servers: the row, the table or the
/// object is missing.
#[test]
fn a_lost_lock_is_made_anew_wherever_it_was() {
    for kind in [DatabaseKind::Postgres, DatabaseKind::MariaDb] {
        let database = DatabaseServer::shared(kind).unwrap();
        let place = Place::directory().with_lock(&database).unwrap();
        let name = place.checkpoints.rsplit_once('/').unwrap().1.to_owned();
        let sql = |statement| drop(database.admin(&name, statement).unwrap());
        let row = |_: &Site| sql("DELETE FROM checkpoints");
        let table = |_: &Site| sql("DROP TABLE checkpoints");
        is_rebuilt(place, &[&row, &table]);
    }
    let bucket = run(Bucket::versitygw()).unwrap();
    let object = |site: &Site| {
        let id = site.key("ill").log_id().0;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        run(bucket.delete(&format!("lock/{id}"))).unwrap();
    };
    is_rebuilt(Place::bucket(&bucket, None), &[&object]);
}

/// Checks that nothing starts after a loss before the lock is rebuilt, and that the log then
/// continues from its last entry.
fn is_rebuilt(place: Place, losses: &[&dyn Fn(&Site)]) {
    let at = format!("{place:?}, {}", place.checkpoints);
    let site = Site::create_at(place, [("ill", String::new())]);
    let rebuild = ["lock", "rebuild", "-c", "lucarne.yaml"];
    let mut entries = 0;
    for lose in losses {
        grow(&site, 3);
        entries += 3;
        let (code, said) = site.lucarne(&rebuild);
        assert_eq!(code, 1, "{at}: {said}");
        assert_has(&said, "replace it with --replace-older");
        lose(&site);
        for command in ["check", "serve"] {
            let (code, said) = site.lucarne(&[command]);
            assert_eq!(code, 1, "{at}: {said}");
        }
        let (code, said) = site.lucarne(&rebuild);
        assert_eq!(code, 0, "{at}: {said}");
        assert_has(&said, &format!("is now at {entries} entries"));
        let (code, said) = site.lucarne(&["check"]);
        assert_eq!(code, 0, "{at}: {said}");
    }
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), 1).await;
        let report = site.audit("ill", &pki().roots_pem()).run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size, entries + 1, "{at}");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
