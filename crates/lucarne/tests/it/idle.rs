//! The cost of a log without submissions.

use std::sync::{Arc, Mutex};

use lucarne_ct::verify_checkpoint;
use lucarne_testkit::{Bucket, Fate, LogUnderTest, Place, StoreProxy};

use crate::common::{EVENT_TIMEOUT, eventually, log_at, ready, run};

async fn next_checkpoint(log: &LogUnderTest, before: &str) -> String {
    let (client, mut checkpoint) = (log.client(), String::new());
    eventually("a new checkpoint", async || {
        checkpoint = client.get("checkpoint").await.unwrap().text();
        checkpoint != before
    })
    .await;
    checkpoint
}

/// Returns the time at which the log signed a checkpoint, in Unix milliseconds.
fn signed_ms(log: &LogUnderTest, note: &[u8]) -> u64 {
    let verified = verify_checkpoint(note, &log.origin(), log.public_key());
    verified.unwrap().1
}

/// A CA runs all of its logs in one process, and most of them have no submissions.
#[test]
fn an_idle_log_asks_a_bucket_once_in_five_seconds_at_most() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let log = log_at(Place::bucket(&bucket, Some(&proxy.endpoint)), "");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = requests.clone();
    proxy.judge(move |request| {
        noted.lock().unwrap().push(request.clone());
        Fate::Pass
    });
    let mut server = log.start().unwrap();
    let (second, last) = run(async {
        ready(&log).await;
        let first = next_checkpoint(&log, "").await;
        // All work of the startup is done.
        let second = next_checkpoint(&log, &first).await;
        let third = next_checkpoint(&log, &second).await;
        let last = next_checkpoint(&log, &third).await;
        (second, last)
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let requests = requests.lock().unwrap();
    let put = |note: &str| {
        let mut bodies = requests.iter().map(|request| request.body());
        bodies.position(|body| body == note).unwrap()
    };
    // An idle log writes its next checkpoint, to the lock and to the storage, and does nothing
    // else.
    let asked = &requests[put(&second)..put(&last)];
    for request in asked {
        let (method, path) = (request.method(), request.uri().path());
        assert_eq!(method, "PUT", "{path}");
    }
    // Measured by the timestamps of the log: the interval is longer on a busy machine.
    let span_ms = signed_ms(&log, last.as_bytes()) - signed_ms(&log, second.as_bytes());
    assert!(!asked.is_empty());
    let least_ms = 4_990 * asked.len() as u64;
    assert!(span_ms >= least_ms, "{} in {span_ms} ms", asked.len());
}
