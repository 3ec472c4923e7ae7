//! The two lanes of submissions: whatever is posted again, what was just issued comes first.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_http::Limits;
use lucarne_log::{LaneConfig, LogConfig, Metrics};
use lucarne_mint::{LeafOptions, Time};
use lucarne_storage::memory::MemoryAssets;
use lucarne_storage::{Asset, AssetError, Assets, Stats};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{Answer, Server, TestLog};

/// Old and fresh submissions per second, all of one CA.
const OLD: usize = 400;
const FRESH: usize = 50;
const SECONDS: usize = 6;
/// The time in which a fresh one has its SCT.
const PROMPT: Duration = Duration::from_secs(2);

/// A disk that writes little in a second: some 200 entries.
struct SlowDisk(MemoryAssets);

const SYNC: Duration = Duration::from_millis(20);
const BYTES_PER_SECOND: f64 = 180_000.0;

#[async_trait]
impl Assets for SlowDisk {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        let writing = Duration::from_secs_f64(record.len() as f64 / BYTES_PER_SECOND);
        // What is waited for is the disk.
        sleep(SYNC + writing).await;
        self.0.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.0.staged().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.0.publish(assets).await
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.0.settle(size).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.0.get(path).await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        self.0.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.0.partials(tile_path).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.0.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.0.stats()
    }

    fn location(&self) -> String {
        self.0.location()
    }
}

async fn log_on_a_slow_disk(lanes: LaneConfig) -> TestLog {
    let metrics = Metrics::register(&mut Registry::default());
    let change = |config: &mut LogConfig| {
        config.period = Duration::from_millis(100);
        config.pool_size = 1000;
        config.lanes = lanes;
    };
    let test = TestLog::start_with("demo", &metrics, change).await;
    let disk = Arc::new(SlowDisk(test.assets.clone()));
    test.moved(disk).await
}

/// The body of a submission: a certificate of the log's CA, issued so many hours ago.
fn body(test: &TestLog, name: String, hours: i64, scts: usize) -> String {
    let not_before = Time::from_unix(Time::now().unix() - hours * 3600);
    let options = LeafOptions {
        not_before,
        not_after: not_before.plus_days(90),
        scts,
        ..LeafOptions::with_key([name], test.leaf_key.clone())
    };
    let chain = test.ca.full_chain(test.ca.issue(&options).unwrap());
    chain.to_json()
}

/// What became of those of one lane.
#[derive(Debug, Default)]
struct Told {
    /// The time that each of those took that got an SCT.
    took: Vec<Duration>,
    refused: Vec<Answer>,
}

impl Told {
    /// In words, for `--nocapture`.
    fn show(&self, lane: &str) {
        let (answered, refused) = (self.took.len(), self.refused.len());
        let longest = self.took.iter().max();
        println!(
            "{lane}: {answered} answered, {} of them late, the longest after {longest:?}; {refused} refused",
            self.late()
        );
    }

    fn late(&self) -> usize {
        self.took.iter().filter(|took| **took > PROMPT).count()
    }
}

/// Submits each at its time, `per_second` of them, and waits for the answers.
async fn submit(server: Arc<Server>, bodies: Vec<String>, per_second: usize) -> Told {
    let start = Instant::now();
    let mut asked = JoinSet::new();
    for (n, body) in (0_u32..).zip(bodies) {
        let due = start + Duration::from_secs(1) * n / per_second as u32;
        // Arrivals are of their own time, and not of that of the answers.
        sleep_until(due).await;
        let server = server.clone();
        asked.spawn(async move {
            let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
            (due.elapsed(), answer)
        });
    }
    let mut told = Told::default();
    while let Some(one) = asked.join_next().await {
        let (took, answer) = one.unwrap();
        match answer.status {
            200 => told.took.push(took),
            503 => told.refused.push(answer),
            _ => panic!("{answer:?}"),
        }
    }
    told
}

/// Old and fresh ones together: what became of these, and of those. `kinds` of old ones have hours since
/// they were issued, and SCTs.
async fn under_load(lanes: LaneConfig, kinds: [(i64, usize); 2]) -> (Told, Told, TestLog) {
    let test = log_on_a_slow_disk(lanes).await;
    let limits = Limits::default();
    let server = Arc::new(Server::start(vec![test.log.clone()], limits).await);
    let old = (0..OLD * SECONDS).map(|n| {
        let (hours, scts) = kinds[n % 2];
        body(&test, format!("old-{n}.example"), hours, scts)
    });
    let old: Vec<String> = old.collect();
    let fresh = (0..FRESH * SECONDS).map(|n| body(&test, format!("fresh-{n}.example"), 1, 0));
    let fresh: Vec<String> = fresh.collect();
    let (old, fresh) = tokio::join!(
        tokio::spawn(submit(server.clone(), old, OLD)),
        tokio::spawn(submit(server.clone(), fresh, FRESH)),
    );
    let (old, fresh) = (old.unwrap(), fresh.unwrap());
    old.show("old");
    fresh.show("fresh");
    (old, fresh, test)
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_submissions_are_prompt_while_their_ca_posts_old_ones() {
    let (old, fresh, test) = under_load(LaneConfig::default(), [(48, 0), (1, 2)]).await;
    assert_eq!(fresh.refused.len(), 0, "{:?}", fresh.refused.first());
    let longest = fresh.took.iter().max().unwrap();
    assert_eq!(fresh.late(), 0, "the longest took {longest:?}");
    assert_eq!(fresh.took.len(), FRESH * SECONDS);
    // The disk was too slow for all, and old ones had what was left of it.
    assert!(
        !old.refused.is_empty() && old.took.len() > 100,
        "{}",
        old.took.len()
    );
    for answer in &old.refused {
        assert_eq!(answer.json()["code"], "backlog_full");
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    let published = test.log.published().unwrap();
    assert_eq!(published.size as usize, fresh.took.len() + old.took.len());
}

/// The same load where all is fresh, as in a log without lanes: it does harm. Without this, the other
/// test would say nothing.
#[tokio::test(flavor = "multi_thread")]
async fn in_one_lane_the_same_old_submissions_hold_up_fresh_ones() {
    let one_lane = LaneConfig {
        freshness: Duration::from_secs(365 * 24 * 3600),
        ..LaneConfig::default()
    };
    let (old, fresh, _test) = under_load(one_lane, [(48, 0), (48, 0)]).await;
    let harmed = fresh.refused.len() + fresh.late();
    assert!(harmed > 0, "{} of {}", fresh.took.len(), old.took.len());
}
