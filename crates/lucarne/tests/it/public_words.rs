//! Public texts about a failed log name the failure, but no path.
#![allow(clippy::unwrap_used)]

use std::fs;

use lucarne_testkit::{Place, free_port, temp_dir};

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, run};

/// Returns `/health`, the page of the site and the page of a log.
async fn public(site: &Site, log: &str) -> [String; 3] {
    [
        site.client().get("health").await.unwrap().text(),
        site.client().get("").await.unwrap().text(),
        site.client_of(log).get("").await.unwrap().text(),
    ]
}

#[test]
fn paths_stay_in_the_log_lines() {
    let site = Site::create([("ill", String::new()), ("well", String::new())]);
    fs::rename(site.data("ill"), site.path().join("elsewhere")).unwrap();
    // The configuration has an absolute path, as in a systemd unit.
    let file = site.path().join("lucarne.yaml").display().to_string();
    let launch = site.launch_of(&["serve", "-c", &file]);
    let mut server = launch.start(site.address()).unwrap();
    let directory = site.path().display().to_string();
    run(async {
        let reason = site.reaches("ill", "stopped").await;
        assert_has(&reason, "the storage");
        site.ready("well").await;
        for text in public(&site, "ill").await {
            assert!(!text.contains(&directory), "{text}");
        }
        for text in public(&site, "well").await {
            assert!(!text.contains(&directory), "{text}");
        }
    });
    server.stop(EVENT_TIMEOUT).unwrap();
    assert_has(&server.output(), &format!("{directory}/ill"));
}

#[test]
fn users_and_hosts_stay_in_the_log_lines() {
    let mut place = Place::directory();
    let port = free_port();
    place.checkpoints = format!("postgres://ctlog@127.0.0.1:{port}/locks");
    let site = Site::prepare_at(place, temp_dir(), [("one", String::new())]);
    let mut server = site.start();
    run(async {
        eventually("the lock is missing", async || {
            let health = site.client().get("health").await.unwrap();
            health.status == 503 && health.text().contains("the lock")
        })
        .await;
        for text in public(&site, "one").await {
            assert!(!text.contains("ctlog"), "{text}");
            assert!(!text.contains(&port.to_string()), "{text}");
        }
    });
    server.stop(EVENT_TIMEOUT).unwrap();
    assert_has(&server.output(), &port.to_string());
}
