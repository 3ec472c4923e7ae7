//! What a log costs while nobody submits anything.

use std::time::Instant;

use crate::common::{PATIENCE, eventually, log_at, ready, run};
use lucarne_testkit::{Bucket, LogUnderTest, Place, StoreProxy};

async fn next_checkpoint(log: &LogUnderTest, before: &str) -> String {
    let (client, mut checkpoint) = (log.client(), String::new());
    eventually("a new checkpoint", async || {
        checkpoint = client.get("checkpoint").await.unwrap().text();
        checkpoint != before
    })
    .await;
    checkpoint
}

/// All logs of a CA are in one process, and most of them are as good as over.
#[test]
fn an_idle_log_asks_a_bucket_once_in_five_seconds_at_most() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let log = log_at(Place::bucket(&bucket, Some(&proxy.endpoint)), "");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let first = next_checkpoint(&log, "").await;
        // Whatever the start had to do is done.
        let second = next_checkpoint(&log, &first).await;
        let (began, before) = (Instant::now(), proxy.seen());
        let third = next_checkpoint(&log, &second).await;
        next_checkpoint(&log, &third).await;
        let (seconds, requests) = (began.elapsed().as_secs_f64(), proxy.seen() - before);
        assert!(requests > 0, "the proxy is not asked");
        // A poll comes up to a few hundredths late.
        let most = (seconds + 1.0) / 5.0;
        assert!(
            requests as f64 <= most,
            "{requests} requests in {seconds:.1} s"
        );
    });
    assert!(server.stop(PATIENCE).unwrap().success());
}
