//! Heads of requests: targets, fields, codings, and bytes that are not HTTP.

use bytes::Bytes;
use http_body_util::Empty;
use lucarne_testkit::{END_HEADERS, END_STREAM, FrameType, STATUS_200, frame};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;

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

/// RFC 9113, section 8.3.1.
#[tokio::test]
async fn hosts_over_http2_that_a_proxy_could_read_differently() {
    let (_test, server) = demo(small()).await;
    for (hosts, status) in [
        (&[][..], 200),
        (&["Log.example"], 200),
        (&["other.example"], 400),
        (&["log.example", "log.example"], 400),
    ] {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let mut request = hyper::Request::get("http://log.example/demo/checkpoint");
        for host in hosts {
            request = request.header("host", *host);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), status, "{hosts:?}");
    }
    let refusals = r#"lucarne_http_refusals_total{log="",code="bad_host"}"#;
    assert_eq!(server.metric(refusals), 2);
}

/// RFC 9113, section 8.1: trailers have no pseudo-header fields. h2 removes these fields, and the
/// server reads no trailers, so that they cannot change the target of a request.
#[tokio::test]
async fn trailers_over_http2_do_not_change_the_request() {
    let (test, server) = demo(small()).await;
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "log.example"),
        (":path", "/demo/ct/v1/add-chain"),
    ]);
    // With a declared length, the server reads the body in one piece, and no frame after it.
    for declared in [false, true] {
        for trailers in [
            &[("host", "other.example")][..],
            &[("content-length", "1")],
            &[(":path", "/demo/ct/v1/check-chain")],
            &[(":method", "GET"), (":authority", "other.example")],
        ] {
            let body = test.chain("trailers.example").to_json();
            let length = body.len().to_string();
            let mut head = head.clone();
            if declared {
                head.extend(fields(&[("content-length", &length)]));
            }
            let frames = [
                frame(FrameType::Settings, 0, 0, &[]),
                frame(FrameType::Headers, END_HEADERS, 1, &head),
                frame(FrameType::Data, 0, 1, body.as_bytes()),
                frame(
                    FrameType::Headers,
                    END_HEADERS | END_STREAM,
                    1,
                    &fields(trailers),
                ),
            ];
            let mut client = server.connect().await.stream;
            client
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .await
                .unwrap();
            client.write_all(&frames.concat()).await.unwrap();
            let (head, body) = in_time("a response", response(&mut client)).await;
            assert!(head.starts_with(STATUS_200), "{trailers:?}");
            let sct: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(sct["signature"].is_string(), "{trailers:?}: {sct}");
        }
    }
}

/// RFC 9112, section 7.1.2. The name of a field cannot begin with a colon.
#[tokio::test]
async fn trailers_over_http1_do_not_change_the_request() {
    let (test, server) = demo(small()).await;
    for (trailer, status) in [
        ("host: other.example", 200),
        ("content-length: 1", 200),
        (":path: /demo/ct/v1/check-chain", 400),
    ] {
        let body = test.chain("trailers.example").to_json();
        let request = format!(
            "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\n{trailer}\r\n\r\n",
            body.len()
        );
        let mut client = server.connect().await;
        client.send(request.as_bytes()).await;
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.status, status, "{trailer}");
    }
}

/// Returns a header block without compression (RFC 7541, section 6.2.2).
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let field = |(name, value): &(&str, &str)| [vec![0], text(name), text(value)].concat();
    fields.iter().flat_map(field).collect()
}

/// Reads the header block and the body of the response on stream 1.
async fn response(client: &mut TcpStream) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    loop {
        let mut start = [0; 9];
        client.read_exact(&mut start).await.unwrap();
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let mut payload = vec![0; length as usize];
        client.read_exact(&mut payload).await.unwrap();
        let (kind, flags) = (start[3], start[4]);
        match kind {
            kind if kind == FrameType::Headers as u8 => head = payload,
            kind if kind == FrameType::Data as u8 => body.extend(payload),
            kind if kind == FrameType::Reset as u8 => panic!("reset: {payload:?}"),
            _ => continue,
        }
        if flags & END_STREAM != 0 {
            return (head, body);
        }
    }
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
