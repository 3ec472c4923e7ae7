//! Tests of malformed and hostile input: each case ends with a clear response, and the log
//! continues.
#![allow(clippy::unwrap_used)]

#[path = "it/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_http::{EndpointSet, Limits};
use lucarne_testkit::{eventually, in_time, until};
use support::gate::Gate;
use support::{Server, TestLog};
use tokio::io::AsyncWriteExt;

/// Returns small limits. Each test shortens only the timeout under test, so that no other client is
/// late on a busy machine.
fn small() -> Limits {
    Limits {
        body_bytes: 20_000,
        connections: 50,
        ..Limits::default()
    }
}

const SHORT: Duration = Duration::from_secs(1);

async fn demo(limits: Limits) -> (TestLog, Server) {
    let test = TestLog::start("demo").await;
    let server = Server::start(vec![test.log.clone()], limits).await;
    (test, server)
}

async fn still_there(server: &Server) {
    assert_eq!(server.get("/demo/checkpoint").await.status, 200);
}

#[tokio::test]
async fn a_body_that_breaks_off() {
    let (test, server) = demo(small()).await;
    let body = test.chain("www.example").to_json();
    let head = format!(
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = server.connect().await;
    client.send(head.as_bytes()).await;
    client.send(&body.as_bytes()[..100]).await;
    client.stream.shutdown().await.unwrap();
    let answer = client.answer().await.unwrap();
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (400, &"incomplete_body".into())
    );
    still_there(&server).await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_still_gets_its_answer() {
    let (test, server) = demo(small()).await;
    let mut client = server.connect().await;
    let body = test.chain("www.example").to_json();
    client.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_head_that_takes_too_long() {
    let (_test, server) = demo(Limits {
        header_timeout: SHORT,
        ..small()
    })
    .await;
    let mut client = server.connect().await;
    client.send(b"GET /demo/checkpoint HTTP/1.1\r\n").await;
    // More bytes do not extend the timeout, so that the response always comes.
    let trickling = async {
        loop {
            tokio::select! {
                ready = client.stream.readable() => break ready.unwrap(),
                // The interval between the bytes. If the server is done before the next byte, the
                // timeout has passed.
                () = tokio::time::sleep(SHORT / 10) => {
                    let _ = client.stream.try_write(b"x-slow: yes\r\n");
                }
            }
        }
    };
    in_time("the end of a slow head", trickling).await;
    let answer = client.answer().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (408, Some("close"))
    );
    assert!(client.closed().await);

    // The same on a connection that has had a complete request.
    let mut client = server.connect().await;
    assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    client.send(b"GET /demo/che").await;
    let answer = client.answer().await.unwrap();
    assert_eq!(answer.status, 408);
    still_there(&server).await;
    let metrics = server.get("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("lucarne_http_connections_cut_total{reason=\"head\"} 2")
    );
}

#[tokio::test]
async fn a_body_that_takes_too_long() {
    let (_test, server) = demo(Limits {
        body_timeout: SHORT,
        ..small()
    })
    .await;
    let mut client = server.connect().await;
    client
        .send(b"POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n{")
        .await;
    let answer = client.answer().await.unwrap();
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (408, &"body_timeout".into())
    );
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.closed().await);
    still_there(&server).await;
}

#[tokio::test]
async fn a_client_that_says_nothing() {
    let (_test, server) = demo(Limits {
        idle_timeout: 3 * SHORT,
        ..small()
    })
    .await;
    let start = Instant::now();
    let mut silent = server.connect().await;
    let request = b"GET /demo/checkpoint HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut done = loop {
        let mut client = server.connect().await;
        let _ = client.stream.write_all(request).await;
        // On a busy machine this connection may have been idle for too long already.
        if let Some(answer) = client.answer().await {
            assert_eq!(answer.status, 200);
            break client;
        }
    };
    assert!(silent.closed().await);
    assert!(done.closed().await);
    // A busy machine only increases the time.
    let took = start.elapsed();
    assert!(took > 2 * SHORT, "{took:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read() {
    let (test, server) = demo(Limits {
        write_timeout: SHORT,
        ..small()
    })
    .await;
    test.fill(256).await;
    let mut client = server.connect().await;
    let request =
        "GET /demo/tile/data/000 HTTP/1.1\r\nhost: x\r\naccept-encoding: identity\r\n\r\n";
    let many = request.repeat(500);
    let cut = "lucarne_http_connections_cut_total{reason=\"writing\"}";
    tokio::select! {
        // The server stops reading when it cannot write, so this write may block.
        _ = client.stream.write_all(many.as_bytes()) => server.counts(cut, 1).await,
        () = server.counts(cut, 1) => {}
    }
    still_there(&server).await;
}

#[tokio::test]
async fn a_body_that_is_too_large() {
    let (_test, server) = demo(small()).await;
    // A declared length is refused before the body is read, and the response still arrives.
    let mut client = server.connect().await;
    let head = "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n";
    client.send(head.as_bytes()).await;
    for _ in 0..30 {
        client.send(&[b'A'; 100_000]).await;
    }
    let answer = client.answer().await.unwrap();
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (413, &"body_too_large".into())
    );
    assert!(answer.text().contains("20000"), "{}", answer.text());
    assert!(client.closed().await);

    // Without a declared length the body is refused once it is too long.
    let mut client = server.connect().await;
    let head =
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).await;
    for _ in 0..30 {
        client
            .send(format!("186a0\r\n{}\r\n", "A".repeat(100_000)).as_bytes())
            .await;
    }
    assert_eq!(client.answer().await.unwrap().status, 413);

    // `Expect: 100-continue` saves the client the upload.
    let mut client = server.connect().await;
    let head = "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\nexpect: 100-continue\r\n\r\n";
    client.send(head.as_bytes()).await;
    assert_eq!(client.answer().await.unwrap().status, 413);
    still_there(&server).await;
}

#[tokio::test]
async fn a_chunked_body_is_as_good_as_any() {
    let (test, server) = demo(small()).await;
    let body = test.chain("www.example").to_json();
    let mut client = server.connect().await;
    let head =
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).await;
    for piece in body.as_bytes().chunks(100) {
        client
            .send(format!("{:x}\r\n", piece.len()).as_bytes())
            .await;
        client.send(&[piece, b"\r\n"].concat()).await;
    }
    client.send(b"0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_gzip_bomb() {
    let (_test, server) = demo(small()).await;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..100 {
        std::io::Write::write_all(&mut bomb, &[0; 100_000]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 20_000);
    let mut client = server.connect().await;
    let head = format!(
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        bomb.len()
    );
    client.send(&[head.as_bytes(), &bomb].concat()).await;
    let answer = client.answer().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("accept-encoding")),
        (415, Some("identity"))
    );
    assert_eq!(answer.json()["code"], "content_encoding");
    still_there(&server).await;
}

#[tokio::test]
async fn a_chain_of_a_hundred() {
    let limits = Limits::default();
    let (test, server) = demo(limits).await;
    let mut chain = test.chain("www.example");
    for _ in 0..100 {
        chain = chain.with(test.ca.cert_der());
    }
    let answer = server
        .post("/demo/ct/v1/add-chain", chain.to_json().as_bytes())
        .await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (400, &"chain_too_long".into())
    );
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (test, server) = demo(small()).await;
    test.fill(3).await;
    let mut client = server.connect().await;
    let get = |path: &str| format!("GET /demo/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let body = test.chain("www.example").to_json();
    let post = format!(
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let all = [
        get("tile/0/000.p/1"),
        get("tile/0/000.p/2"),
        post,
        get("nothing"),
        get("tile/0/000.p/3"),
    ];
    client.send(all.concat().as_bytes()).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let answer = client.answer().await.unwrap();
        seen.push((answer.status, answer.body.len() / 32));
    }
    assert_eq!(seen[0], (200, 1));
    assert_eq!(seen[1], (200, 2));
    assert_eq!(seen[2].0, 200);
    assert_eq!(seen[3].0, 404);
    assert_eq!(seen[4], (200, 3));
}

#[tokio::test]
async fn odd_targets() {
    let (_test, server) = demo(small()).await;
    let cases = [
        ("http://log.example/demo/checkpoint", 200),
        ("/demo/checkpoint?cache=bust", 200),
        ("/demo//checkpoint", 404),
        ("/demo/../demo/checkpoint", 404),
        ("/demo/%63heckpoint", 404),
        ("/demo/%2e%2e/etc/passwd", 404),
        ("/demo/tile/0/..%2f..%2fcheckpoint", 404),
        ("/demo/.lucarne/lock", 404),
        ("/demo/tile/0/999999999999999999999", 404),
        ("//demo/checkpoint", 404),
        ("/demo", 301),
    ];
    for (target, status) in cases {
        assert_eq!(server.get(target).await.status, status, "{target}");
    }
    assert_eq!(server.ask("OPTIONS", "*", &[]).await.status, 404);
    assert_eq!(
        server.ask("CONNECT", "log.example:443", &[]).await.status,
        404
    );
}

/// RFC 9112, sections 3.2 and 6.1. The listener of the metrics applies the same rules.
#[tokio::test]
async fn heads_that_a_proxy_could_read_differently() {
    let (test, server) = demo(small()).await;
    let logs = vec![test.log.clone()];
    let operations = Server::start_endpoints(logs, EndpointSet::Operations).await;
    for (server, target) in [(&server, "/demo/checkpoint"), (&operations, "/metrics")] {
        for (version, hosts, status) in [
            ("1.1", "host: x\r\n", 200),
            ("1.1", "host:\r\n", 200),
            ("1.1", "", 400),
            ("1.1", "host: x\r\nhost: x\r\n", 400),
            ("1.0", "", 200),
            ("1.0", "host: x\r\nhost: y\r\n", 400),
        ] {
            let request = format!("GET {target} HTTP/{version}\r\n{hosts}\r\n");
            let mut client = server.connect().await;
            client.send(request.as_bytes()).await;
            let answer = client.answer().await.unwrap();
            assert_eq!(answer.status, status, "{request}");
            if status == 400 {
                assert_eq!(answer.json()["code"], "bad_host");
                assert!(client.closed().await);
            }
        }
        let refusals = r#"lucarne_http_refusals_total{log="",code="bad_host"}"#;
        assert_eq!(server.metric(refusals), 3);
    }
    let absolute = b"GET http://log.example/demo/checkpoint HTTP/1.1\r\n\r\n";
    let mut client = server.connect().await;
    client.send(absolute).await;
    assert_eq!(client.answer().await.unwrap().status, 400);
}

/// RFC 9112, section 6.1.
#[tokio::test]
async fn transfer_codings_other_than_one_chunked() {
    let (test, server) = demo(small()).await;
    let body = test.chain("www.example").to_json();
    for (codings, status) in [
        ("transfer-encoding: Chunked\r\n", 200),
        ("transfer-encoding: ,chunked\r\n", 200),
        ("transfer-encoding: gzip, chunked\r\n", 501),
        (
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            501,
        ),
        ("transfer-encoding: chunked, chunked\r\n", 400),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            400,
        ),
    ] {
        let request = format!(
            "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\n{codings}\r\n\
             {:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let mut client = server.connect().await;
        client.send(request.as_bytes()).await;
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.status, status, "{codings}");
        if status != 200 {
            assert_eq!(answer.json()["code"], "transfer_coding");
            assert!(client.closed().await);
        }
    }
    let refused = r#"lucarne_http_requests_total{log="",endpoint="unknown",code="501"}"#;
    assert_eq!(server.metric(refused), 2);
    still_there(&server).await;
}

#[tokio::test]
async fn what_is_not_http() {
    let (_test, server) = demo(Limits {
        header_timeout: SHORT,
        idle_timeout: SHORT,
        ..small()
    })
    .await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let fields = format!(
        "GET /demo/checkpoint HTTP/1.1\r\n{}\r\n",
        "a: b\r\n".repeat(5_000)
    );
    for nonsense in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03 a TLS hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET /demo/checkpoint HTTP/9.9\r\n\r\n",
        "GET /demo/checkpoint HTTP/1.1\r\nno colon\r\n\r\n",
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "PRI * HTTP/3.0\r\n\r\n",
        "P",
        &long,
        &fields,
    ] {
        let mut client = server.connect().await;
        let _ = client.stream.write_all(nonsense.as_bytes()).await;
        // Either an error or the end of the connection.
        let _ = in_time(nonsense, client.stream.shutdown()).await;
        assert!(drained(&mut client).await, "{nonsense:.40}");
    }
    // On a busy machine a connection may have been idle for too long before its request.
    let mut asked = false;
    while !asked {
        let mut client = server.connect().await;
        let request = b"GET /demo/checkpoint HTTP/1.1\r\nhost: x\r\n\r\n";
        let _ = client.stream.write_all(request).await;
        asked = client
            .answer()
            .await
            .is_some_and(|answer| answer.status == 200);
    }
}

/// Reads until the server closes; returns `true` if it never sent a 2xx or 5xx.
async fn drained(client: &mut support::Client<tokio::net::TcpStream>) -> bool {
    let mut all = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut all);
    let _ = in_time("the end of a connection", read).await;
    !all.starts_with(b"HTTP/1.1 2") && !all.starts_with(b"HTTP/1.1 5")
}

#[tokio::test]
async fn more_connections_than_there_may_be() {
    let (_test, server) = demo(small()).await;
    let mut within = Vec::new();
    for _ in 0..50 {
        within.push(server.connect().await);
    }
    server.counts("lucarne_http_connections ", 50).await;
    let mut beyond = server.connect().await;
    beyond
        .send(b"GET /demo/checkpoint HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = beyond.answer().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(within[0].get("/demo/checkpoint").await.status, 200);
    drop((within, beyond));
    eventually("there is room again", async || {
        server.get("/demo/checkpoint").await.status == 200
    })
    .await;
}

/// Ten thousand idle connections, half of them after a request, do not prevent responses. The test
/// also prints the memory of each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut files = getrlimit(Resource::Nofile);
    files.current = files
        .maximum
        .map(|most| most.min(1 << 20))
        .or(Some(1 << 20));
    let _ = setrlimit(Resource::Nofile, files);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) as usize;
    // Both ends of each connection are in this process.
    let count = 10_000.min((most.saturating_sub(200)) / 2);
    if count < 10_000 {
        println!("only {count} connections: the limit is {most} open files");
    }

    let (_test, server) = demo(Limits {
        // Longer than the test takes on a busy machine.
        idle_timeout: Duration::from_secs(600),
        ..Limits::default()
    })
    .await;
    let before = resident();
    let mut idle = Vec::with_capacity(count);
    for n in 0..count {
        let mut client = server.connect().await;
        if n % 2 == 0 {
            assert_eq!(client.get("/demo/checkpoint").await.status, 200);
        }
        idle.push(client);
    }
    // Connections that have had a request drop their state after five seconds.
    let each = || resident().saturating_sub(before) / count;
    until("a connection costs less than 16 KiB", || each() < 16 << 10).await;
    println!("{count} idle connections, {} bytes each, both ends", each());
    still_there(&server).await;
    assert_eq!(idle[0].get("/demo/checkpoint").await.status, 200);
    assert_eq!(idle[count - 1].get("/demo/checkpoint").await.status, 200);
    // Idle connections do not delay the shutdown.
    in_time("the end of the server", server.stop())
        .await
        .unwrap();
}

/// A connection that has dropped its state still accepts requests.
#[tokio::test]
async fn an_idle_connection_wakes_up() {
    const LONG: Duration = Duration::from_secs(600);
    let (_test, server) = demo(Limits {
        idle_timeout: LONG,
        header_timeout: LONG,
        ..Limits::default()
    })
    .await;
    let mut client = server.connect().await;
    // This test depends on time: a connection drops its state after five idle seconds. If it has
    // not done so on a busy machine, the responses are the same.
    let idle = || tokio::time::sleep(Duration::from_millis(5200));
    assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    idle().await;
    assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    // The same in the middle of a request head.
    client.send(b"GET /demo/checkpoint HT").await;
    idle().await;
    client.send(b"TP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0usize) * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_are_finished_at_shutdown() {
    let test = TestLog::start("demo").await;
    test.fill(1).await;
    let gate = Gate::closed(&test.assets);
    let server = Server::start(
        vec![test.log.clone()],
        Limits {
            // Longer than the test takes on a busy machine.
            drain_timeout: Duration::from_secs(600),
            ..small()
        },
    )
    .await;
    let address = server.address;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/demo/checkpoint").await.status, 200);
    let mut waiting = server.connect().await;
    let body = test.chain("late.example").to_json();
    waiting.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    gate.reached().await;
    let stopped = server.stop();
    assert!(idle.closed().await, "idle connections are let go at once");
    gate.open();
    let answer = waiting.answer().await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(waiting.closed().await);
    stopped.await.unwrap();
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_drain_has_an_end() {
    let (_test, server) = demo(Limits {
        body_timeout: Duration::from_secs(60),
        drain_timeout: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let mut stuck = server.connect().await;
    stuck
        .send(b"POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        .await;
    let held = || server.metric("lucarne_http_inflight_bytes ");
    until("the server waits for the body", || held() > 0).await;
    in_time("the end of the server", server.stop())
        .await
        .unwrap();
    assert!(stuck.closed().await);
}

/// A hundred half-sent bodies on each of twenty HTTP/2 connections: their memory is bounded, other
/// clients are served, and the requests end eventually.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_bodies_hold_no_more_than_their_client_may() {
    const EACH: usize = 2 << 20;
    let limits = Limits {
        client_inflight_bytes: EACH,
        inflight_bytes: 2 * EACH,
        body_timeout: Duration::from_secs(10),
        ..Limits::default()
    };
    let (test, server) = demo(limits).await;
    let before = resident();
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let stream = tokio::net::TcpStream::connect(server.address)
            .await
            .unwrap();
        let io = TokioIo::new(stream);
        let connected = http2::handshake(TokioExecutor::new(), io).await;
        let (sender, connection) = connected.unwrap();
        tokio::spawn(connection);
        for _ in 0..100 {
            let mut sender = sender.clone();
            answers.spawn(async move {
                let answer = sender.send_request(half_sent()).await;
                answer.map_or(0, |answer| answer.status().as_u16())
            });
        }
    }
    // Over HTTP/1.1, too.
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut client = server.connect().await;
        let head =
            "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\n\r\n";
        client.send(head.as_bytes()).await;
        client.send(&HALF[..1000]).await;
        halves.push(client);
    }
    // Most requests are refused at once; the others wait and use their budget.
    let mut refused = 0;
    for _ in 0..1900 {
        match answers.join_next().await.unwrap().unwrap() {
            503 => refused += 1,
            // On a busy machine the timeout of the body may have passed already.
            status => assert_eq!(status, 408),
        }
    }
    assert!(refused > 1000, "{refused} of 1900 are refused");
    let held = in_flight(&server).await;
    assert!(held <= EACH, "{held} bytes are held");
    let grown = resident().saturating_sub(before);
    println!(
        "2000 half-sent bodies: {held} bytes held, {} KiB resident",
        grown >> 10
    );
    assert!(grown < 64 << 20, "{grown} bytes");
    // Another address can submit as usual, also in pieces.
    let body = test.chain("honest.example").to_json();
    let mut honest = server.connect_from([127, 0, 0, 2]).await;
    let (first, rest) = body.as_bytes().split_at(body.len() / 2);
    let head = format!(
        "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    honest.send(&[head.as_bytes(), first].concat()).await;
    // The pause makes the server read twice. If it reads once on a busy machine, the response is
    // the same.
    tokio::time::sleep(Duration::from_millis(20)).await;
    honest.send(rest).await;
    assert_eq!(honest.answer().await.unwrap().status, 200);
    // The waiting requests end, and their memory is released.
    while let Some(answer) = answers.join_next().await {
        assert!([408, 503].contains(&answer.unwrap()));
    }
    for mut client in halves {
        let status = client.answer().await.unwrap().status;
        assert!([408, 503].contains(&status), "{status}");
    }
    assert_eq!(in_flight(&server).await, 0);
    let metrics = server.get("/metrics").await;
    let refused = "lucarne_http_inflight_refused_client_total 0\n";
    assert!(!metrics.text().contains(refused), "{}", metrics.text());
}

static HALF: [u8; 200_000] = [b'{'; 200_000];

type Pieces = http_body_util::combinators::BoxBody<bytes::Bytes, std::convert::Infallible>;

/// Returns a request whose body never ends.
fn half_sent() -> hyper::Request<Pieces> {
    let half = http_body::Frame::data(bytes::Bytes::from_static(&HALF));
    let pieces = stream::once(async { Ok(half) }).chain(stream::pending());
    hyper::Request::post("http://log.example/demo/ct/v1/add-chain")
        .header("content-length", 2 * HALF.len())
        .body(BodyExt::boxed(StreamBody::new(pieces)))
        .unwrap()
}

/// Returns the bytes of bodies in flight according to the metrics.
async fn in_flight(server: &Server) -> usize {
    let metrics = server.get("/metrics").await;
    let line = |line: &str| {
        line.strip_prefix("lucarne_http_inflight_bytes ")?
            .parse()
            .ok()
    };
    metrics.text().lines().find_map(line).unwrap()
}
