//! Real disks that are full or read-only: the log stops with a useful message, loses no entry, and
//! continues by itself when the disk is writable again.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, SMALL, assert_has, edit, eventually, pki, run, submission};
use lucarne_testkit::{Server, SmallDisk, temp_dir};

/// Creates two logs; the data of `small` is on the small disk.
fn data_on(disk: &SmallDisk) -> Site {
    let none = String::new;
    let site = Site::prepare(temp_dir(), [("small", none()), ("large", none())]);
    let place = format!("localdirectory: {}/data", disk.path().display());
    edit(&site.configuration(), "localdirectory: small", &place);
    site.init()
}

/// Creates a log with all of its files on the small disk.
fn all_on(disk: &SmallDisk) -> Site {
    let directory = disk.path().join("all");
    fs::create_dir(&directory).unwrap();
    let directory = tempfile::tempdir_in(directory).unwrap();
    Site::prepare(directory, [("small", String::new())]).init()
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

/// Fills the disk under load and frees it again. Calls `while_full` while log `small` has no space.
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
            .wait_for_output("disk is full", EVENT_TIMEOUT)
            .unwrap();
        // The same after a restart on the full disk.
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
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
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
    // Reads still work.
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
    let status = server.stop(EVENT_TIMEOUT).unwrap();
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
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    disk.make_read_only();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        for words in [
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
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A kernel mounts the file system read-only after disk errors; after a reboot, the whole disk is
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
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
