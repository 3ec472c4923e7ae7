//! Tests of log.v3.json, pages, metrics, health, listeners and paths.

use crate::support::{Server, TestLog};
use lucarne_ct::Chain;
use lucarne_http::{EndpointSet, Limits};
use lucarne_log::{IntendedUse, Metadata, Metrics, Operator, PlannedChange, RateLimit, Status};
use prometheus_client::registry::Registry;

use super::demo;

/// Statement 33.
#[tokio::test]
async fn log_json_is_ready_to_paste() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.policy.not_after_start = Some(1_767_225_600_000);
        config.policy.not_after_limit = Some(4_070_908_800_000);
        config.submission_prefix = "https://log.example/demo/".into();
        config.monitoring_prefix = "https://log.example/demo/".into();
        config.metadata = said_of_a_log();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let answer = server.get("/demo/log.v3.json").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    insta::assert_snapshot!(answer.text());
}

/// Returns all metadata that an operator can set. One change is in the past, and one freezes the
/// log before the end of its window.
fn said_of_a_log() -> Metadata {
    let change = |new_status, effective_ms, comment: Option<&str>| PlannedChange {
        new_status,
        effective_ms,
        comment: comment.map(str::to_owned),
    };
    Metadata {
        intended_use: IntendedUse::Production,
        active_since: Some(1_767_225_600_000),
        planned_changes: vec![
            change(Status::Inactive, 4_102_444_800_000, Some("archived")),
            change(Status::ReadOnly, 4_071_000_000_000, None),
            change(Status::Active, 1_000_000_000_000, None),
        ],
        submission_rate_limit: Some(RateLimit {
            requests: 100,
            interval_seconds: 10,
            scope: Some("ip".into()),
        }),
        monitoring_rate_limit: Some(RateLimit {
            requests: 2000,
            interval_seconds: 60,
            scope: None,
        }),
        operator: Some(Operator {
            name: "Example & Sons".into(),
            emails: vec!["ct@example.com".into(), "ops+ct@example.com".into()],
            logs_elsewhere: Vec::new(),
        }),
    }
}

/// `log.v3.json` has no untrue claims.
#[tokio::test]
async fn log_json_claims_nothing() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.policy.not_after_start = Some(1_767_225_600_000);
        config.policy.not_after_limit = Some(4_070_908_800_000);
        config.monitoring_prefix = "https://log.example/demo/".into();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let json = server.get("/demo/log.v3.json").await.json();
    // A window and certificates for servers do not make a production log, and one of the two
    // prefixes is plain HTTP.
    assert_eq!(json["log_type"], "test");
    assert_eq!(json["intended_use"], "test");
    assert_eq!(json["tls_only"], false);
    assert_eq!(json["status_timestamp"], serde_json::Value::Null);
    let freeze = serde_json::json!([
        {"new_status": "readonly", "effective_date": "2099-01-08T00:00:00Z"}
    ]);
    assert_eq!(json["planned_changes"], freeze);
}

#[tokio::test]
async fn several_logs_and_what_is_about_them() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let one = TestLog::start_with("one", &metrics, |_| {}).await;
    let two = TestLog::start_with("two", &metrics, |config| {
        config.submission_prefix = "https://submit.example:8443/two/in".into();
        config.monitoring_prefix = "http://read.example/two/out/".into();
    })
    .await;
    let logs = vec![one.log.clone(), two.log.clone()];
    let server = Server::start_with(logs, Limits::default(), registry, |l| l).await;

    assert!(
        server
            .get("/one/checkpoint")
            .await
            .text()
            .starts_with("log.example/one\n")
    );
    assert!(
        server
            .get("/two/out/checkpoint")
            .await
            .text()
            .starts_with("log.example/two\n")
    );
    assert_eq!(server.get("/two/in/checkpoint").await.status, 404);
    assert_eq!(server.get("/two/in/ct/v1/get-roots").await.status, 200);
    assert_eq!(server.get("/two/out/ct/v1/get-roots").await.status, 404);
    let elsewhere = server.get("/two/in/").await;
    assert_eq!(elsewhere.status, 303);
    assert_eq!(
        elsewhere.header("location"),
        Some("http://read.example/two/out/")
    );
    let slash = server.get("/one").await;
    assert_eq!(
        (slash.status, slash.header("location")),
        (301, Some("/one/"))
    );

    let lost = server.get("/nowhere").await;
    assert_eq!(lost.status, 404);
    assert!(
        lost.text().contains("one: http://log.example/one/"),
        "{}",
        lost.text()
    );

    let index = server.get("/").await;
    assert!(index.text().contains("the log one") && index.text().contains("the log two"));
    let health = server.get("/health").await;
    assert_eq!(
        (
            health.status,
            health.json()["logs"].as_array().unwrap().len()
        ),
        (200, 2)
    );
    let accept = [("accept", "application/openmetrics-text;version=1.0.0")];
    let metrics = server.ask("GET", "/metrics", &accept).await;
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        "lucarne_http_requests_total{log=\"one\",endpoint=\"checkpoint\",code=\"200\"} 1",
        "lucarne_tree_size{log=\"two\"} 0",
        "# EOF",
    ] {
        assert!(
            metrics.text().contains(line),
            "{line} not in\n{}",
            metrics.text()
        );
    }
    let metrics = server.get("/metrics").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = metrics.text();
    assert!(
        text.contains("# TYPE lucarne_http_requests_total counter"),
        "{text}"
    );
    assert!(!text.contains("# EOF"), "{text}");
    let histograms = lucarne_testkit::check_exposition(text).unwrap();
    assert!(histograms.len() >= 4, "{histograms:?}");
}

#[tokio::test]
async fn pages_are_whole_and_locked_down() {
    let (test, server) = demo(3).await;
    let page = server.get("/demo/").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let key = &test.log.config().key;
    for shown in [
        base64_simd::STANDARD.encode_to_string(key.log_id().0),
        base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
        "http://log.example/demo/ct/v1/add-chain".to_owned(),
        "<b id=\"size\">3</b>".to_owned(),
        "1 certificate<".to_owned(),
        "<dd>60 seconds</dd>".to_owned(),
        "feed\">feed</a>".to_owned(),
        "errors\">errors</a>".to_owned(),
        "<a href=\"/logs.v3.json\">".to_owned(),
    ] {
        assert!(
            page.text().contains(&shown),
            "{shown} not in\n{}",
            page.text()
        );
    }
    assert!(!page.text().contains("<script>") && !page.text().contains("style="));
    for (path, kind) in [("page.js", "text/javascript"), ("page.css", "text/css")] {
        let asset = server.get(&format!("/demo/{path}")).await;
        assert!(asset.header("content-type").unwrap().starts_with(kind));
    }
    let stats = server.get("/demo/stats.json").await.json();
    assert_eq!(
        (&stats["size"], &stats["state"]),
        (&3.into(), &"running".into())
    );
}

#[tokio::test]
async fn what_is_said_in_a_log_is_not_html() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.description = "<script>alert(1)</script>".into();
        config.metadata = said_of_a_log();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let page = server.get("/demo/").await;
    for shown in [
        "<dt>Operator</dt><dd>Example &#38; Sons<br>",
        "<a href=\"mailto:ops+ct@example.com\">ops+ct@example.com</a>",
    ] {
        assert!(page.text().contains(shown), "{}", page.text());
    }
    for path in ["/", "/demo/"] {
        let page = server.get(path).await;
        assert!(!page.text().contains("<script>alert"), "{}", page.text());
    }
}

#[tokio::test]
async fn listeners_serve_what_they_are_told_to() {
    let test = TestLog::start("demo").await;
    let outside = Server::start_endpoints(vec![test.log.clone()], EndpointSet::Logs).await;
    assert_eq!(outside.get("/demo/checkpoint").await.status, 200);
    assert_eq!(outside.get("/metrics").await.status, 404);
    assert_eq!(outside.get("/health").await.status, 404);
    let inside = Server::start_endpoints(vec![test.log.clone()], EndpointSet::Operations).await;
    assert_eq!(inside.get("/demo/checkpoint").await.status, 404);
    assert_eq!(inside.get("/metrics").await.status, 200);
    assert_eq!(inside.get("/health").await.status, 200);
}

/// A log at the root does not hide the site's own paths.
#[tokio::test]
async fn a_log_at_the_root_of_its_host() {
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.submission_prefix = "http://127.0.0.1:6962".into();
        config.monitoring_prefix = "http://127.0.0.1:6962/".into();
    })
    .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    assert_eq!(server.get("/checkpoint").await.status, 200);
    assert_eq!(server.get("/metrics").await.status, 200);
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(server.get("/ct/v1/get-roots").await.status, 200);
    assert!(
        server
            .get("/")
            .await
            .text()
            .contains("<b id=\"size\">0</b>"),
        "the log's page"
    );
    assert_eq!(server.get("/page.js").await.status, 200);
    assert_eq!(server.get("/x").await.status, 404);
    let chain = test.chain("www.example");
    assert!(Chain::from_ders(chain.certificates()).is_ok());
    assert_eq!(
        server
            .post("/ct/v1/add-chain", chain.to_json().as_bytes())
            .await
            .status,
        200
    );
}
