//! The two lanes of submissions: new certificates are logged before old certificates, regardless of
//! the number of old certificates.
//!
//! `cargo bench -p lucarne-http --bench lanes` measures the latencies.

use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::Sct;
use lucarne_http::Limits;
use lucarne_log::LaneConfig;
use lucarne_mint::{LeafOptions, Time};
use lucarne_testkit::{in_time, until};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use crate::support::gate::Gate;
use crate::support::{Answer, Server, TestLog};

const POOL: usize = 400;
/// More than the old lane can hold: a quarter of the pool.
const OLD: usize = 150;
const FRESH: usize = 50;

/// A log whose rounds are written only when the test allows it.
struct HeldLog {
    test: TestLog,
    server: Arc<Server>,
    gate: Gate,
}

impl HeldLog {
    async fn start(lanes: LaneConfig) -> Self {
        let metrics = lucarne_log::Metrics::register(&mut Registry::default());
        let test = TestLog::start_with("demo", &metrics, |config| {
            config.rounds.pool_size = POOL;
            config.rounds.lanes = lanes;
        })
        .await;
        let gate = Gate::closed(&test.assets);
        let logs = vec![test.log.clone()];
        HeldLog {
            server: Arc::new(Server::start(logs, Limits::default()).await),
            test,
            gate,
        }
    }

    /// Returns the number of entries that wait for a round.
    fn waiting(&self) -> usize {
        self.test.log.stats().pool_depth
    }

    /// Posts a certificate that was issued `hours` ago.
    fn post(&self, name: String, hours: i64, scts: usize) -> JoinHandle<Answer> {
        let not_before = Time::from_unix(Time::now().unix() - hours * 3600);
        let options = LeafOptions {
            not_before,
            not_after: not_before.plus_days(90),
            scts,
            ..LeafOptions::with_key([name], self.test.leaf_key.clone())
        };
        let leaf = self.test.ca.issue(&options).unwrap();
        let body = self.test.ca.full_chain(leaf).to_json();
        let server = self.server.clone();
        tokio::spawn(async move {
            let post = server.post("/demo/ct/v1/add-chain", body.as_bytes());
            in_time("a response to add-chain", post).await
        })
    }
}

/// The responses to the submissions of a test.
struct Outcome {
    /// The indexes of the fresh entries, in ascending order.
    fresh: Vec<u64>,
    /// The number of old entries in the log.
    old: u64,
    refused: Vec<Answer>,
}

fn index(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{answer:?}");
    Sct::parse(&answer.body).unwrap().index().unwrap()
}

/// Posts old certificates and then fresh ones, all while the first round is being written. The
/// outcome depends only on the order in which the log sequences the waiting entries, not on time.
/// Old certificates are of two `kinds`: the hours since they were issued, and the number of
/// their SCTs.
async fn posted_while_a_round_is_written(lanes: LaneConfig, kinds: [(i64, usize); 2]) -> Outcome {
    let log = HeldLog::start(lanes).await;
    let first = log.post("first.example".into(), 48, 0);
    log.gate.reached().await;
    let old = (0..OLD).map(|n| {
        let (hours, scts) = kinds[n % 2];
        log.post(format!("old-{n}.example"), hours, scts)
    });
    let old: Vec<_> = old.collect();
    let refused = || old.iter().filter(|task| task.is_finished()).count();
    until("each old one waits or is refused", || {
        log.waiting() + refused() == OLD
    })
    .await;
    let before = log.waiting();
    let fresh = (0..FRESH).map(|n| log.post(format!("fresh-{n}.example"), 1, 0));
    let fresh: Vec<_> = fresh.collect();
    until("each fresh one waits", || log.waiting() == before + FRESH).await;
    log.gate.open();
    let mut outcome = Outcome {
        fresh: Vec::new(),
        old: 1,
        refused: Vec::new(),
    };
    assert_eq!(index(&first.await.unwrap()), 0);
    for task in fresh {
        outcome.fresh.push(index(&task.await.unwrap()));
    }
    for task in old {
        let answer = task.await.unwrap();
        match answer.status {
            503 => outcome.refused.push(answer),
            _ => outcome.old += index(&answer).min(1),
        }
    }
    outcome.fresh.sort_unstable();
    let published = log.test.log.published().unwrap();
    assert_eq!(published.size, outcome.old + FRESH as u64);
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_submissions_come_before_the_old_ones_of_their_ca() {
    let outcome = posted_while_a_round_is_written(LaneConfig::default(), [(48, 0), (1, 2)]).await;
    // All fresh entries are in the next round, before the first old entry of that round.
    let next: Vec<u64> = (1..=FRESH as u64).collect();
    assert_eq!(outcome.fresh, next);
    // Old entries get the rest of the round, and at most their share of the pool.
    assert!(outcome.old > 1, "no old one was logged");
    assert!(outcome.refused.len() >= OLD - POOL / 4);
    for answer in &outcome.refused {
        assert_eq!(answer.json()["code"], "backlog_full");
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
}

/// The same submissions in a log in which all of them are fresh: they keep the order in which
/// they came. So the test above passes only because of the lanes.
#[tokio::test(flavor = "multi_thread")]
async fn in_one_lane_the_same_old_submissions_come_first() {
    let one_lane = LaneConfig {
        freshness: Duration::from_secs(365 * 24 * 3600),
        ..LaneConfig::default()
    };
    let outcome = posted_while_a_round_is_written(one_lane, [(48, 0), (48, 0)]).await;
    let last: Vec<u64> = (outcome.old..outcome.old + FRESH as u64).collect();
    assert_eq!(outcome.fresh, last);
}
