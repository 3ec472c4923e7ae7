//! The commands by which an operator inspects lock and journal and rebuilds a lost lock, and the
//! comparison with other places' checkpoints at startup.

pub(crate) mod elsewhere;
mod looking;
mod lost_round;
mod rebuilding;
mod start;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, pki, run, submission};
use lucarne_testkit::{Client, Server};

fn site() -> Site {
    Site::create([("ill", String::new()), ("well", String::new())])
}

/// Runs the server once, while log `ill` accepts `entries` new submissions in sequence.
fn grow(site: &Site, entries: usize) {
    let mut server = site.start();
    run(async {
        site.ready("ill").await;
        take(&site.client_of("ill"), entries).await;
    });
    stop(&mut server);
}

fn stop(server: &mut Server) {
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

async fn take(client: &Client, entries: usize) {
    for _ in 0..entries {
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
    }
}

/// Returns every file below a directory with its content, except the files that SQLite shares
/// between processes.
fn everything(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(everything(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}
