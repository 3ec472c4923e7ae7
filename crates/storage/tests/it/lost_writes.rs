//! Tests with a disk that loses data that the kernel has accepted: only a sync reports the loss.

use std::path::Path;

use bytes::Bytes;
use lucarne_storage::{Assets, PosixAssets};
use lucarne_testkit::{BadDisk, Launch, temp_dir};

/// The environment variable with the log's directory, for the process on the bad disk.
const DIRECTORY: &str = "LUCARNE_TEST_DIRECTORY";

/// Acknowledged rounds survive a power failure, regardless of earlier losses.
#[tokio::test]
async fn a_round_that_the_disk_lost_was_not_acknowledged() {
    let test = "lost_writes::a_round_that_the_disk_lost_was_not_acknowledged";
    let Some(said) = a_lost_round_is_not_acknowledged(test, "lose").await else {
        return;
    };
    assert!(said.contains("round 2: cannot sync"), "{said}");
}

/// ext4 reports a successful sync if its own journal is aborted at this moment.
#[tokio::test]
async fn a_round_that_a_sync_lied_about_was_not_acknowledged() {
    let test = "lost_writes::a_round_that_a_sync_lied_about_was_not_acknowledged";
    let Some(said) = a_lost_round_is_not_acknowledged(test, "lie").await else {
        return;
    };
    assert!(said.contains("round 2: cannot verify"), "{said}");
    assert!(said.contains("does not have the written bytes"), "{said}");
}

/// Injects the fault into the second of three rounds. Returns the output of the process that staged
/// them, or `None` in that process.
async fn a_lost_round_is_not_acknowledged(test: &str, fault: &str) -> Option<String> {
    if let Ok(directory) = std::env::var(DIRECTORY) {
        stage_while_a_write_is_lost(Path::new(&directory), fault).await;
        return None;
    }
    let (disk, place) = (BadDisk::new(), temp_dir());
    let directory = place.path().join("log");
    drop(PosixAssets::create(&directory).unwrap());
    let launch = Launch::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, &directory);
    let output = disk.under(launch).run().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let acknowledged = said.matches("acknowledged\n").count();
    assert!(
        disk.has_lost() && disk.has_lied() && acknowledged > 0,
        "{said}"
    );

    for segment in std::fs::read_dir(directory.join(".lucarne/journal")).unwrap() {
        disk.forget_memory(&segment.unwrap().path());
    }
    let assets = PosixAssets::open(&directory).unwrap();
    let records = assets.staged().await.unwrap();
    assert!(records.len() >= acknowledged, "{}: {said}", records.len());
    Some(said.into_owned())
}

/// Stages rounds, of which the second does not reach the disk.
async fn stage_while_a_write_is_lost(directory: &Path, fault: &str) {
    let assets = PosixAssets::open(directory).unwrap();
    assets.staged().await.unwrap();
    for size in 1..4 {
        if size == 2 {
            let faults = std::env::var_os("LUCARNE_BAD_DISK").unwrap();
            std::fs::write(Path::new(&faults).join(fault), "/journal/").unwrap();
        }
        match assets.stage(size, Bytes::from(vec![7; 500])).await {
            Ok(()) => println!("round {size} is acknowledged"),
            Err(error) => println!("round {size}: {error}"),
        }
    }
}
