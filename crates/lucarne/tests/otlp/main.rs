//! Tests of the feature `otlp`: export of traces and metrics by the binary.
#![allow(clippy::unwrap_used)]

mod collector;
#[path = "../it/handover/peer.rs"]
mod peer;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use lucarne_mint::LeafOptions;
use lucarne_mint::testing::Pki;
use lucarne_testkit::{Client, EVENT_TIMEOUT, Launch, LogUnderTest, eventually};

use crate::collector::{Collector, Decoded, response};
use crate::peer::Asker;

const LUCARNE: &str = env!("CARGO_BIN_EXE_lucarne");
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// The steps of a new entry.
const STEPS: [&str; 9] = [
    "read", "decode", "validate", "wait", "sequence", "journal", "commit", "publish", "sign",
];
/// Number of submissions to a log whose collector does not respond.
const SUBMISSIONS: usize = 20;

/// Creates a log with `otlp`.
fn log(otlp: &str) -> LogUnderTest {
    let roots = Pki::shared().root.certificate_pem();
    let log = LogUnderTest::create(LUCARNE, &roots, "period: 50").unwrap();
    let file = OpenOptions::new().append(true).open(log.configuration());
    writeln!(file.unwrap(), "otlp: {otlp}").unwrap();
    log
}

/// Returns the body of an add-chain request with a new certificate.
fn submission() -> String {
    let pki = Pki::shared();
    let leaf = LeafOptions::with_key(["www.example.com"], pki.leaf_key.clone());
    pki.p256.chain(pki.p256.issue(&leaf).unwrap()).to_json()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Submits a new certificate, and returns the status.
async fn submit(log: &LogUnderTest) -> StatusCode {
    let added = log.client().post("ct/v1/add-chain", submission()).await;
    added.unwrap().status
}

/// Returns the spans of all traces that the collector has.
fn spans(collector: &Collector) -> Vec<Decoded> {
    let requests = collector.received("/v1/traces").into_iter();
    let resources = requests.flat_map(|it| Decoded::of(&it.body).messages(1));
    let scopes = resources.flat_map(|resource| resource.messages(2));
    scopes.flat_map(|scope| scope.messages(2)).collect()
}

#[test]
fn a_submission_is_one_trace_below_the_span_of_the_client() {
    let collector = Collector::start();
    let log = log(&format!(
        "{{endpoint: '{}', service_name: ct-test, sampling_ratio: 0, metrics_interval: off, \
         headers: [{{name: x-token, value: 'exec: echo secret'}}]}}",
        collector.endpoint
    ));
    let mut server = log.start().unwrap();
    run(async {
        log.ready(EVENT_TIMEOUT).await.unwrap();
        // Not sampled.
        assert_eq!(submit(&log).await, 200);
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let headers = [("traceparent", parent.as_str())];
        let (path, body) = ("ct/v1/add-chain", submission().into());
        let client = log.client();
        let added = client.request(Method::POST, path, &headers, body).await;
        assert_eq!(added.unwrap().status, 200);
        eventually("the trace has arrived", async || {
            !spans(&collector).is_empty()
        })
        .await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let request = &collector.received("/v1/traces")[0];
    assert!(
        request.head.contains("x-token: secret\r\n"),
        "{}",
        request.head
    );
    let is_protobuf = request
        .head
        .contains("content-type: application/x-protobuf\r\n");
    assert!(is_protobuf, "{}", request.head);
    let resource = &Decoded::of(&request.body).messages(1)[0].messages(1)[0];
    assert_eq!(resource.attribute(1, "service.name"), "ct-test");

    let spans = spans(&collector);
    let root = &spans[0];
    assert_eq!(root.text(5), "add-chain");
    assert_eq!(hex(&root.bytes(4)), PARENT);
    assert_eq!(root.number(6), 2, "the kind is SERVER");
    assert_eq!(root.attribute(9, "lucarne.log"), "test");
    assert_eq!(root.attribute(9, "http.response.status_code"), "200");
    let names: Vec<_> = spans[1..].iter().map(|span| span.text(5)).collect();
    assert_eq!(names, STEPS);
    for span in &spans {
        assert_eq!(hex(&span.bytes(1)), TRACE);
        assert!(span.number(7) <= span.number(8), "{span:?}");
        assert!(span.number(8) <= root.number(8), "{span:?}");
    }
    for step in &spans[1..] {
        assert_eq!(step.bytes(4), root.bytes(2), "{step:?}");
    }
    for two in spans[1..].windows(2) {
        assert_eq!(two[0].number(8), two[1].number(7), "{two:?}");
    }
}

#[test]
fn metrics_arrive_at_their_interval() {
    let collector = Collector::start();
    let endpoint = &collector.endpoint;
    let log = log(&format!("{{endpoint: '{endpoint}', metrics_interval: 1s}}"));
    let mut server = log.start().unwrap();
    run(async {
        log.ready(EVENT_TIMEOUT).await.unwrap();
        assert_eq!(submit(&log).await, 200);
        let before = collector.received("/v1/metrics").len();
        eventually("metrics have arrived twice", async || {
            collector.received("/v1/metrics").len() >= before + 2
        })
        .await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let last = collector.received("/v1/metrics").pop().unwrap();
    let metrics = Decoded::of(&last.body).messages(1)[0].messages(2)[0].messages(2);
    let metric = |name: &str| {
        let found = metrics.iter().find(|metric| metric.text(1) == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let size = &metric("lucarne_tree_size").messages(5)[0].messages(1)[0];
    assert_eq!(f64::from_bits(size.number(4)), 1.0);
    assert_eq!(size.attribute(7, "log"), "test");
    let submissions = &metric("lucarne_submissions").messages(7)[0];
    assert_eq!((submissions.number(2), submissions.number(3)), (2, 1));
    let duration = metric("lucarne_submission_seconds");
    let points = duration.messages(9)[0].messages(1);
    let counts = points[0].bytes(6).len() / 8;
    assert_eq!(counts, points[0].bytes(7).len() / 8 + 1);
    assert_eq!(points[0].number(4), 1);
    assert_eq!(metric("lucarne_build_info").messages(5).len(), 1);
}

/// Creates a log that exports only traces, to this collector.
fn traced_to(collector: &Collector) -> LogUnderTest {
    let endpoint = &collector.endpoint;
    log(&format!(
        "{{endpoint: '{endpoint}', metrics_interval: off}}"
    ))
}

/// Returns the value of the metric of lost spans.
async fn dropped_spans(log: &LogUnderTest) -> u64 {
    let site = Client::new(format!("http://{}", log.address()));
    let metrics = site.get("metrics").await.unwrap().text();
    let dropped = "lucarne_otlp_spans_dropped_total ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(dropped));
    count.unwrap().parse().unwrap()
}

#[test]
fn a_request_to_an_overloaded_collector_is_retried() {
    let collector = Collector::responding([
        response("503 Service Unavailable", "", b""),
        response("429 Too Many Requests", "retry-after: 0\r\n", b""),
    ]);
    let log = traced_to(&collector);
    let mut server = log.start().unwrap();
    run(async {
        log.ready(EVENT_TIMEOUT).await.unwrap();
        assert_eq!(submit(&log).await, 200);
        eventually("the trace is accepted", async || {
            collector.received("/v1/traces").len() == 3
        })
        .await;
        assert_eq!(dropped_spans(&log).await, 0);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let requests = collector.received("/v1/traces");
    assert!(requests.iter().all(|it| it.body == requests[0].body));
    let printed = server.output();
    assert!(!printed.contains("/v1/traces failed"), "{printed}");
}

#[test]
fn spans_that_the_collector_rejects_are_lost() {
    // `partial_success` with the number of rejected spans and the reason.
    let partial = b"\x0a\x09\x08\x03\x12\x05quota";
    let collector = Collector::responding([response("200 OK", "", partial)]);
    let log = traced_to(&collector);
    let mut server = log.start().unwrap();
    run(async {
        log.ready(EVENT_TIMEOUT).await.unwrap();
        assert_eq!(submit(&log).await, 200);
        eventually("the rejected spans are counted", async || {
            dropped_spans(&log).await == 3
        })
        .await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let printed = server.output();
    assert!(printed.contains("rejected 3 values"), "{printed}");
    assert_eq!(collector.received("/v1/traces").len(), 1, "no retry");
}

/// A process starts another server after a failed hand-over.
#[test]
fn a_failed_hand_over_exports_the_last_metrics() {
    let collector = Collector::start();
    let log = log(&format!(
        "{{endpoint: '{}', metrics_interval: 1h}}\nhandover: handover.sock",
        collector.endpoint
    ));
    let mut server = log.start().unwrap();
    run(async {
        log.ready(EVENT_TIMEOUT).await.unwrap();
        let mut asker = Asker::offered(&log);
        asker.say(&"ready".into());
        assert_eq!(asker.hear(), "accept");
        drop(asker);
        eventually("the metrics have arrived", async || {
            collector.received("/v1/metrics").len() == 1
        })
        .await;
        log.ready(EVENT_TIMEOUT).await.unwrap();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert_eq!(collector.received("/v1/metrics").len(), 2);
}

/// A collector that does not respond, and one that does not exist.
#[test]
fn an_unavailable_collector_delays_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let absent = unused.local_addr().unwrap();
    drop(unused);
    for address in [silent.local_addr().unwrap(), absent] {
        let log = log(&format!(
            "{{endpoint: 'http://{address}', metrics_interval: 1s}}"
        ));
        let mut server = log.start().unwrap();
        run(async {
            log.ready(EVENT_TIMEOUT).await.unwrap();
            let start = Instant::now();
            for _ in 0..SUBMISSIONS {
                assert_eq!(submit(&log).await, 200);
            }
            let took = start.elapsed();
            // Each request to the silent collector takes ten seconds.
            assert!(took < Duration::from_secs(30), "{took:?}");
            if address == absent {
                eventually("lost spans are counted", async || {
                    dropped_spans(&log).await > 0
                })
                .await;
            }
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        if address == absent {
            let printed = server.output();
            let failed = printed.matches("/v1/traces failed").count();
            assert_eq!(failed, 1, "{printed}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_load_test_exports_its_metrics() {
    let collector = Collector::start();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("--url=http://{}/", target.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in target.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = stream.write_all(&response("200 OK", "connection: close\r\n", b"{}"));
        }
    });
    let load = |otlp: &str| {
        Launch::new(LUCARNE)
            .args([
                "load",
                "rest",
                &url,
                "--iterations=5",
                "--rate=50",
                "--no-ui",
            ])
            .arg(format!("--otlp={otlp}"))
            .run()
            .unwrap()
    };
    assert_eq!(load(&collector.endpoint).status.code(), Some(0));
    let last = collector.received("/v1/metrics").pop().unwrap();
    let metrics = Decoded::of(&last.body).messages(1)[0].messages(2)[0].messages(2);
    let name = "lucarne_load_http_reqs";
    assert!(metrics.iter().any(|metric| metric.text(1) == name));
    let refused = load("ftp://127.0.0.1/");
    assert_eq!(refused.status.code(), Some(104));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("--otlp: `ftp://127.0.0.1/` is not a URL such as"),
        "{said}"
    );
}
