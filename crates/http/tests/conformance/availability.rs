//! What is answered while a log cannot take, or no longer takes, what is submitted.

use crate::support::{Server, TestLog};
use lucarne_http::Limits;
use lucarne_log::Metrics;
use prometheus_client::registry::Registry;

use crate::demo;

#[tokio::test]
async fn a_retired_shard_is_gone_for_submitters_and_there_for_readers() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.policy.not_after_start = Some(1_000_000_000_000);
        config.policy.not_after_limit = Some(1_100_000_000_000);
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let body = test.chain("www.example").to_json();
    let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (410, &"gone".into())
    );
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);
    let json = server.get("/demo/log.v3.json").await.json();
    assert_eq!(json["status"], "readonly");
    assert_eq!(json["final_tree_head"]["tree_size"], 0);
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_stopped_log_says_when_to_come_back_and_is_still_read() {
    let (test, server) = demo(3).await;
    test.lock.fail(Some("the lock is out of order"));
    let body = test.chain("www.example").to_json();
    let answer = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let retry: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry), "{retry}");
    assert!(
        !answer.text().contains("out of order"),
        "not for the public: {}",
        answer.text()
    );
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);
    assert_eq!(server.get("/demo/tile/data/000.p/3").await.status, 200);
    let health = server.get("/health").await;
    assert_eq!(health.status, 503);
    let json = health.json();
    assert_eq!(
        (&json["status"], &json["logs"][0]["healthy"]),
        (&"failing".into(), &false.into())
    );
    assert!(health.text().contains("out of order"), "{}", health.text());
}

#[tokio::test]
async fn a_full_pool_is_503_with_seconds() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.pool_size = 1;
        config.period = std::time::Duration::from_millis(1000);
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let mut answers = Vec::new();
    for n in 0..8 {
        let mut client = server.connect().await;
        let body = test.chain(&format!("n{n}.example")).to_json();
        client.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
        answers.push(client);
    }
    let mut full = 0;
    for mut client in answers {
        let answer = client.answer().await.unwrap();
        if answer.status == 503 {
            full += 1;
            assert_eq!(answer.json()["code"], "pool_full");
            assert!(
                answer
                    .header("retry-after")
                    .unwrap()
                    .parse::<u32>()
                    .unwrap()
                    >= 1
            );
        } else {
            assert_eq!(answer.status, 200);
        }
    }
    assert!(full > 0);
}
