//! Tests of malformed and hostile input: each case ends with a clear response, and the log
//! continues. This file has bodies and timeouts; [`heads`] and [`connections`] have the rest.
#![allow(clippy::unwrap_used)]

#[path = "bad_input/connections.rs"]
mod connections;
#[path = "bad_input/heads.rs"]
mod heads;
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

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0usize) * 4096
}
