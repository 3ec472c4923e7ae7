//! The directory of a log is emptied while the log runs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, run};

/// Submits `count` new certificates concurrently. Returns the number of SCTs.
async fn submit(load: &Arc<Load>, count: usize) -> usize {
    let mut submitting = JoinSet::new();
    for _ in 0..count {
        let load = load.clone();
        submitting.spawn(async move { load.submit(&load.fresh()).await });
    }
    let answers = submitting.join_all().await;
    answers
        .iter()
        .filter(|answer| **answer == Some(true))
        .count()
}

/// Either the log stops at once, or it continues beyond a tile boundary with a complete right edge.
/// It does not sign a tree with missing tiles.
#[test]
fn a_directory_that_is_emptied_under_its_log_is_not_signed_over() {
    let site = Site::create([("small", String::new())]);
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        let load = Arc::new(site.load("small"));
        let mut taken = 0;
        while taken < 600 {
            taken += submit(&load, 60).await;
        }
    });
    // Everything is settled: the journal does not have the entries any more.
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let mut server = site.start();
    run(async {
        site.reaches("small", "running").await;
        let data = site.data("small");
        fs::remove_file(data.join("checkpoint")).unwrap();
        for directory in ["tile", "issuer"] {
            fs::remove_dir_all(data.join(directory)).unwrap();
        }
        let load = Arc::new(site.load("small"));
        let mut taken = 0;
        while taken < 300 && site.health("small").await["state"] != "stopped" {
            taken += submit(&load, 60).await;
        }
    });
    server.kill().unwrap();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("small", "stopped").await;
        assert_has(&reason, "emptied or rolled back");
        assert_has(&reason, "tile/data/000");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
