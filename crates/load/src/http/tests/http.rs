//! Successful requests: bodies, phases, connections, TLS, HTTP/2.

use std::path::PathBuf;
use std::time::Duration;

use ::http::Method;

use super::server::{Script, Server};
use crate::exchange::{Family, Resent};
use crate::http::{Body, Client, ClientOptions, Request, Response, Version, kind};

fn ok(response: &Response) -> &Response {
    assert_eq!(response.exchange.outcome, Ok(()), "{}", response.status);
    response
}

fn http2() -> ClientOptions {
    ClientOptions {
        version: Version::Http2,
        ..ClientOptions::default()
    }
}

/// Sends and receives every kind of body.
async fn converse(client: &mut Client) {
    let parts: Vec<Vec<u8>> = (0..40).map(|n| vec![n; n as usize * 100]).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let long = vec![9; 3_000_000];
    for body in [
        Body::Empty,
        Body::from("one"),
        Body::Parts(&parts),
        Body::from(&long),
    ] {
        let headers = [("x-extra", "a b")];
        let request = Request::post("/echo", body).headers(&headers);
        let response = client.send(&request).await;
        assert_eq!(ok(&response).status, 200);
        let expected: Vec<u8> = match body {
            Body::Empty => Vec::new(),
            Body::One(bytes) => bytes.to_vec(),
            Body::Parts(parts) => parts.concat(),
        };
        assert!(response.body == expected, "{} bytes", expected.len());
        let exchange = &response.exchange;
        assert!(exchange.bytes_out >= expected.len() as u64);
        assert!(exchange.bytes_in >= expected.len() as u64);
        let header = |name| response.headers.get(name);
        assert_eq!(header("x-method"), Some("POST"));
        assert_eq!(header("x-extra"), Some("a b"));
        let host = format!("localhost:{}", client.endpoint().port);
        assert_eq!(header("x-host"), Some(host.as_str()));
    }
    for (path, status, length) in [
        ("/bytes/0", 200, 0),
        ("/bytes/1", 200, 1),
        ("/bytes/5000000", 200, 5_000_000),
        ("/chunks/123456", 200, 123_456),
        ("/status/204", 204, 0),
        ("/status/304", 304, 0),
        ("/status/503", 503, 0),
        ("/lost", 404, 12),
    ] {
        let response = client.send(&Request::get(path)).await;
        assert_eq!(
            (ok(&response).status, response.body.len()),
            (status, length)
        );
        assert!(response.is(&[status]) && !response.is(&[200 + status]));
    }
    let head = client
        .send(&Request::new(&Method::HEAD, "/bytes/700"))
        .await;
    assert_eq!((ok(&head).status, head.body.len()), (200, 0));
    assert_eq!(head.headers.get("content-length"), Some("700"));
}

#[tokio::test]
async fn plain_http1() {
    let server = Server::plain().await;
    let mut client = server.client(ClientOptions::default()).await;
    converse(&mut client).await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn plain_http2() {
    let server = Server::plain().await;
    let mut client = server.client(http2()).await;
    converse(&mut client).await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn tls_with_either_version() {
    let server = Server::tls(&[b"h2", b"http/1.1"]).await;
    for (version, name) in [(Version::Http1, "HTTP/1.1"), (Version::Http2, "HTTP/2")] {
        let options = ClientOptions {
            version,
            insecure: true,
            ..ClientOptions::default()
        };
        let mut client = server.client(options).await;
        converse(&mut client).await;
        let response = client.send(&Request::get("/bytes/1")).await;
        assert_eq!(ok(&response).exchange.protocol, name);
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_certificate_is_trusted_or_it_is_not() {
    let server = Server::tls(&[b"http/1.1"]).await;
    let mut client = server.client(ClientOptions::default()).await;
    let failure = client.send(&Request::get("/")).await.exchange;
    let outcome = failure.outcome.unwrap_err();
    assert_eq!(outcome.kind, kind::TLS);
    assert!(outcome.detail.contains("--insecure"), "{outcome}");
    assert!(failure.connect.is_some() && failure.tls.is_none());

    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("root.pem");
    std::fs::write(&ca, server.root.as_deref().unwrap()).unwrap();
    // The server's root is in one of several files.
    let other = directory.path().join("other.pem");
    let (_, another) = Server::self_signed("other.example", true, 1).await;
    std::fs::write(&other, another).unwrap();
    let options = ClientOptions {
        ca: vec![other, ca, PathBuf::new()],
        ..ClientOptions::default()
    };
    let mut client = server.client(options).await;
    ok(&client.send(&Request::get("/bytes/1")).await);
}

#[tokio::test]
async fn a_server_without_http2_is_told_apart() {
    let server = Server::tls(&[b"http/1.1"]).await;
    let options = ClientOptions {
        insecure: true,
        ..http2()
    };
    let outcome = server.client(options).await.send(&Request::get("/")).await;
    let failure = outcome.exchange.outcome.unwrap_err();
    // OpenSSL's servers continue without ALPN, rustls's end the handshake.
    assert!([kind::PROTOCOL, kind::TLS].contains(&failure.kind));
    let expected = "the server does not offer HTTP/2 (by ALPN): for a server that speaks only \
                    HTTP/1.1, leave out `--http 2` (`http: 2` in a plan)";
    assert_eq!(failure.detail, expected);
}

#[tokio::test]
async fn phases_are_there_and_add_up() {
    for (server, secure) in [
        (Server::plain().await, false),
        (Server::tls(&[b"http/1.1"]).await, true),
    ] {
        let options = ClientOptions {
            insecure: true,
            ..ClientOptions::default()
        };
        let mut client = server.client(options).await;
        for fresh in [true, false] {
            let exchange = client.send(&Request::get("/slow")).await.exchange;
            assert_eq!(exchange.outcome, Ok(()));
            assert_eq!(exchange.connect.is_some(), fresh);
            assert_eq!(exchange.family, fresh.then_some(Family::V4));
            assert_eq!(exchange.tls.is_some(), fresh && secure);
            assert!(exchange.first_byte.unwrap() >= Duration::from_millis(29));
            let total = exchange.finished - exchange.started;
            let phases = [
                exchange.connect,
                exchange.tls,
                exchange.sending,
                exchange.first_byte,
                exchange.body,
            ];
            let sum: Duration = phases.into_iter().flatten().sum();
            // On a reused connection, there is no time between the phases.
            if fresh {
                assert!(sum <= total, "{exchange:?}");
            } else {
                assert_eq!(sum, total, "{exchange:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_fresh_connection_per_request() {
    let server = Server::plain().await;
    for version in [Version::Http1, Version::Http2] {
        let before = server.connections();
        let options = ClientOptions {
            version,
            keepalive: false,
            ..ClientOptions::default()
        };
        let mut client = server.client(options).await;
        for _ in 0..5 {
            let response = client.send(&Request::get("/bytes/1")).await;
            assert!(ok(&response).exchange.connect.is_some());
        }
        assert_eq!(server.connections(), before + 5);
    }
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_opened_again() {
    // Each connection has one response. The server then closes or resets the idle connection.
    for reset in [false, true] {
        let server = Server::script(move |_| {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
            Script {
                reset,
                ..Script::of(&[answer])
            }
        })
        .await;
        let mut client = server.client(ClientOptions::default()).await;
        for number in 1..4 {
            // A body that arrives after the close would cause a reset.
            let response = client.send(&Request::post("/", Body::Empty)).await;
            assert_eq!(ok(&response).body, "x");
            assert_eq!(server.connections(), number);
            // After a second of idleness the client opens another connection, whether the server's
            // close arrives before the request or after it. A busy machine prolongs the idle time.
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
    }
}

/// The server reads the second request and closes the connection without a response, which the
/// client cannot know before. On an idle connection the server may do so; otherwise the exchange
/// has `Resent::Busy`.
#[tokio::test]
async fn a_request_is_sent_once_more_and_it_is_said_why() {
    for (idle, why) in [(true, Resent::Idle), (false, Resent::Busy)] {
        let server = Server::script(|number| {
            let answer = &b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"[..];
            match number {
                0 => Script::of(&[answer, b""]),
                _ => Script::of(&[answer, answer]),
            }
        })
        .await;
        let mut client = server.client(ClientOptions::default()).await;
        let first = client.send(&Request::get("/")).await;
        assert_eq!(ok(&first).exchange.resent, None);
        // Longer than the second after which a connection counts as idle. A busy machine prolongs
        // the idle time.
        if idle {
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
        let second = client.send(&Request::post("/", "again")).await;
        assert_eq!(second.exchange.resent, Some(why));
        assert_eq!(ok(&second).body, "x");
        assert_eq!(server.connections(), 2);
        let third = client.send(&Request::get("/")).await;
        assert_eq!(ok(&third).exchange.resent, None);
    }
}

/// A request on a new connection is not repeated, nor is a repeated request.
#[tokio::test]
async fn a_request_is_not_sent_three_times() {
    let server = Server::script(|number| match number {
        0 => Script::of(&[b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", b""]),
        _ => Script::of(&[b""]),
    })
    .await;
    let mut client = server.client(ClientOptions::default()).await;
    ok(&client.send(&Request::get("/")).await);
    for (connections, resent) in [(2, Some(Resent::Busy)), (3, None)] {
        let response = client.send(&Request::get("/")).await;
        assert_eq!(response.exchange.resent, resent);
        assert_eq!(response.exchange.outcome.unwrap_err().kind, kind::RESET);
        assert_eq!(server.connections(), connections);
    }
}

#[tokio::test]
async fn the_body_waits_until_it_is_asked_for() {
    let server = Server::plain().await;
    let mut client = server.client(ClientOptions::default()).await;
    let body = vec![1; 100_000];
    let request = Request {
        expect_continue: true,
        ..Request::post("/echo", &body)
    };
    let response = client.send(&request).await;
    assert!(ok(&response).body == body);

    // A server that refuses at once receives no body.
    let server = Server::script(|_| Script {
        hang: true,
        ..Script::of(&[b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"])
    })
    .await;
    let mut client = server.client(ClientOptions::default()).await;
    for number in 1..3 {
        let response = client.send(&request).await;
        assert_eq!(ok(&response).status, 413);
        assert!(response.exchange.bytes_out < 1000);
        assert_eq!(server.connections(), number, "not to be used again");
    }
}

#[tokio::test]
async fn a_dropped_request_leaves_no_trace() {
    let server = Server::plain().await;
    let mut client = server.client(ClientOptions::default()).await;
    ok(&client.send(&Request::get("/bytes/1")).await);
    // Even if the timeout is noticed late, the response has not arrived.
    let hanging = Request::get("/hang");
    let hanging = tokio::time::timeout(Duration::from_millis(5), client.send(&hanging));
    assert!(hanging.await.is_err());
    let response = client.send(&Request::get("/bytes/3")).await;
    assert_eq!(ok(&response).body.len(), 3);
    client.close();
    let response = client.send(&Request::get("/bytes/3")).await;
    assert!(ok(&response).exchange.connect.is_some());
}
