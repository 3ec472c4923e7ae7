//! Measures the time until fresh certificates have their SCTs while their CA submits more old ones
//! than the disk can write: `cargo bench -p lucarne-http --bench lanes`.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use lucarne_http::Limits;
use lucarne_log::{LaneConfig, Metrics};
use lucarne_mint::{LeafOptions, Time};
use lucarne_storage::Assets;
use lucarne_storage::memory::Operation;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use support::{Server, TestLog};

/// Old and fresh submissions per second, all of one CA.
const OLD: usize = 400;
const FRESH: usize = 50;
const SECONDS: usize = 6;

/// Speed of the simulated disk: about 200 entries per second.
const SYNC: Duration = Duration::from_millis(20);
const BYTES_PER_SECOND: f64 = 180_000.0;

async fn log_on_a_slow_disk(lanes: LaneConfig) -> TestLog {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.rounds.period = Duration::from_millis(100);
        config.rounds.lanes = lanes;
    })
    .await;
    let (files, written) = (test.assets.clone(), AtomicU64::new(0));
    test.assets.inject(move |operation| {
        let staged = files.stats().journal_bytes();
        let bytes = staged - written.swap(staged, SeqCst);
        if operation == Operation::Publish && bytes > 0 {
            let writing = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
            tokio::task::block_in_place(|| thread::sleep(SYNC + writing));
        }
        None
    });
    test
}

/// Returns the body of a submission: a certificate of the log's CA that was issued `hours` ago.
fn body(test: &TestLog, name: String, hours: i64) -> String {
    let not_before = Time::from_unix(Time::now().unix() - hours * 3600);
    let options = LeafOptions {
        not_before,
        not_after: not_before.plus_days(90),
        ..LeafOptions::with_key([name], test.leaf_key.clone())
    };
    let chain = test.ca.full_chain(test.ca.issue(&options).unwrap());
    chain.to_json()
}

/// Submits `per_second` of the bodies each second, and prints the latencies.
async fn submit(lane: &str, server: Arc<Server>, bodies: Vec<String>, per_second: usize) {
    let start = Instant::now();
    let mut posts = JoinSet::new();
    for (n, body) in (0_u32..).zip(bodies) {
        let due = start + Duration::from_secs(1) * n / per_second as u32;
        sleep_until(due).await;
        let server = server.clone();
        posts.spawn(async move {
            let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
            (answer.status == 200, due.elapsed())
        });
    }
    let done = posts.join_all().await;
    let took = done.iter().filter(|(logged, _)| *logged);
    let mut took: Vec<Duration> = took.map(|(_, took)| *took).collect();
    took.sort_unstable();
    let at = |part: f64| took.get((took.len() as f64 * part) as usize);
    println!(
        "  {lane}: {} logged, {} refused; median {:?}, 99th percentile {:?}, longest {:?}",
        took.len(),
        done.len() - took.len(),
        at(0.5),
        at(0.99),
        took.last()
    );
}

async fn under_load(name: &str, lanes: LaneConfig) {
    println!("{name}:");
    let test = log_on_a_slow_disk(lanes).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let server = Arc::new(server);
    let old = (0..OLD * SECONDS).map(|n| body(&test, format!("old-{n}.example"), 48));
    let fresh = (0..FRESH * SECONDS).map(|n| body(&test, format!("fresh-{n}.example"), 1));
    let (old, fresh) = (old.collect(), fresh.collect());
    let old = tokio::spawn(submit("old", server.clone(), old, OLD));
    let fresh = tokio::spawn(submit("fresh", server.clone(), fresh, FRESH));
    old.await.unwrap();
    fresh.await.unwrap();
}

#[tokio::main]
async fn main() {
    under_load("two lanes", LaneConfig::default()).await;
    let one_lane = LaneConfig {
        freshness: Duration::from_secs(365 * 24 * 3600),
        ..LaneConfig::default()
    };
    under_load("all in the fresh lane", one_lane).await;
}
