//! Responses while a log cannot accept submissions, or no longer accepts them.

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_http::Limits;
use lucarne_log::{Metrics, State};
use lucarne_storage::Assets;
use prometheus_client::registry::Registry;

use super::demo;
use crate::support::{Answer, Server, TestLog};

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
    let checkpoint = server.get("/demo/checkpoint").await;
    assert_eq!(checkpoint.status, 200);
    assert_eq!(checkpoint.header("log-state"), Some("retired"));
    let json = server.get("/demo/log.v3.json").await.json();
    assert_eq!(json["status"], "readonly");
    assert_eq!(json["final_tree_head"]["tree_size"], 0);
    // The log is frozen seven days after the end of its window, regardless of its last signature.
    let frozen = "2004-11-16T11:33:20Z";
    assert_eq!(json["status_timestamp"], frozen);
    assert_eq!(json["state"]["readonly"]["timestamp"], frozen);
    assert_eq!(
        json["state"]["readonly"]["final_tree_head"],
        json["final_tree_head"]
    );
    assert_eq!(json["planned_changes"], serde_json::Value::Null);
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_stopped_log_says_when_to_come_back_and_is_still_read() {
    let (test, server) = demo(3).await;
    let running = server.get("/demo/checkpoint").await;
    assert_eq!(running.header("log-state"), None);
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
    assert_eq!(server.get("/demo/tile/data/000.p/3").await.status, 200);
    // A client that only requests the checkpoint is informed, too.
    test.until(|log| matches!(log.state(), State::Stopped { .. }))
        .await;
    let checkpoint = server.get("/demo/checkpoint").await;
    assert_eq!(checkpoint.status, 200);
    let head = |answer: &Answer| answer.text().lines().take(3).collect::<Vec<_>>().join("\n");
    assert_eq!(head(&checkpoint), head(&running));
    let state = checkpoint.header("log-state").unwrap();
    let since = state.strip_prefix("stopped; since=@").unwrap();
    let now_ms = test.log.config().clock.now_ms();
    let ago = now_ms / 1000 - since.parse::<u64>().unwrap();
    assert!(ago < 60, "{state}");
    assert_eq!(
        checkpoint.header("access-control-expose-headers"),
        Some("log-state")
    );
    let etag = checkpoint.header("etag").unwrap();
    let known = server
        .ask("GET", "/demo/checkpoint", &[("if-none-match", etag)])
        .await;
    assert_eq!(
        (known.status, known.header("log-state")),
        (304, Some(state))
    );
    let page = server.get("/demo/").await;
    assert!(page.text().contains("stopped"), "{}", page.text());
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
        config.rounds.pool_size = 1;
        config.rounds.period = std::time::Duration::from_millis(1000);
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

/// After a flipped bit, a truncated tile, another tile or a missing one, no wrong byte is served or
/// cached.
#[tokio::test]
async fn a_damaged_file_is_503_until_it_is_whole() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let test = TestLog::start_with("demo", &metrics, |config| {
        // Otherwise the memory cache would hide the damage.
        config.rounds.read_cache_bytes = 0;
    })
    .await;
    test.fill(600).await;
    test.fill(600).await;
    let limits = Limits::default();
    let server = Server::start_with(vec![test.log.clone()], limits, registry, |l| l).await;
    let issuer = format!("issuer/{}", Fingerprint::of(test.ca.cert_der()));
    /// Returns damaged bytes from a good file and another tile.
    type Damage = fn(Bytes, Bytes) -> Option<Bytes>;
    // The log restores a hash tile from existing entries, and files of rounds in the journal.
    test.assets.settle(u64::MAX).await.unwrap();
    let damages: [(&str, Damage); 6] = [
        ("tile/data/000", |_, _| None),
        ("tile/0/000", |_, other| Some(other)),
        ("tile/data/001", |good, _| Some(flipped(&good))),
        ("tile/data/002", |good, _| {
            Some(good.slice(..good.len() - 1))
        }),
        ("tile/data/003", |_, _| None),
        (&issuer, |good, _| Some(flipped(&good))),
    ];
    let other = test.assets.get("tile/0/001").await.unwrap().unwrap();
    let mut good = Vec::new();
    for (path, damage) in damages {
        let whole = test.assets.get(path).await.unwrap().unwrap();
        test.assets
            .tamper(path, damage(whole.clone(), other.clone()));
        let answer = server.get(&format!("/demo/{path}")).await;
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(answer.header("retry-after").is_some(), "{path}");
        assert_eq!(answer.header("etag"), None, "{path}");
        good.push((path, whole));
    }
    let health = eventually(&server, "/health", 503).await;
    // The check names five of them.
    for (path, _) in &good[..5] {
        assert!(
            health.text().contains(&format!("{path}: ")),
            "{}",
            health.text()
        );
    }
    let said = server.get("/metrics").await;
    assert!(
        said.text().contains("damaged_files{log=\"demo\"} 6\n"),
        "{}",
        said.text()
    );
    // The files are repaired, and the log notices it without requests for them.
    for (path, whole) in &good {
        test.assets.tamper(path, Some(whole.clone()));
    }
    eventually(&server, "/health", 200).await;
    for (path, whole) in good {
        let answer = server.get(&format!("/demo/{path}")).await;
        assert_eq!(
            (answer.status, &answer.body[..]),
            (200, &whole[..]),
            "{path}"
        );
    }
}

fn flipped(bytes: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.into()
}

/// Repeats the request until the response has this status, like a monitor.
async fn eventually(server: &Server, path: &str, status: u16) -> Answer {
    let mut answer = server.get(path).await;
    lucarne_testkit::eventually(&format!("{path} is {status}"), async || {
        answer = server.get(path).await;
        answer.status == status
    })
    .await;
    answer
}
