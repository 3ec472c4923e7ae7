//! Disks that are full, read-only, lose a write or do not answer, for real: the
//! log stops with words that help, loses nothing, and goes on by itself once it
//! can write again.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{PATIENCE, SMALL, assert_has, edit, eventually, lucarne, pki, run, submission};
use lucarne_testkit::{BadDisk, Server, SmallDisk, temp_dir};

/// Two logs; the data of `small` is on the small disk.
fn data_on(disk: &SmallDisk) -> Site {
    let none = String::new;
    let site = Site::prepare(temp_dir(), [("small", none()), ("large", none())]);
    let place = format!("localdirectory: {}/data", disk.path().display());
    edit(&site.configuration(), "localdirectory: small", &place);
    init(site)
}

/// The same with everything on the small disk.
fn all_on(disk: &SmallDisk) -> Site {
    let directory = disk.path().join("all");
    fs::create_dir(&directory).unwrap();
    let directory = tempfile::tempdir_in(directory).unwrap();
    init(Site::prepare(directory, [("small", String::new())]))
}

fn init(site: Site) -> Site {
    let (code, said) = lucarne(site.path(), &["init"]);
    assert_eq!(code, 0, "{said}");
    site
}

#[test]
fn a_full_data_disk_stops_one_log_and_loses_nothing() {
    let Some(disk) = SmallDisk::inside("a_full_data_disk_stops_one_log_and_loses_nothing", SMALL)
    else {
        return;
    };
    let site = data_on(&disk);
    survive_a_full_disk(&site, &disk, async |site| {
        site.reaches("large", "running").await;
        let client = site.client_of("large");
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
    });
}

/// Data, lock, index and configuration share the disk that fills up.
#[test]
fn a_full_disk_for_everything_loses_nothing() {
    let Some(disk) = SmallDisk::inside("a_full_disk_for_everything_loses_nothing", SMALL) else {
        return;
    };
    let site = all_on(&disk);
    survive_a_full_disk(&site, &disk, async |_| ());
}

/// `while_full` is asked of the site while log `small` has no space.
fn survive_a_full_disk(site: &Site, disk: &SmallDisk, while_full: impl AsyncFn(&Site)) {
    let load = Arc::new(site.load("small"));
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(work(load.clone()))).collect();
        eventually("a hundred SCTs", async || {
            load.promised.load(Ordering::SeqCst) > 100
        })
        .await;
        disk.fill();
        says_that_it_is_full(site, &load).await;
        while_full(site).await;
        server
            .wait_for_output("the disk is full", PATIENCE)
            .unwrap();
        // Again, from a cold start.
        server.kill().unwrap();
        server = site.start();
        says_that_it_is_full(site, &load).await;
        while_full(site).await;
        disk.free();
        let before = load.promised.load(Ordering::SeqCst);
        let again = async || load.promised.load(Ordering::SeqCst) > before + 100;
        eventually("it goes on by itself", again).await;
        load.end();
        for task in tasks {
            task.await.unwrap();
        }
        let report = load.settle_accounts().await;
        print!("{report}");
        report.assert_clean();
    });
    assert!(server.stop(PATIENCE).unwrap().success());
    stops_cleanly_while_full(site, disk);
}

async fn work(load: Arc<Load>) {
    load.submit_on().await;
}

async fn says_that_it_is_full(site: &Site, load: &Load) {
    eventually("the health names the reason", async || {
        let health = site.health("small").await;
        let reason = health["checks"][0]["detail"].as_str().unwrap().to_owned();
        health["healthy"] == false && reason.contains("space")
    })
    .await;
    eventually("submitters are told to come back", async || {
        load.submit(&load.fresh()).await == Some(false)
    })
    .await;
    // Readers do not notice.
    let client = site.client_of("small");
    let checkpoint = client.get("checkpoint").await.unwrap().ok().unwrap();
    let checkpoint = String::from_utf8_lossy(&checkpoint);
    let size: u64 = checkpoint.lines().nth(1).unwrap().parse().unwrap();
    assert!(size >= 50, "{size}");
    assert_eq!(client.get("tile/0/000.p/7").await.unwrap().status, 200);
}

fn stops_cleanly_while_full(site: &Site, disk: &SmallDisk) {
    let mut server: Server = site.start();
    run(site.reaches("small", "running"));
    disk.fill();
    run(async {
        let client = site.client_of("small");
        eventually("it has noticed", async || {
            let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
            answer.await.unwrap().status == 503
        })
        .await;
    });
    let status = server.stop(Duration::from_secs(20)).unwrap();
    assert_eq!(status.code(), Some(0), "{}", server.output());
    disk.free();
}

#[test]
fn a_read_only_directory_stops_one_log_until_it_is_writable() {
    let test = "a_read_only_directory_stops_one_log_until_it_is_writable";
    let Some(disk) = SmallDisk::inside(test, SMALL) else {
        return;
    };
    let site = data_on(&disk);
    let load = site.load("small");
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        for _ in 0..10 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(PATIENCE).unwrap().success());
    disk.make_read_only();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        for words in [
            disk.path().to_str().unwrap(),
            "The log must be able to write there",
            "check owner, mode and mount options",
        ] {
            assert_has(&reason, words);
        }
        assert_eq!(load.submit(&load.fresh()).await, Some(false));
        site.reaches("large", "running").await;
        let client = site.client_of("large");
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
        disk.make_writable();
        site.reaches("small", "running").await;
        load.settle_accounts().await.assert_clean();
    });
    assert!(server.stop(PATIENCE).unwrap().success());
}

/// What a kernel does after disk errors: the machine comes up again, all of it
/// read-only.
#[test]
fn a_read_only_disk_for_everything_is_said_and_survived() {
    let test = "a_read_only_disk_for_everything_is_said_and_survived";
    let Some(disk) = SmallDisk::inside(test, SMALL) else {
        return;
    };
    let site = all_on(&disk);
    let load = site.load("small");
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
    });
    server.kill().unwrap();
    disk.make_read_only();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        assert_has(&reason, "check owner, mode and mount options");
        let health = site.health("small").await.to_string();
        assert_has(&health, "file and directory must be writable by this user");
        assert_eq!(load.submit(&load.fresh()).await, Some(false));
        disk.make_writable();
        load.settle_accounts().await.assert_clean();
    });
    assert!(server.stop(PATIENCE).unwrap().success());
}

/// After a write-back that failed, the kernel shows what the disk has not, and
/// lets the next sync succeed. Whatever is appended behind it goes with it.
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
            for _ in 0..20 {
                assert_eq!(load.submit(&load.fresh()).await, Some(true));
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
        assert!(server.stop(PATIENCE).unwrap().success());
        assert!(!site.path().join("lock.sqlite-wal").exists());
    }
}

/// Two logs on a disk that may hang, and that has an index of `small` to read.
fn may_hang() -> (BadDisk, Site) {
    let none = String::new;
    let site = Site::prepare(temp_dir(), [("small", none()), ("large", none())]);
    edit(
        &site.configuration(),
        "logs:",
        "http: {draintimeout: 2000}\nlogs:",
    );
    let site = init(site);
    let mut server = site.start();
    run(async {
        for log in ["small", "large"] {
            site.reaches(log, "running").await;
            let load = site.load(log);
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(PATIENCE).unwrap().success());
    (BadDisk::new(), site)
}

fn threads(server: &Server) -> usize {
    let tasks = format!("/proc/{}/task", server.pid());
    fs::read_dir(tasks).unwrap().count()
}

/// Whatever `hung` is of log `small`: the other one does not notice, nothing
/// piles up however often is asked, and the process ends in time.
fn a_hung_disk_is_one_logs_own(hung: &str) {
    let (disk, site) = may_hang();
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        site.reaches("large", "running").await;
        let (small, large) = (Arc::new(site.load("small")), site.load("large"));
        disk.hang(hung);
        // As many as would fill what logs share.
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
    let asked = Instant::now();
    let status = server.stop(PATIENCE).unwrap();
    let took = asked.elapsed();
    println!("{hung}: ended ({status}) after {took:?}");
    // 2 s and a word; more on a busy machine.
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(status.code(), Some(1), "{}", server.output());
    disk.wake();
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        let load = site.load("small");
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
    });
    assert!(server.stop(PATIENCE).unwrap().success());
}

#[test]
fn a_hung_disk_of_a_cache_is_one_logs_own() {
    a_hung_disk_is_one_logs_own("small-cache");
}

#[test]
fn a_hung_disk_of_a_journal_is_one_logs_own() {
    a_hung_disk_is_one_logs_own("small/.lucarne/journal");
}

/// All logs share the lock: readers have what is there, and nobody waits for
/// ever.
#[test]
fn a_hung_disk_of_the_lock_is_said_and_ends_in_time() {
    let (disk, site) = may_hang();
    let mut server = disk.under(site.launch()).start(site.address()).unwrap();
    run(async {
        site.reaches("small", "running").await;
        disk.hang("lock.sqlite");
        site.reaches("small", "stopped").await;
        let health = site.health("small").await.to_string();
        assert_has(&health, "answer");
        let client = site.client_of("small");
        assert_eq!(client.get("checkpoint").await.unwrap().status, 200);
    });
    let asked = Instant::now();
    server.stop(PATIENCE).unwrap();
    assert!(asked.elapsed() < Duration::from_secs(15));
}
