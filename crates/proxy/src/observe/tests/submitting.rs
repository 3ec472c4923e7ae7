use super::*;
use crate::observe::LogListSource;
use http::StatusCode;
use http_body_util::BodyExt;
use lucarne_ct::delivered_entry;
use lucarne_mint::Time;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

type Responses = Vec<(u16, &'static [(&'static str, &'static str)], &'static str)>;

/// Arrival time of each request, and the first certificate of its chain.
type Requests = Arc<Mutex<Vec<(Instant, Vec<u8>)>>>;

/// A log that sends these responses first, and an SCT for every later chain.
struct Double {
    url: url::Url,
    requests: Requests,
}

/// Starts the log; `key` signs its SCTs.
async fn double(responses: Responses, key: u8) -> Double {
    double_that_says(responses, key, Value::Null).await
}

/// Starts a log that also serves `log.v3.json`.
async fn double_that_says(responses: Responses, key: u8, about: Value) -> Double {
    let about = Arc::new(about);
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, responses) = (requests.clone(), Arc::new(Mutex::new(responses)));
    let url =
        serve(move |request| respond(request, seen.clone(), responses.clone(), key, about.clone()));
    let url = format!("{}/2026", url.await);
    Double {
        url: url.parse().unwrap(),
        requests,
    }
}

async fn respond(
    request: Request<Incoming>,
    seen: Requests,
    responses: Arc<Mutex<Responses>>,
    key: u8,
    about: Arc<Value>,
) -> Response<Full<bytes::Bytes>> {
    if request.uri().path() == "/2026/log.v3.json" {
        let mut response = Response::new(Full::from(about.to_string()));
        if about.is_null() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        return response;
    }
    assert_eq!(request.uri().path(), "/2026/ct/v1/add-chain");
    assert_eq!(request.headers()["content-type"], "application/json");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let der = |place: usize| {
        let base64 = body["chain"][place].as_str().unwrap();
        base64_simd::STANDARD.decode_to_vec(base64).unwrap()
    };
    let leaf = der(0);
    seen.lock().push((Instant::now(), leaf.clone()));
    let mut responses = responses.lock();
    if body["chain"].as_array().unwrap().len() > 1 {
        assert_eq!(body["chain"].as_array().unwrap().len(), 2);
        assert_eq!(der(1), ca().cert_der());
    } else {
        assert!(!responses.is_empty(), "a leaf alone is not taken");
    }
    if responses.is_empty() {
        let entry = delivered_entry(&Certificate::parse(&leaf).unwrap());
        let sct = log_key(key).sign_sct(now_ms(), &entry, 42).unwrap();
        return Response::new(Full::from(sct.to_json()));
    }
    let (status, headers, text) = responses.remove(0);
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::from(text)).unwrap()
}

fn options(to: &Double, key: Option<u8>) -> ObserveOptions {
    ObserveOptions {
        submit_to: vec![SubmitTo {
            log: to.url.clone(),
            key: key.map(|n| log_key(n).public_key_spki().to_vec()),
        }],
        ..ObserveOptions::new(tls())
    }
}

/// Returns the outcome of offering a host's certificate.
fn outcome(observer: &Observer, host: &str) -> Option<Value> {
    let (status, body) = get(observer, "host.json", &format!("name={host}"));
    let host: Value = serde_json::from_str(&body).ok()?;
    (status == 200).then(|| host["certificates"][0]["submission"].clone())
}

async fn until_outcome(observer: &Observer, host: &str, name: &str) -> Value {
    let is = || outcome(observer, host).is_some_and(|submission| submission["outcome"] == name);
    until(&format!("{host} is {name}"), is).await;
    outcome(observer, host).unwrap()
}

#[tokio::test]
async fn each_chain_once_and_its_sct_verified() {
    let log = double(vec![(400, &[], "unknown root\n<b>")], 1).await;
    let observer = Observer::start(options(&log, Some(1))).await.unwrap();
    let refused = chain(certificate("refused.example", &[]));
    observer.seen("refused.example", &refused, b"", b"");
    let submission = until_outcome(&observer, "refused.example", "refused").await;
    assert_eq!(
        submission["text"],
        "refused: 400 Bad Request: unknown root <b>"
    );

    let leaf = certificate("taken.example", &[]);
    for _ in 0..5 {
        observer.seen("taken.example", &chain(leaf.clone()), b"", b"");
        observer.seen("refused.example", &refused, b"", b"");
    }
    observer.seen("alias.example", &chain(leaf.clone()), b"", b"");
    let submission = until_outcome(&observer, "taken.example", "accepted").await;
    assert!(
        submission["text"]
            .as_str()
            .unwrap()
            .contains("index 42; the SCT verifies")
    );
    assert_eq!(submission["sct"]["sct_version"], 0);
    until("all are seen", || {
        outcome(&observer, "alias.example").is_some()
    })
    .await;
    let (_, page) = get(&observer, "host", "name=taken.example");
    assert!(
        page.contains("the SCT verifies by the configured key"),
        "{page}"
    );
    let summary = get_json(&observer, "observed.json", "")["summary"].clone();
    assert_eq!(
        (&summary["submitted"], &summary["refused"]),
        (&json!(1), &json!(1))
    );
    let leaves: Vec<_> = log
        .requests
        .lock()
        .iter()
        .map(|(_, leaf)| leaf.clone())
        .collect();
    assert_eq!(leaves, [refused[0].to_vec(), leaf]);
}

#[tokio::test]
async fn an_sct_by_another_key_is_false_and_one_by_nobody_is_unverified() {
    for (key, expected) in [(Some(2), "accepted-invalid"), (None, "accepted-unverified")] {
        let log = double(vec![], 1).await;
        let observer = Observer::start(options(&log, key)).await.unwrap();
        let leaf = certificate("taken.example", &[]);
        observer.seen("taken.example", &chain(leaf), b"", b"");
        until_outcome(&observer, "taken.example", expected).await;
    }
}

#[tokio::test]
async fn a_log_that_wants_to_be_left_alone_is() {
    let busy: Responses = vec![
        (503, &[("retry-after", "2")], "the pool is full"),
        (429, &[("retry-after", "0")], ""),
        (200, &[], "{}"),
    ];
    let log = double(busy, 1).await;
    let observer = Observer::start(options(&log, Some(1))).await.unwrap();
    let (late, next) = ("late.example", "next.example");
    observer.seen(late, &chain(certificate(late, &[])), b"", b"");
    let waiting = until_outcome(&observer, late, "waiting").await;
    until("it answered", || !log.requests.lock().is_empty()).await;
    observer.seen(next, &chain(certificate(next, &[])), b"", b"");
    let failed = until_outcome(&observer, late, "failed").await;
    assert!(
        failed["text"]
            .as_str()
            .unwrap()
            .contains("status 200, but not an SCT"),
        "{waiting}"
    );
    until_outcome(&observer, next, "accepted").await;
    {
        let requests = log.requests.lock();
        let [a, b, c, d] = &requests[..] else {
            panic!("{} requests", requests.len());
        };
        assert!(b.0 - a.0 >= Duration::from_secs(2), "sooner than it asked");
        assert!(
            c.0 - b.0 >= Duration::from_secs(2),
            "the pause did not grow"
        );
        assert_eq!((&a.1, &b.1), (&c.1, &a.1));
        assert_ne!(d.1, a.1);
    }
    // A failed certificate is offered again when it is seen again.
    observer.seen(late, &chain(certificate(late, &[])), b"", b"");
    until_outcome(&observer, late, "accepted").await;
}

/// If the log does not respond, the queue stays bounded and the proxy is not affected.
#[tokio::test]
async fn a_log_that_is_away() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", nobody.local_addr().unwrap());
    drop(nobody);
    let observer = Observer::start(ObserveOptions {
        submit_to: vec![SubmitTo {
            log: url.parse().unwrap(),
            key: None,
        }],
        ..ObserveOptions::new(tls())
    })
    .await
    .unwrap();
    let template = template(&Pki::shared().leaf("away.example"));
    let mut leaf = ca().sign(&template).unwrap();
    let last = leaf.len() - 1;
    for n in 0..700u32 {
        // Another signature makes a different certificate.
        leaf[last - 3..=last].copy_from_slice(&n.to_be_bytes());
        observer.seen(&format!("{n}.example"), &chain(leaf.clone()), b"", b"");
        if n % 500 == 0 {
            until("looked at", || {
                observer.shared().metrics.handshakes.get() == u64::from(n + 1)
            })
            .await;
        }
    }
    until("looked at", || {
        observer.shared().metrics.handshakes.get() == 700
    })
    .await;
    let first = until_outcome(&observer, "0.example", "waiting").await;
    until("it was tried", || {
        let submission = outcome(&observer, "0.example").unwrap();
        submission["text"]
            .as_str()
            .unwrap()
            .contains("will be retried")
    })
    .await;
    let last = outcome(&observer, "699.example").unwrap();
    assert!(
        last["text"].as_str().unwrap().contains("queue is full"),
        "{first} {last}"
    );
    let summary = get_json(&observer, "observed.json", "")["summary"].clone();
    assert!(summary["waiting"].as_u64().unwrap() <= 513, "{summary}");
}

#[tokio::test]
async fn what_is_in_a_log_is_not_sent_to_another() {
    let log = double(vec![], 1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    let logs = list_json(&[(2, "B", "usable")]);
    std::fs::write(&file, logs.to_string()).unwrap();
    let observer = Observer::start(ObserveOptions {
        log_list: Some(LogListSource::File(file)),
        ..options(&log, Some(1))
    })
    .await
    .unwrap();
    for (name, logs) in [
        ("logged.example", &[2][..]),
        ("here.example", &[1]),
        ("stranger.example", &[9]),
        ("bare.example", &[]),
    ] {
        observer.seen(name, &chain(certificate(name, logs)), b"", b"");
    }
    let logged = until_outcome(&observer, "logged.example", "not-needed").await;
    assert!(
        logged["text"].as_str().unwrap().contains("log 2"),
        "{logged}"
    );
    // The configured key verifies the log's own SCTs, whether the list has the log or not.
    until_outcome(&observer, "here.example", "not-needed").await;
    until_outcome(&observer, "stranger.example", "accepted").await;
    until_outcome(&observer, "bare.example", "accepted").await;
    assert_eq!(log.requests.lock().len(), 2);
}

/// Chains go to the log whose temporal interval contains their notAfter, according to the log list
/// or, for unlisted logs, to the log's own `log.v3.json`. A chain that no log accepts is reported,
/// and sent as soon as the list has a log for it.
#[tokio::test]
async fn each_chain_goes_to_the_log_whose_window_it_fits_into() {
    let now = Time::now();
    let window = |from: i64, until: i64| {
        let day = |days| crate::time::day(now.plus_days(days).unix() * 1000) + "T00:00:00Z";
        json!({"start_inclusive": day(from), "end_exclusive": day(until)})
    };
    let about = |n: u8, url: &str, interval: Value| {
        let key = log_key(n);
        json!({
            "description": format!("log {n}"),
            "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "submission_url": url,
            "monitoring_url": url,
            "temporal_interval": interval,
        })
    };
    let own_word = about(1, "https://soon.example/", window(0, 30));
    let soon = double_that_says(vec![], 1, own_word).await;
    let later = double(vec![], 2).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    let write_list = |interval: Value| {
        let log = about(2, later.url.as_str(), interval);
        let list = json!({"operators": [{"name": "B", "tiled_logs": [log]}]});
        std::fs::write(&file, list.to_string()).unwrap();
    };
    write_list(window(30, 60));
    let to = |log: &Double| SubmitTo {
        log: log.url.clone(),
        key: None,
    };
    let observer = Observer::start(ObserveOptions {
        log_list: Some(LogListSource::File(file.clone())),
        refresh: Duration::from_millis(50),
        submit_to: vec![to(&soon), to(&later)],
        ..ObserveOptions::new(tls())
    })
    .await
    .unwrap();
    let expiring = |name: &str, days: i64| {
        let mut options = Pki::shared().leaf(name);
        options.not_after = now.plus_days(days);
        ca().sign(&template(&options)).unwrap()
    };
    let (a, b, c) = ("soon.example", "later.example", "never.example");
    for (name, days) in [(a, 10), (b, 40), (c, 90)] {
        observer.seen(name, &chain(expiring(name, days)), b"", b"");
    }
    until_outcome(&observer, a, "accepted-unverified").await;
    until_outcome(&observer, b, "accepted").await;
    let none = until_outcome(&observer, c, "no-log").await;
    assert!(
        none["text"].as_str().unwrap().contains("expire on"),
        "{none}"
    );
    assert_eq!(
        (soon.requests.lock().len(), later.requests.lock().len()),
        (1, 1)
    );
    write_list(window(30, 120));
    until_outcome(&observer, c, "accepted").await;
    assert_eq!(later.requests.lock().len(), 2);
}

/// A log refuses a leaf alone, and accepts it with the issuer that another server has sent.
#[tokio::test]
async fn a_leaf_alone_is_offered_again_with_its_issuer() {
    let log = double(vec![(400, &[], "the issuer is missing")], 1).await;
    let observer = Observer::start(options(&log, Some(1))).await.unwrap();
    let alone = certificate("alone.example", &[]);
    observer.seen("alone.example", &[alone.clone().into()], b"", b"");
    until_outcome(&observer, "alone.example", "refused").await;
    let whole = chain(certificate("whole.example", &[]));
    observer.seen("whole.example", &whole, b"", b"");
    until_outcome(&observer, "alone.example", "accepted").await;
    let leaves = log
        .requests
        .lock()
        .iter()
        .filter(|(_, leaf)| *leaf == alone)
        .count();
    assert_eq!(leaves, 2);
}
