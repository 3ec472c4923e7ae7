//! A site whose logs another process still runs, and one whose logs are handed to another process.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderMap;
use lucarne_http::{Limits, Listener, Serving, Site, Trace, TracedSubmission, Tracer};
use lucarne_log::Turn;
use lucarne_testkit::{EVENT_TIMEOUT, in_time, until};
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Client, Server, TestLog};

/// Records the names of the steps of all submissions.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<&'static str>>>);

impl Tracer for Recorder {
    fn begin(&self, _: &HeaderMap) -> Option<Box<dyn Trace>> {
        Some(Box::new(self.clone()))
    }
}

impl Trace for Recorder {
    fn end(self: Box<Self>, submission: TracedSubmission<'_>) {
        let names = submission.steps.iter().map(|step| step.name);
        self.0.lock().unwrap().extend(names);
    }
}

#[tokio::test]
async fn submissions_wait_for_a_log_that_is_being_opened_and_reads_do_not() {
    let (give, turn) = Turn::later();
    let test = TestLog::start("demo").await.in_turn(turn).await;
    let limits = Limits {
        start_timeout: EVENT_TIMEOUT,
        ..Limits::default()
    };
    let server = Server::start(vec![test.log.clone()], limits).await;
    let recorder = Recorder::default();
    server.site.trace(Arc::new(recorder.clone()));
    let body = test.chain("www.example").to_json();
    let mut waiting = server.connect().await;
    waiting.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    let checkpoint = server.get("/demo/checkpoint").await;
    assert_eq!(checkpoint.status, 200);
    assert_eq!(checkpoint.header("log-state"), Some("starting"));
    // On a busy machine, a response after this timeout is not detected.
    let early = tokio::time::timeout(Duration::from_millis(100), waiting.answer()).await;
    assert!(early.is_err(), "{early:?}");
    give.give();
    let answer = waiting.answer().await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    // The wait is a separate step of the trace.
    let steps = recorder.0.lock().unwrap();
    assert_eq!(steps[..3], ["read", "open", "decode"]);
}

#[tokio::test]
async fn the_wait_for_a_log_is_bounded_in_time() {
    let (_give, turn) = Turn::later();
    let test = TestLog::start("demo").await.in_turn(turn).await;
    let limits = Limits {
        start_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = Server::start(vec![test.log.clone()], limits).await;
    let body = test.chain("www.example").to_json();
    let post = server.post("/demo/ct/v1/add-chain", body.as_bytes());
    let late = in_time("a response to add-chain", post).await;
    assert_eq!(late.status, 503, "{}", late.text());
    assert!(
        late.text().contains("the log is starting"),
        "{}",
        late.text()
    );
    assert_eq!(late.header("retry-after"), Some("5"));
}

#[tokio::test]
async fn the_wait_for_a_log_is_bounded_in_bytes() {
    let (give, turn) = Turn::later();
    let test = TestLog::start("demo").await.in_turn(turn).await;
    let body = test.chain("www.example").to_json();
    let limits = Limits {
        start_timeout: EVENT_TIMEOUT,
        // Room for two bodies and the heads of the requests.
        client_inflight_bytes: 5 * body.len() / 2,
        ..Limits::default()
    };
    let server = Server::start(vec![test.log.clone()], limits).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
        waiting.push(client);
    }
    let both = 2 * body.len() as u64;
    let held = || server.metric("lucarne_http_inflight_bytes ");
    until("both bodies are held", || held() >= both).await;
    // The third body exceeds the limit of one client. Another client is below its limit.
    let refused = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (503, &"too_much_in_flight".into())
    );
    let mut other = server.connect_from([127, 0, 0, 2]).await;
    other.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    waiting.push(other);
    give.give();
    for mut client in waiting {
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Clients are sent away with their last responses. A request at the last moment gets a response,
/// and later connections wait in the socket for the next process.
#[tokio::test]
async fn serving_ends_without_a_request_that_is_not_answered() {
    let test = TestLog::start("demo").await;
    let site = || {
        Site::new(
            vec![test.log.clone()],
            Registry::default(),
            Limits::default(),
        )
        .unwrap()
    };
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let socket = listener.share().unwrap();
    let mut serving = Serving::start(vec![listener], site());
    let connect = async || Client::new(TcpStream::connect(address).await.unwrap());

    let (mut busy, mut idle) = (connect().await, connect().await);
    for client in [&mut busy, &mut idle] {
        let answer = client.get("/demo/checkpoint").await;
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
    serving.send_away(true);
    let last = busy.get("/demo/checkpoint").await;
    assert_eq!(
        (last.status, last.header("connection")),
        (200, Some("close"))
    );
    assert!(busy.closed().await);
    // The handover was cancelled.
    serving.send_away(false);
    assert_eq!(
        idle.get("/demo/checkpoint").await.header("connection"),
        None
    );

    serving.send_away(true);
    let mut fresh = connect().await;
    // The connection was accepted, because the one after it got a response.
    assert_eq!(connect().await.get("/demo/checkpoint").await.status, 200);
    let mut submitting = connect().await;
    let body = test.chain("www.example").to_json();
    submitting
        .post("/demo/ct/v1/add-chain", body.as_bytes())
        .await;
    // The listener accepted this connection, too. Other connections wait for the next process with
    // the socket.
    assert_eq!(connect().await.get("/demo/checkpoint").await.status, 200);
    let closing = Instant::now();
    serving.close().await;
    // A connection without a request has a second to send one. On a busy machine the second may
    // have passed, and the connection may be closed.
    let is_late = || closing.elapsed() >= Duration::from_secs(1);
    let none_can_come = serving.submissions_end(Duration::ZERO).await;
    assert!(!none_can_come || is_late());
    let request = b"GET /demo/checkpoint HTTP/1.1\r\nhost: log.example\r\n\r\n";
    let _ = fresh.stream.write_all(request).await;
    match fresh.answer().await {
        Some(answer) => assert_eq!(
            (answer.status, answer.header("connection")),
            (200, Some("close"))
        ),
        None => assert!(is_late()),
    }
    assert!(idle.closed().await);
    assert_eq!(submitting.answer().await.unwrap().status, 200);
    assert!(serving.submissions_end(EVENT_TIMEOUT).await);

    let mut early = connect().await;
    early
        .send(b"GET /demo/checkpoint HTTP/1.1\r\nhost: log.example\r\n\r\n")
        .await;
    let next = Listener::from_socket(socket).unwrap();
    let _serving = Serving::start(vec![next], site());
    assert_eq!(early.answer().await.unwrap().status, 200);
    serving.drain().await;
}

#[tokio::test]
async fn a_socket_that_does_not_listen_is_refused() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let socket = std::os::fd::OwnedFd::from(stream.into_std().unwrap());
    assert!(Listener::from_socket(socket).is_err());
    let _enough = listener.share().unwrap();
}
