//! The scrubber of `serve` finds damage in files that no client reads.

use std::sync::Arc;

use lucarne_testkit::Client;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, log, ready, run};

const ENTRIES: usize = 300;

/// Returns the response of the server to `/health`.
async fn health(site: &Client) -> String {
    let answer = site.get("health").await.unwrap();
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// A bit is flipped in an issuer and in a data tile of a stopped log. No client reads these
/// files. The scrubber names both, and the server withholds them until they are repaired.
#[test]
fn what_rots_unread_is_named_until_it_is_mended() {
    let log = log("period: 20\nscrub: 50MB/s");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let load = Arc::new(Load::new(&log));
        while load.count() < ENTRIES {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    let issuers = std::fs::read_dir(log.data().join("issuer")).unwrap();
    let issuer = issuers.last().unwrap().unwrap().file_name();
    let issuer = format!("issuer/{}", issuer.to_str().unwrap());
    let paths = ["tile/data/000".to_owned(), issuer];
    let good = paths.each_ref().map(|path| {
        let file = log.data().join(path);
        let good = std::fs::read(&file).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        std::fs::write(file, bad).unwrap();
        good
    });

    let mut server = log.start().unwrap();
    run(async {
        let site = Client::new(format!("http://{}", log.address()));
        // A pass begins ten seconds after startup.
        eventually("both are named", async || {
            let health = health(&site).await;
            paths.iter().all(|path| health.contains(path))
        })
        .await;
        let metrics = site.get("metrics").await.unwrap();
        let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
        assert_has(&metrics, "lucarne_scrub_findings_total{log=");
        for path in &paths {
            assert_eq!(log.client().get(path).await.unwrap().status, 503, "{path}");
        }
        for (path, good) in paths.iter().zip(&good) {
            std::fs::write(log.data().join(path), good).unwrap();
        }
        ready(&log).await;
        for path in &paths {
            assert_eq!(log.client().get(path).await.unwrap().status, 200, "{path}");
        }
        assert_has(&health(&site).await, "the last whole pass ended");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
