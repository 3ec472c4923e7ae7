use super::*;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::time::Instant;
use tokio::net::TcpListener;

type Answers = Vec<(u16, &'static [(&'static str, &'static str)], &'static str)>;

/// When each request came, and the first certificate of its chain.
type Requests = Arc<Mutex<Vec<(Instant, Vec<u8>)>>>;

/// A log that gives these answers first, and then an SCT for whatever it is sent.
struct Double {
    url: url::Url,
    requests: Requests,
}

/// `key` signs the SCTs.
async fn double(answers: Answers, key: u8) -> Double {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/2026", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, answers) = (requests.clone(), Arc::new(Mutex::new(answers)));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (seen, answers) = (seen.clone(), answers.clone());
            let service =
                service_fn(move |request| respond(request, seen.clone(), answers.clone(), key));
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    Double {
        url: url.parse().unwrap(),
        requests,
    }
}

async fn respond(
    request: Request<Incoming>,
    seen: Requests,
    answers: Arc<Mutex<Answers>>,
    key: u8,
) -> Result<Response<Full<bytes::Bytes>>, std::convert::Infallible> {
    assert_eq!(request.uri().path(), "/2026/ct/v1/add-chain");
    assert_eq!(request.headers()["content-type"], "application/json");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let der = |place: usize| {
        let base64 = body["chain"][place].as_str().unwrap();
        base64_simd::STANDARD.decode_to_vec(base64).unwrap()
    };
    assert_eq!(body["chain"].as_array().unwrap().len(), 2);
    assert_eq!(der(1), ca().cert_der());
    let leaf = der(0);
    seen.lock().push((Instant::now(), leaf.clone()));
    let mut answers = answers.lock();
    if answers.is_empty() {
        let entry = SignedEntry::of_delivered(&Certificate::parse(&leaf).unwrap());
        let sct = log_key(key).sign_sct(now_ms(), &entry, 42).unwrap();
        return Ok(Response::new(Full::from(sct.to_json())));
    }
    let (status, headers, text) = answers.remove(0);
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Ok(response.body(Full::from(text)).unwrap())
}

fn options(to: &Double, key: Option<u8>) -> Options {
    Options {
        submit_to: Some(to.url.clone()),
        submit_key: key.map(|n| log_key(n).public_key_spki().to_vec()),
        ..Options::new(tls())
    }
}

/// What became of offering a host's certificate.
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
        page.contains("the SCT verifies by the key that was given"),
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
    let busy: Answers = vec![
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
            .contains("answered 200, but not an SCT"),
        "{waiting}"
    );
    until_outcome(&observer, next, "accepted").await;
    {
        let requests = log.requests.lock();
        let [a, b, c, d] = &requests[..] else {
            panic!("{} requests", requests.len());
        };
        assert!(b.0 - a.0 >= Duration::from_secs(2), "sooner than it asked");
        assert!(c.0 - b.0 >= Duration::from_secs(1), "at once");
        assert_eq!((&a.1, &b.1), (&c.1, &a.1));
        assert_ne!(d.1, a.1);
    }
    // What failed is offered again when it is seen again.
    observer.seen(late, &chain(certificate(late, &[])), b"", b"");
    until_outcome(&observer, late, "accepted").await;
}

/// Nobody answers: what waits has its bounds, and the proxy does not notice.
#[tokio::test]
async fn a_log_that_is_away() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", nobody.local_addr().unwrap());
    drop(nobody);
    let observer = Observer::start(Options {
        submit_to: Some(url.parse().unwrap()),
        ..Options::new(tls())
    })
    .await
    .unwrap();
    let template = template(&Pki::shared().leaf("away.example"));
    let mut leaf = ca().sign(&template).unwrap();
    let last = leaf.len() - 1;
    for n in 0..700u32 {
        // Another signature makes another certificate.
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
            .contains("to be tried again")
    })
    .await;
    let last = outcome(&observer, "699.example").unwrap();
    assert!(
        last["text"]
            .as_str()
            .unwrap()
            .contains("too many chains wait"),
        "{first} {last}"
    );
    let summary = get_json(&observer, "observed.json", "")["summary"].clone();
    assert!(summary["waiting"].as_u64().unwrap() <= 513, "{summary}");
}
