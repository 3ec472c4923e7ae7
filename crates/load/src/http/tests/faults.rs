//! Faults, and the kinds of their failures.

use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::server::{Refusal, Script, Server};
use crate::Failure;
use crate::http::{
    Body, BodyBudget, Client, ClientOptions, Endpoint, Headers, Keep, Request, Response,
    TlsOptions, TlsVersion, Version, kind,
};

fn impatient() -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(200),
        ..ClientOptions::default()
    }
}

fn http2() -> ClientOptions {
    ClientOptions {
        version: Version::Http2,
        ..ClientOptions::default()
    }
}

async fn get(server: &Server, options: ClientOptions) -> Response {
    server.client(options).await.send(&Request::get("/")).await
}

fn failure(response: Response) -> Failure {
    response.exchange.outcome.unwrap_err()
}

/// The end of a connection has the kind `reset` in the TLS handshake, too.
#[tokio::test]
async fn a_connection_that_ends_in_the_handshake_was_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16]).await;
        }
    });
    let options = Arc::new(ClientOptions::default());
    let endpoint = Endpoint::resolve(&url, &options).await.unwrap();
    let mut client = Client::new(endpoint, options);
    assert_eq!(failure(client.handshake().await).kind, kind::RESET);
    assert_eq!(
        failure(client.send(&Request::get("/")).await).kind,
        kind::RESET
    );
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut server = Server::plain().await;
    server.address = address;
    for version in [Version::Http1, Version::Http2] {
        let options = ClientOptions {
            version,
            ..ClientOptions::default()
        };
        let failure = failure(get(&server, options).await);
        assert_eq!(failure.kind, kind::CONNECT_REFUSED);
        assert!(failure.detail.contains(&address.to_string()), "{failure}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    let server = Server::script(|_| Script {
        hang: true,
        ..Script::of(&[])
    })
    .await;
    let response = get(&server, impatient()).await;
    assert!(response.exchange.finished - response.exchange.started >= Duration::from_millis(290));
    assert!(response.exchange.sending.is_some() && response.exchange.first_byte.is_none());
    assert_eq!(
        (response.status, failure(response).kind),
        (0, kind::TIMEOUT)
    );

    // This server never completes a TLS handshake.
    let mut tls = server;
    tls.root = Some(String::new());
    let failure = failure(get(&tls, impatient()).await);
    assert_eq!(failure.kind, kind::CONNECT_TIMEOUT, "{failure}");
}

#[tokio::test]
async fn a_body_that_dries_up() {
    let server = Server::script(|_| Script {
        hang: true,
        ..Script::of(&[b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345"])
    })
    .await;
    let response = get(&server, impatient()).await;
    assert_eq!((response.status, &response.body[..]), (200, &b"12345"[..]));
    let failure = failure(response);
    assert_eq!(failure.kind, kind::TIMEOUT);
    assert!(failure.detail.contains("response was read"), "{failure}");
}

#[tokio::test]
async fn answers_that_are_none() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1 << 30);
    for (bytes, expected) in [
        (&b""[..], kind::RESET),
        (b"HTTP/1.1 20", kind::RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", kind::BODY),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
            kind::BODY,
        ),
        (b"220 mail.example ESMTP\r\n", kind::PROTOCOL),
        (b"HTTP/1.1 204 No Content\r\n\r\nbody", kind::PROTOCOL),
        (long.as_bytes(), kind::BODY),
    ] {
        let answer = bytes.to_vec();
        let server = Server::script(move |_| Script::of(&[&answer])).await;
        let failure = failure(get(&server, impatient()).await);
        assert_eq!(failure.kind, expected, "{failure}");
    }
}

/// The flag distinguishes a body beyond the limit of its request from a body that ends early.
#[tokio::test]
async fn a_body_beyond_the_limit_of_its_request() {
    let head = "HTTP/1.1 200 OK\r\n";
    for (body, is_too_long) in [
        ("content-length: 5\r\n\r\n12345", true),
        (
            "transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
            true,
        ),
        ("\r\n12345", true),
        ("content-length: 4\r\n\r\n123", false),
    ] {
        let answer = format!("{head}{body}").into_bytes();
        let server = Server::script(move |_| Script::of(&[&answer])).await;
        let mut client = server.client(impatient()).await;
        let response = client.send(&Request::get("/").max_body(4)).await;
        assert_eq!((response.status, response.is_too_long), (200, is_too_long));
        assert_eq!(failure(response).kind, kind::BODY);
    }
    for version in [Version::Http1, Version::Http2] {
        let options = ClientOptions {
            version,
            ..ClientOptions::default()
        };
        let server = Server::plain().await;
        let mut client = server.client(options).await;
        let response = client.send(&Request::get("/bytes/5").max_body(4)).await;
        assert!(response.is_too_long);
        assert_eq!(failure(response).detail, "the body is longer than 4 bytes");
        let response = client.send(&Request::get("/bytes/4").max_body(4)).await;
        assert!(response.is(&[200]) && !response.is_too_long);
    }
}

/// Dropped bodies are counted, have no limit, and are passed to a reader.
#[tokio::test]
async fn bodies_that_nobody_needs_are_counted_and_dropped() {
    for version in [Version::Http1, Version::Http2] {
        let budget = BodyBudget::new(1_000_000, "`--max-body`", Arc::default());
        let options = ClientOptions {
            version,
            max_body: 10,
            body_budget: Some(budget.clone()),
            ..ClientOptions::default()
        };
        let server = Server::plain().await;
        let mut client = server.client(options).await;
        let request = Request::get("/bytes/5000000").keep(Keep::Start);
        let response = client.send(&request).await;
        assert!(response.is(&[200]));
        assert_eq!(response.exchange.body_in, 5_000_000);
        assert_eq!((response.body.len(), budget.held()), (Keep::START, 0));
        let (mut read, mut pieces) = (0, 0);
        let mut reader = |headers: &Headers, piece: &[u8]| {
            assert!(headers.get("content-length").is_some());
            (read, pieces) = (read + piece.len(), pieces + 1);
        };
        let response = client.stream(&request, &mut reader).await;
        assert!(response.is(&[200]) && response.body.len() == Keep::START);
        assert!(
            (read, pieces > 1) == (5_000_000, true),
            "{read} in {pieces}"
        );
    }
}

/// The bodies in memory of all clients together have a limit. A request over the limit fails; the
/// connection of HTTP/2 stays open.
#[tokio::test]
async fn bodies_in_memory_have_a_limit_together() {
    for version in [Version::Http1, Version::Http2] {
        let budget = BodyBudget::new(1_500_000, "`--max-body`", Arc::default());
        let options = ClientOptions {
            version,
            body_budget: Some(budget.clone()),
            ..ClientOptions::default()
        };
        let server = Server::plain().await;
        let (mut one, mut other) = (
            server.client(options.clone()).await,
            server.client(options).await,
        );
        let request = Request::get("/bytes/1000000");
        let first = one.send(&request).await;
        assert!(first.is(&[200]) && budget.held() == 1_000_000);
        let failure = failure(other.send(&request).await);
        assert_eq!(failure.kind, kind::MAX_BODY);
        assert!(failure.detail.ends_with("raise `--max-body`"), "{failure}");
        drop(first);
        assert_eq!(budget.held(), 0);
        assert!(other.send(&request).await.is(&[200]));
    }
}

/// An endless body ends with the timeout of its request.
#[tokio::test]
async fn an_endless_body_lasts_until_the_timeout() {
    let server = Server::endless().await;
    let options = ClientOptions {
        timeout: Duration::from_secs(2),
        ..ClientOptions::default()
    };
    let mut client = server.client(options).await;
    let response = client.send(&Request::get("/").keep(Keep::Start)).await;
    assert!(
        response.exchange.body_in > Keep::START as u64,
        "{:?}",
        response.exchange
    );
    assert_eq!(response.body.len(), Keep::START);
    let failure = failure(response);
    assert_eq!(failure.kind, kind::TIMEOUT);
    assert!(
        failure.detail.ends_with("while the response was read"),
        "{failure}"
    );
}

/// The client accepts any certificate with `insecure`, but the server must have the certificate's
/// key.
#[tokio::test]
async fn a_server_without_the_key_of_its_certificate() {
    let server = Server::impostor().await;
    for versions in [vec![TlsVersion::V1_2], vec![TlsVersion::V1_3]] {
        let tls = TlsOptions {
            versions,
            ..TlsOptions::default()
        };
        let options = ClientOptions {
            insecure: true,
            tls,
            ..ClientOptions::default()
        };
        let failure = failure(get(&server, options).await);
        assert_eq!(failure.kind, kind::TLS);
        assert!(failure.detail.contains("did not prove"), "{failure}");
    }
}

#[tokio::test]
async fn a_tls_connection_that_ends_without_close_notify() {
    let insecure = || ClientOptions {
        insecure: true,
        ..ClientOptions::default()
    };
    let server = Server::cut_off(b"HTTP/1.0 200 OK\r\n\r\nto the end").await;
    let response = get(&server, insecure()).await;
    assert_eq!(response.exchange.outcome, Ok(()));
    assert_eq!(
        (response.status, &response.body[..]),
        (200, &b"to the end"[..])
    );
    assert!(response.exchange.unannounced_end);

    for (bytes, expected) in [
        (&b""[..], kind::RESET),
        (b"HTTP/1.1 20", kind::RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", kind::BODY),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
            kind::BODY,
        ),
    ] {
        let response = get(&Server::cut_off(bytes).await, insecure()).await;
        assert!(!response.exchange.unannounced_end);
        let failure = failure(response);
        assert_eq!(failure.kind, expected, "{failure}");
        assert!(!failure.detail.contains("docs.rs"), "{failure}");
    }
}

#[tokio::test]
async fn a_plain_server_asked_for_tls() {
    let mut server = Server::plain().await;
    server.root = Some(String::new());
    let failure = failure(get(&server, ClientOptions::default()).await);
    assert_eq!(failure.kind, kind::TLS, "{failure}");
}

#[tokio::test]
async fn a_server_that_speaks_no_http2() {
    // The connection stays open, because a reset could overtake the response.
    let server = Server::script(|_| Script {
        hang: true,
        ..Script::of(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"])
    })
    .await;
    let failure = failure(get(&server, http2()).await);
    assert_eq!(failure.kind, kind::PROTOCOL, "{failure}");
    assert_eq!(
        failure.detail,
        "the response is not HTTP/2 (connection error detected: frame with invalid size): for a \
         server that speaks only HTTP/1.1, leave out `--http 2` (`http: 2` in a plan)"
    );
}

/// The first request of a connection succeeds. The server refuses the second request with a code of
/// HTTP/2, which the client neither hides by a repetition nor reports as a closed connection.
#[tokio::test]
async fn a_refusal_over_http2_is_a_failure_with_its_code() {
    for (refusal, expected, detail, next) in [
        (
            Refusal::Stream(Reason::REFUSED_STREAM),
            kind::STREAM_RESET,
            "the server reset the stream (REFUSED_STREAM): ",
            1,
        ),
        (
            Refusal::Stream(Reason::HTTP_1_1_REQUIRED),
            kind::STREAM_RESET,
            "leave out `--http 2`",
            1,
        ),
        (
            Refusal::Connection(Reason::ENHANCE_YOUR_CALM),
            kind::GOAWAY,
            "the server ended the connection with GOAWAY (ENHANCE_YOUR_CALM): ",
            2,
        ),
    ] {
        let server = Server::refusing(refusal).await;
        let mut client = server.client(http2()).await;
        assert!(client.send(&Request::get("/")).await.is(&[200]));
        let response = client.send(&Request::get("/")).await;
        assert_eq!(response.exchange.resent, None);
        assert_eq!(server.connections(), 1, "{refusal:?}");
        let failure = failure(response);
        assert_eq!(failure.kind, expected, "{failure}");
        assert!(failure.detail.contains(detail), "{failure}");
        // A reset stream leaves its connection intact.
        client.send(&Request::get("/")).await;
        assert_eq!(server.connections(), next, "{refusal:?}");
    }
}

/// The server responds after the head and closes the connection: the response counts.
#[tokio::test]
async fn an_answer_before_the_request_is_out() {
    let server = Server::script(|_| Script::of(&[b"HTTP/1.1 413 Too Large\r\n\r\n"])).await;
    let mut client = server.client(ClientOptions::default()).await;
    let body = vec![0; 20 << 20];
    let response = client.send(&Request::post("/", &body)).await;
    // The reset may overtake the response; the client must not hang.
    match response.exchange.outcome {
        Ok(()) => assert_eq!(response.status, 413),
        Err(failure) => assert!(failure.kind == kind::RESET || failure.kind == kind::BODY),
    }
    assert!(response.exchange.bytes_out < 20 << 20);
}

#[tokio::test]
async fn requests_that_cannot_be_sent() {
    let server = Server::plain().await;
    let mut client = server.client(ClientOptions::default()).await;
    let header = [("x", "a\r\ny: b")];
    let name = [("a b", "")];
    for request in [
        Request::get("no-slash"),
        Request::get("/a b"),
        Request::get("/").headers(&header),
        Request::get("/").headers(&name),
    ] {
        let failure = failure(client.send(&request).await);
        assert_eq!(failure.kind, kind::REQUEST);
    }
    let request = Request::post("/echo", Body::Empty);
    assert!(client.send(&request).await.is(&[200]));
    assert_eq!(server.connections(), 1);
}
