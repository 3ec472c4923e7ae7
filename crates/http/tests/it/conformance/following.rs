//! Tests of clients that follow logs: long polls, the feed, the list of logs, robots.txt,
//! compressed roots.

use std::collections::BTreeSet;
use std::io::Read;

use lucarne_ct::{Fingerprint, LogList, TileLeafRef};
use lucarne_http::Limits;
use lucarne_log::{Metrics, Operator};
use lucarne_testkit::in_time;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::demo;
use crate::support::{Client, Server, TestLog};

#[tokio::test]
async fn a_long_poll_is_answered_when_the_log_grows() {
    let (test, server) = demo(5).await;
    let plain = server.get("/demo/checkpoint").await;
    // A larger tree is returned at once, and an unknown query has no effect.
    for query in ["after=4", "after=0", "other=9"] {
        let answer = server.get(&format!("/demo/checkpoint?{query}")).await;
        assert_eq!((answer.status, &answer.body), (200, &plain.body), "{query}");
    }
    let wrong = server.get("/demo/checkpoint?after=x").await;
    assert_eq!(
        (wrong.status, &wrong.json()["code"]),
        (400, &"bad_query".into())
    );

    let waiting = async { server.get("/demo/checkpoint?after=5").await };
    let growing = async {
        let mut grown = test.log.grown();
        // The request may be waiting or may not have arrived yet. Both are correct.
        test.fill(1).await;
        grown.wait_for(|size| *size == 6).await.unwrap();
    };
    let both = futures_util::future::join(waiting, growing);
    let (answer, ()) = in_time("a long poll is answered", both).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text().lines().nth(1), Some("6"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn who_waits_is_counted_and_answered_when_the_server_stops() {
    let (_test, server) = demo(1).await;
    let mut waiting = JoinSet::new();
    let ask = b"GET /demo/checkpoint?after=1 HTTP/1.1\r\nhost: log.example\r\n\r\n";
    // One more request than may wait: the last request is refused.
    for _ in 0..65 {
        let mut client = server.connect().await;
        client.send(ask).await;
        waiting.spawn(async move { client.answer().await.unwrap() });
    }
    let refused = in_time("one is refused", waiting.join_next()).await;
    let refused = refused.unwrap().unwrap();
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["code"], "too_many_waiting");
    assert!(refused.header("retry-after").is_some());
    // Other clients and requests that do not wait are unaffected.
    let mut other = server.connect_from([127, 0, 0, 2]).await;
    other.send(ask).await;
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);

    let stopped = server.stop();
    let answers = in_time("all others are answered", waiting.join_all()).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let answer = in_time("another client is answered", other.answer()).await;
    assert_eq!(answer.unwrap().status, 200);
    in_time("the end of the server", stopped).await.unwrap();
}

/// A reader of the feed, after the head of the response.
struct Feed {
    stream: TcpStream,
    text: String,
}

impl Feed {
    async fn open(server: &Server, query: &str, headers: &str) -> Feed {
        let mut client = server.connect().await;
        let ask = format!("GET /demo/feed{query} HTTP/1.1\r\nhost: log.example\r\n{headers}\r\n");
        client.send(ask.as_bytes()).await;
        let Client { stream, .. } = client;
        let text = String::new();
        let mut feed = Feed { stream, text };
        feed.until("retry: 5000").await;
        assert!(feed.text.starts_with("HTTP/1.1 200 OK"), "{}", feed.text);
        assert!(
            feed.text.contains("content-type: text/event-stream"),
            "{}",
            feed.text
        );
        assert!(
            feed.text.contains("cache-control: no-store"),
            "{}",
            feed.text
        );
        feed
    }

    /// Reads until the text contains this part.
    async fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            assert!(self.more().await, "no {part:?} in {}", self.text);
        }
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        let read = in_time("more of a feed", self.stream.read(&mut bytes)).await;
        let length = read.unwrap_or(0);
        self.text += std::str::from_utf8(&bytes[..length]).unwrap();
        length > 0
    }

    /// Returns the entries so far, ignoring the frames of the transfer coding.
    fn entries(&self) -> Vec<Value> {
        let lines = self.text.lines();
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.map(|json| serde_json::from_str(json).unwrap())
            .collect()
    }
}

#[tokio::test]
async fn the_feed_has_every_entry_once_from_any_index_on() {
    let (test, server) = demo(300).await;
    let mut all = Feed::open(&server, "?from=0", "").await;
    let mut some = Feed::open(&server, "?from=250", "").await;
    let mut resumed = Feed::open(&server, "?from=0", "last-event-id: 298\r\n").await;
    let mut live = Feed::open(&server, "", "").await;
    test.fill(20).await;
    for feed in [&mut all, &mut some, &mut resumed, &mut live] {
        feed.until("id: 319\n").await;
        feed.until("\"index\":319").await;
    }
    for (feed, first) in [(&all, 0), (&some, 250), (&resumed, 299), (&live, 300)] {
        let indexes: Vec<_> = feed.entries().iter().map(|e| e["index"].as_u64()).collect();
        assert!(
            indexes.into_iter().eq((first..320).map(Some)),
            "from {first}"
        );
    }

    // The feed agrees with the tree.
    let asked = [("accept-encoding", "identity")];
    let data = server.ask("GET", "/demo/tile/data/000", &asked).await.body;
    let mut rest = &data[..];
    for entry in &all.entries()[..256] {
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        assert_eq!(entry["timestamp"], leaf.timestamp);
        assert_eq!(entry["kind"], "x509_entry");
        let fingerprint = Fingerprint::of(leaf.submitted().unwrap()).to_string();
        assert_eq!(entry["fingerprint"], fingerprint.as_str());
        let issuer = { leaf.fingerprints }.next().unwrap().to_string();
        assert_eq!(entry["issuer_fingerprint"], issuer.as_str());
        let issuer = entry["issuer"].as_str().unwrap();
        assert!(issuer.starts_with("CN=Root of demo"), "{issuer}");
        let names = entry["names"].as_array().unwrap();
        assert!(names[0].as_str().unwrap().ends_with(".example"), "{entry}");
    }
    let names: BTreeSet<_> = all
        .entries()
        .iter()
        .map(|e| e["names"].to_string())
        .collect();
    assert_eq!(names.len(), 300);
}

#[tokio::test]
async fn a_feed_ends_with_the_server_and_begins_within_the_tree() {
    let (_test, server) = demo(3).await;
    for (query, headers) in [("?from=4", ""), ("", "last-event-id: 3"), ("?from=x", "")] {
        let headers: Vec<_> = headers.split_once(": ").into_iter().collect();
        let answer = server
            .ask("GET", &format!("/demo/feed{query}"), &headers)
            .await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &"bad_index".into())
        );
    }
    let head = server.ask("HEAD", "/demo/feed", &[]).await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(server.ask("POST", "/demo/feed", &[]).await.status, 405);
    let mut feed = Feed::open(&server, "?from=2", "").await;
    feed.until("\"index\":2").await;
    let stopped = server.stop();
    while feed.more().await {}
    in_time("the end of the server", stopped).await.unwrap();
}

#[tokio::test]
async fn the_logs_are_a_log_list() {
    let metrics = Metrics::register(&mut Registry::default());
    let change = |name: &'static str, host: &'static str| {
        let metrics = &metrics;
        async move {
            TestLog::start_with(name, metrics, |config| {
                config.monitoring_prefix = format!("https://{host}/{name}/");
                config.metadata.operator = (name == "two").then(|| Operator {
                    name: "Example".into(),
                    emails: vec!["ct@example.com".into()],
                    logs_elsewhere: vec![
                        "https://c.example/three/log.v3.json".into(),
                        "https://a.example/one/log.v3.json".into(),
                    ],
                });
            })
            .await
        }
    };
    let (one, two) = (
        change("one", "a.example").await,
        change("two", "b.example").await,
    );
    let logs = vec![one.log.clone(), two.log.clone()];
    let server = Server::start(logs, Limits::default()).await;
    let answer = server.get("/logs.v3.json").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    let list = LogList::parse(&answer.body).unwrap();
    assert!(list.skipped().is_empty(), "{:?}", list.skipped());
    assert!(list.timestamp_ms().is_some());
    for log in [&one.log, &two.log] {
        let listed = list.get(&log.config().key.log_id()).unwrap();
        // The log does not claim that it is usable.
        assert!(listed.state.is_none());
        assert_eq!(listed.submission_url(), log.config().submission_prefix);
    }
    let json = answer.json();
    let names: Vec<_> = json["operators"].as_array().unwrap().iter().collect();
    assert_eq!(names[0]["name"], "");
    assert_eq!(names[0]["email"], serde_json::json!([]));
    assert_eq!(names[1]["name"], "Example");
    assert_eq!(names[1]["email"], serde_json::json!(["ct@example.com"]));
    assert!(names[1]["tiled_logs"][0]["operator"].is_null());
    assert_eq!(names.len(), 2);

    // Logs of other processes follow. No log is in the list twice.
    let answer = server.get("/operator.json").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    let schema = "https://www.certificate-transparency.org/schemas/operator-list-v1.json";
    let expected = serde_json::json!({
        "$schema": schema,
        "operator_name": "Example",
        "logs": [
            "https://a.example/one/log.v3.json",
            "https://b.example/two/log.v3.json",
            "https://c.example/three/log.v3.json",
        ],
    });
    assert_eq!(answer.json(), expected);
    let server_of_one = Server::start(vec![one.log.clone()], Limits::default()).await;
    let answer = server_of_one.get("/operator.json").await;
    assert_eq!(answer.status, 404, "{}", answer.text());

    let robots = server.get("/robots.txt").await;
    assert_eq!(robots.status, 200);
    for line in [
        "User-agent: *",
        "Disallow: /one/tile/",
        "Disallow: /two/ct/",
    ] {
        assert!(
            robots.text().lines().any(|it| it == line),
            "{}",
            robots.text()
        );
    }
}

#[tokio::test]
async fn roots_come_compressed_to_who_asks_for_that() {
    let (test, server) = demo(0).await;
    let path = "/demo/ct/v1/get-roots";
    let plain = server.get(path).await;
    assert_eq!(
        (plain.status, plain.header("content-encoding")),
        (200, None)
    );
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    let packed = server
        .ask("GET", path, &[("accept-encoding", "gzip")])
        .await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain.body);
    for coding in ["identity", "gzip;q=0", "br"] {
        let answer = server
            .ask("GET", path, &[("accept-encoding", coding)])
            .await;
        assert_eq!(answer.header("content-encoding"), None, "{coding}");
    }
    let tag = packed.header("etag").unwrap();
    let known = [("accept-encoding", "gzip"), ("if-none-match", tag)];
    assert_eq!(server.ask("GET", path, &known).await.status, 304);
    // Other roots give another response.
    test.log.set_roots(lucarne_ct::Roots::new());
    let packed = server
        .ask("GET", path, &[("accept-encoding", "gzip")])
        .await;
    assert_ne!(packed.header("etag"), Some(tag));
}
