//! Disks that lose a write, fail or hang, and a process that is killed while it creates a log: no
//! acknowledged entry is lost, and only one log stops.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use lucarne_testkit::{BadDisk, Server, temp_dir};

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, all, assert_has, edit, eventually, run};

/// The kernel shows pages that the disk does not have after a failed write-back, and the next sync
/// succeeds. Bytes appended after the lost page are lost with it.
#[test]
fn a_lost_write_to_the_lock_takes_no_commit_with_it() {
    for killed_at_once in [false, true] {
        let (disk, site) = (BadDisk::new(), Site::create([("small", String::new())]));
        let load = site.load("small");
        let start = || disk.under(site.launch()).start(site.address()).unwrap();
        let mut server = start();
        run(async {
            site.reaches("small", "running").await;
            for _ in 0..5 {
                assert_eq!(load.submit(&load.fresh()).await, Some(true));
            }
            disk.lose_next_write("lock.sqlite-wal");
            eventually("a commit is lost", async || {
                load.submit(&load.fresh()).await;
                disk.has_lost()
            })
            .await;
            if killed_at_once {
                server.kill().unwrap();
                server = start();
            }
            eventually("it goes on", async || {
                load.submit(&load.fresh()).await == Some(true)
            })
            .await;
            // One more 503 is possible, when the lock reads the lost page.
            for _ in 0..20 {
                eventually("an SCT", async || {
                    load.submit(&load.fresh()).await == Some(true)
                })
                .await;
            }
        });
        server.kill().unwrap();
        for file in ["lock.sqlite", "lock.sqlite-wal"] {
            disk.forget_memory(&site.path().join(file));
        }
        let mut server = site.start();
        run(async {
            site.reaches("small", "running").await;
            load.settle_accounts().await.assert_clean();
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        assert!(!site.path().join("lock.sqlite-wal").exists());
    }
}

/// Returns all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The files of the index are written when the log ends, and when it stops after any error. If
/// writing fails, the files stay as they are, and the next start rebuilds the index from the tiles.
fn a_lost_write_to_the_index_rebuilds_it(end: impl AsyncFn(&Site, &Load, &mut Server)) {
    let (disk, site) = (BadDisk::new(), Site::create([("small", String::new())]));
    let load = site.load("small");
    let start = || disk.under(site.launch()).start(site.address()).unwrap();
    let mut server = start();
    run(async {
        site.reaches("small", "running").await;
        for _ in 0..5 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
        disk.watch("small-cache");
        disk.lose_next_write("/tables/");
        end(&site, &load, &mut server).await;
        assert!(disk.has_lost());
        if server.try_wait().unwrap().is_some() {
            let index = files(&site.path().join("small-cache/index"));
            index.iter().for_each(|file| disk.forget_memory(file));
            server = start();
        }
        site.reaches("small", "running").await;
        let aside = files(&site.path().join("small-cache/index.damaged-1"));
        let (said, aside): (Vec<_>, Vec<_>) =
            aside.iter().partition(|file| file.ends_with("failed"));
        assert_eq!(said.len(), 1, "the file that says so is new: {said:?}");
        let aside = aside.iter().map(|file| file.metadata().unwrap().ino());
        let aside: HashSet<u64> = aside.collect();
        let written = disk.written_after_failure().unwrap();
        let again: Vec<_> = written.iter().filter(|it| aside.contains(it)).collect();
        assert!(again.is_empty(), "{again:?}");
        // Submit all again: the timestamps are the same, and no entry is logged twice.
        for _ in 0..5 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
        load.settle_accounts().await.assert_clean();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_lost_write_to_the_index_of_a_log_that_ends() {
    a_lost_write_to_the_index_rebuilds_it(async |_, _, server| {
        server.stop(EVENT_TIMEOUT).unwrap();
    });
}

#[test]
fn a_lost_write_to_the_index_of_a_log_that_stops() {
    a_lost_write_to_the_index_rebuilds_it(async |site, load, _| {
        let (data, away) = (site.data("small"), site.path().join("away"));
        fs::rename(&data, &away).unwrap();
        eventually("the log has stopped", async || {
            load.submit(&load.fresh()).await;
            site.health("small").await["state"] == "stopped"
        })
        .await;
        fs::rename(&away, &data).unwrap();
    });
}

/// Creates two logs on a disk that can hang, with an index of `small` that must be read.
fn may_hang() -> (BadDisk, Site) {
    let none = String::new;
    let site = Site::prepare(temp_dir(), [("small", none()), ("large", none())]);
    edit(
        &site.configuration(),
        "logs:",
        "http: {draintimeout: 2s}\nlogs:",
    );
    let site = site.init();
    let mut server = site.start();
    run(async {
        for log in ["small", "large"] {
            site.reaches(log, "running").await;
            let load = site.load(log);
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    (BadDisk::new(), site)
}

fn threads(server: &Server) -> usize {
    let tasks = format!("/proc/{}/task", server.pid());
    fs::read_dir(tasks).unwrap().count()
}

/// While the disk below `hung` of log `small` hangs, the other log is not affected, requests do not
/// pile up, and the process ends in time.
fn a_hung_disk_is_one_logs_own(hung: &str) {
    let (disk, site) = may_hang();
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        site.reaches("large", "running").await;
        let (small, large) = (Arc::new(site.load("small")), site.load("large"));
        disk.hang(hung);
        // Enough submissions to fill the queues that logs share.
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let small = small.clone();
                tokio::spawn(async move { small.submit(&small.fresh()).await })
            })
            .collect();
        let before = threads(&server);
        for _ in 0..10 {
            assert_eq!(large.submit(&large.fresh()).await, Some(true));
            let asking = (0..20).map(|_| site.client_of("small"));
            for client in asking.collect::<Vec<_>>() {
                assert_eq!(client.get("checkpoint").await.unwrap().status, 200);
            }
            site.health("large").await;
        }
        let now = threads(&server);
        assert!(now < before + 32, "{before} threads, then {now}");
        waiting.into_iter().for_each(|task| task.abort());
    });
    let status = server.stop(EVENT_TIMEOUT).unwrap();
    assert_eq!(status.code(), Some(1), "{}", server.output());
    disk.wake();
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        let load = site.load("small");
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_hung_disk_of_a_cache_is_one_logs_own() {
    a_hung_disk_is_one_logs_own("small-cache");
}

#[test]
fn a_hung_disk_of_a_journal_is_one_logs_own() {
    a_hung_disk_is_one_logs_own("small/.lucarne/journal");
}

/// Many monitoring systems request `/health` every second until an operator repairs the disk: each
/// check that hangs runs only once.
#[test]
fn health_can_be_asked_in_bulk_while_a_disk_hangs() {
    let (disk, site) = may_hang();
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        site.reaches("large", "running").await;
        let large = site.load("large");
        // All files of the log, but not its lock.
        disk.hang("/small");
        let before = threads(&server);
        for _ in 0..15 {
            let asked: Vec<_> = (0..40)
                .map(|_| {
                    let client = site.client();
                    tokio::spawn(async move { client.get("health").await })
                })
                .collect();
            for answer in asked {
                let health = answer.await.unwrap().unwrap().json().unwrap();
                let mut logs = health["logs"].as_array().unwrap().iter();
                let large = logs.find(|log| log["name"] == "large").unwrap();
                assert_eq!(large["healthy"], true, "{large}");
            }
            assert_eq!(large.submit(&large.fresh()).await, Some(true));
            let now = threads(&server);
            assert!(now < before + 32, "{before} threads, then {now}");
        }
        eventually("health says that the disk hangs", async || {
            let health = site.health("small").await;
            let text = health.to_string();
            health["healthy"] == false
                && (text.contains("does not answer") || text.contains("does not respond"))
        })
        .await;
    });
    server.stop(EVENT_TIMEOUT).unwrap();
}

/// All logs share the lock: reads still work, and no request waits forever.
#[test]
fn a_hung_disk_of_the_lock_is_said_and_ends_in_time() {
    let (disk, site) = may_hang();
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        disk.hang("lock.sqlite");
        site.reaches("small", "stopped").await;
        let health = site.health("small").await.to_string();
        assert_has(&health, "does not respond");
        let client = site.client_of("small");
        assert_eq!(client.get("checkpoint").await.unwrap().status, 200);
    });
    server.stop(EVENT_TIMEOUT).unwrap();
}

/// If storage cannot be synced, the journal is the only durable copy. It grows to its limit, and
/// then the log rejects submissions.
#[test]
fn a_journal_that_cannot_be_cut_is_bounded() {
    const LIMIT: u64 = 1 << 20;
    let small = ("small", "maxjournal: 1MiB".to_owned());
    let (disk, site) = (
        BadDisk::new(),
        Site::create([small, ("large", String::new())]),
    );
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    let journal = site.data("small").join(".lucarne/journal");
    let bytes = || -> u64 {
        let files = files(&journal);
        files
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum()
    };
    run(async {
        site.reaches("small", "running").await;
        let (small, large) = (site.load("small"), site.load("large"));
        assert_eq!(small.submit(&small.fresh()).await, Some(true));
        // Settling begins with the next segment.
        let newest = files(&journal).into_iter().max().unwrap();
        let newest: u64 = newest
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        disk.hang(&format!("journal/{:016}", newest + 1));
        eventually("submissions are sent away", async || {
            small.submit(&small.fresh()).await == Some(false)
        })
        .await;
        let full = bytes();
        assert!((LIMIT / 16..2 * LIMIT).contains(&full), "{full} bytes");
        for _ in 0..20 {
            assert_eq!(small.submit(&small.fresh()).await, Some(false));
            assert_eq!(large.submit(&large.fresh()).await, Some(true));
        }
        assert_eq!(bytes(), full);
        eventually("health says why", async || {
            let health = site.health("small").await;
            health["healthy"] == false && health.to_string().contains("durable")
        })
        .await;
        disk.wake();
        small.settle_accounts().await.assert_clean();
        site.ready("small").await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A read error at startup in one of the directories of `small` stops only this log.
fn an_error_at_start_is_one_logs_own(failing: &str) {
    let (disk, site) = may_hang();
    disk.fail(failing);
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        assert_has(&reason, "Input/output error");
        let small = site.load("small");
        assert_eq!(small.submit(&small.fresh()).await, Some(false));
        site.ready("large").await;
        let large = site.load("large");
        assert_eq!(large.submit(&large.fresh()).await, Some(true));
        disk.heal();
        site.reaches("small", "running").await;
        assert_eq!(small.submit(&small.fresh()).await, Some(true));
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    // `/health` is public, so only the server's log names the path.
    assert_has(&server.output(), failing);
}

#[test]
fn an_error_of_a_data_disk_at_start_is_one_logs_own() {
    an_error_at_start_is_one_logs_own("/small/");
}

#[test]
fn an_error_of_a_caches_disk_at_start_is_one_logs_own() {
    an_error_at_start_is_one_logs_own("small-cache");
}

/// Exceeding a quota is a temporary error, at any access to the lock during startup.
#[test]
fn a_quota_at_the_lock_at_start_is_waited_for() {
    let (disk, site) = may_hang();
    disk.exceed_quota("lock.sqlite");
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        assert_has(&reason, "cannot open it");
        disk.lift_quota();
        for log in ["small", "large"] {
            site.reaches(log, "running").await;
            let load = site.load(log);
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A kernel mounts a file system read-only after an error, and an operator mounts it writable
/// again. `part` is one directory of log `small`, or all of them.
fn a_disk_that_was_read_only_is_noticed_to_be_writable(part: impl Fn(&Site) -> PathBuf) {
    let (disk, site) = (BadDisk::new(), Site::create([("small", String::new())]));
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        let load = site.load("small");
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
        disk.make_read_only(part(&site).to_str().unwrap());
        eventually("the log has stopped", async || {
            load.submit(&load.fresh()).await;
            site.health("small").await["state"] == "stopped"
        })
        .await;
        disk.make_writable();
        site.reaches("small", "running").await;
        for _ in 0..3 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
        load.settle_accounts().await.assert_clean();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn data_that_were_read_only_are_noticed_to_be_writable() {
    a_disk_that_was_read_only_is_noticed_to_be_writable(|site| site.data("small"));
}

#[test]
fn a_lock_that_was_read_only_is_noticed_to_be_writable() {
    a_disk_that_was_read_only_is_noticed_to_be_writable(|site| site.lock());
}

#[test]
fn everything_that_was_read_only_is_noticed_to_be_writable() {
    a_disk_that_was_read_only_is_noticed_to_be_writable(|site| site.path().to_owned());
}

/// A read error on the disk of a log that is to be created stops only this log.
#[test]
fn an_error_of_a_new_logs_disk_is_its_own() {
    let today = Timestamp::now().strftime("inception: %F").to_string();
    let logs = [("small", today), ("large", String::new())];
    let (disk, site) = (BadDisk::new(), Site::prepare(temp_dir(), logs).init());
    site.forget("small");
    fs::remove_dir_all(site.data("small")).unwrap();
    disk.fail("/small/");
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.ready("large").await;
        let large = site.load("large");
        assert_eq!(large.submit(&large.fresh()).await, Some(true));
        site.reaches("small", "stopped").await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert_has(&server.output(), "Input/output error");
}

/// If `init` is killed before any call that changes a file, the next `init` completes its work, and
/// `serve` serves the whole log or reports why not.
#[test]
fn init_can_be_killed_at_any_moment() {
    let disk = BadDisk::new();
    let mut killed = 0;
    loop {
        let site = Site::prepare(temp_dir(), [("small", String::new())]);
        let init = disk.killing_at(killed + 1, site.launch_of(&["init"]));
        let output = init.run().unwrap();
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.code(), None, "{}", all(&output));
        killed += 1;
        let (code, said) = site.lucarne(&["check"]);
        let whole = code == 0 && killed % 3 == 0;
        let served = (killed % 8 == 0 || whole) && serves_or_says_why(&site);
        let (code, said_again) = site.lucarne(&["init"]);
        assert_eq!(code, 0, "killed before call {killed}: {said}{said_again}");
        let (code, said) = site.lucarne(&["check"]);
        assert_eq!(code, 0, "killed before call {killed}: {said}");
        if killed % 8 == 4 && !served {
            takes_submissions(&site, site.start());
        }
    }
    println!("killed at {killed} calls");
    assert!(killed > 20, "{killed}");
}

/// Returns whether the server serves the log.
fn serves_or_says_why(site: &Site) -> bool {
    let mut server = site.launch().spawn().unwrap();
    let serves = run(async {
        let mut serves = false;
        eventually("it serves, or ends", async || {
            let health = site.client().get("health").await;
            serves = health.is_ok_and(|answer| answer.status == 200);
            serves || server.try_wait().unwrap().is_some()
        })
        .await;
        serves
    });
    if serves {
        takes_submissions(site, server);
    } else {
        assert_has(&server.output(), "lucarne init");
    }
    serves
}

fn takes_submissions(site: &Site, mut server: Server) {
    let load = site.load("small");
    run(async {
        site.reaches("small", "running").await;
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
        load.settle_accounts().await.assert_clean();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
