//! Requests through the proxy, with and without TLS.

use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig, Setup};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use lucarne_proxy::{Action, Rule};
use lucarne_testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn plain_requests_lose_what_was_for_the_proxy() {
    let (rig, origin) = (Rig::new().await, Origin::plain().await);
    let request = Request::get(format!("http://{}/seen?q=1", origin.address))
        .header("host", "elsewhere.example")
        .header("proxy-authorization", "Basic secret")
        .header("connection", "keep-alive, x-once")
        .header("x-once", "1");
    let answer = client::ask(&rig, request.body(Full::default()).unwrap()).await;
    assert_eq!(answer.status, 200);
    let expected = format!(
        "GET /seen?q=1 HTTP/1.1 host={} via=1.1 lucarne-",
        origin.address
    );
    assert!(answer.body.starts_with(&expected), "{}", answer.body);
    assert!(
        answer.body.ends_with("connection= auth="),
        "{}",
        answer.body
    );
    assert!(answer.headers.contains_key("via"), "{:?}", answer.headers);
}

#[tokio::test]
async fn the_client_speaks_what_the_server_speaks() {
    let rig = Rig::new().await;
    for (server, client, expected) in [
        (&["h2", "http/1.1"][..], &["h2", "http/1.1"][..], "HTTP/2.0"),
        (&["http/1.1"], &["h2", "http/1.1"], "HTTP/1.1"),
        (&[], &["h2", "http/1.1"], "HTTP/1.1"),
        (&["h2", "http/1.1"], &["http/1.1"], "HTTP/1.1"),
        (&["h2", "http/1.1"], &[], "HTTP/1.1"),
    ] {
        let origin = Origin::https(&rig.world, &["localhost"], server).await;
        let authority = format!("localhost:{}", origin.address.port());
        // The second connection uses the protocol that the proxy learned on the first connection.
        for _ in 0..2 {
            let stream = client::tls(&rig, &rig.ca, &authority, "localhost", client)
                .await
                .unwrap();
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            assert_eq!(http2, expected == "HTTP/2.0", "{server:?} {client:?}");
            let answer = client::over(stream, "localhost", "/seen").await;
            assert!(answer.body.contains(expected), "{}", answer.body);
            // Servers behind TLS receive no Via header.
            assert!(answer.body.contains("via= "), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn connections_to_servers_are_kept() {
    let rig = Rig::new().await;
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let origin = Origin::https(&rig.world, &["localhost"], alpn).await;
        let authority = format!("localhost:{}", origin.address.port());
        for path in ["/1", "/nothing", "/2", "/3"] {
            let answer = client::get(&rig, &authority, "localhost", alpn, path).await;
            assert!(answer.status < 300, "{answer:?}");
        }
        assert_eq!(origin.taken(), 1, "{alpn:?}");
    }
    let origin = Origin::plain().await;
    for _ in 0..3 {
        let answer = client::plain(&rig, &format!("http://{}/x", origin.address)).await;
        assert_eq!(answer.body, "/x");
    }
    assert_eq!(origin.taken(), 1);
}

#[tokio::test]
async fn many_first_connections_make_one_certificate() {
    let rig = Rig::new().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["h2"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let asking = (0..100).map(|_| client::get(&rig, &authority, "localhost", &["h2"], "/x"));
    for answer in futures_util::future::join_all(asking).await {
        assert_eq!((answer.status, answer.body.as_str()), (200, "/x"));
    }
    let stats = rig.proxy.store_stats();
    assert_eq!(stats.generated, 1, "{stats:?}");
    let hosts = rig.proxy.hosts();
    assert_eq!(
        (hosts[0].host.as_str(), hosts[0].requests),
        ("localhost", 100)
    );
    assert!(hosts[0].intercepted && hosts[0].minted_us > 0, "{hosts:?}");
}

/// Twelve responses of a megabyte that the client does not read: more than the proxy, its client
/// and both connections buffer.
#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_else() {
    let rig = Rig::new().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["h2"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]);
    let mut slow = client::http2_over(stream.await.unwrap()).await;
    let mut unread = Vec::new();
    for _ in 0..12 {
        let request = Request::post("https://localhost/echo");
        let request = request.body(Full::new(Bytes::from(vec![b'x'; 1 << 20])));
        unread.push(slow.send_request(request.unwrap()).await.unwrap());
    }
    let other = client::get(&rig, &authority, "localhost", &["h2"], "/x").await;
    assert_eq!((other.status, other.body.as_str()), (200, "/x"));
    assert_eq!(origin.taken(), 1, "they share a connection");
    // The delayed responses arrive completely.
    let read = futures_util::future::join_all(unread.into_iter().map(Answer::of));
    for answer in tokio::time::timeout(EVENT_TIMEOUT, read).await.unwrap() {
        assert_eq!(answer.body.len(), 1 << 20);
    }
}

#[tokio::test]
async fn bodies_pass_through_both_ways() {
    let rig = Rig::new().await;
    let body = Bytes::from(vec![b'x'; 5 << 20]);
    for alpn in ["h2", "http/1.1"] {
        let origin = Origin::https(&rig.world, &["localhost"], &[alpn]).await;
        let authority = format!("localhost:{}", origin.address.port());
        let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &[alpn])
            .await
            .unwrap();
        let uri = match alpn {
            "h2" => "https://localhost/echo",
            _ => "/echo",
        };
        let request = Request::post(uri).header("host", "localhost");
        let request = request.body(Full::new(body.clone())).unwrap();
        let answer = match alpn {
            "h2" => client::http2_over(stream).await.send_request(request).await,
            _ => client::http1_over(stream).await.send_request(request).await,
        };
        let answer = Answer::of(answer.unwrap()).await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (200, body.len()),
            "{alpn}"
        );
    }
}

/// Upgrades the connection, and sends some bytes that the server returns.
pub(crate) async fn socket(
    mut sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    url: &str,
) {
    let request = Request::get(url)
        .header("host", "localhost")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket");
    let request = request.body(Full::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 101, "{response:?}");
    assert_eq!(response.headers()["upgrade"], "websocket");
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    for word in [&b"hello"[..], &[7; 100_000]] {
        stream.write_all(word).await.unwrap();
        let mut echo = vec![0; word.len()];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, word);
    }
}

#[tokio::test]
async fn websockets_pass_through() {
    let (rig, plain) = (Rig::new().await, Origin::plain().await);
    let stream = TcpStream::connect(rig.address).await.unwrap();
    let url = format!("http://{}/socket", plain.address);
    socket(client::http1_over(stream).await, &url).await;
    let secure = Origin::https(&rig.world, &["localhost"], &["h2", "http/1.1"]).await;
    let authority = format!("localhost:{}", secure.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["http/1.1"]).await;
    socket(client::http1_over(stream.unwrap()).await, "/socket").await;
}

#[tokio::test]
async fn a_server_says_whether_it_wants_the_body() {
    let mut setup = Setup::new();
    setup.limits.expectation = crate::common::EVENT_TIMEOUT;
    let (rig, origin) = (setup.start().await, Origin::plain().await);
    for (path, expected) in [("/echo", "100"), ("/refuse", "417")] {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        let head = format!(
            "POST http://{}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\
             Expect: 100-continue\r\n\r\n",
            origin.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let said = client::head(&mut stream).await;
        assert!(
            said.starts_with(&format!("HTTP/1.1 {expected}")),
            "{path}: {said}"
        );
        if expected == "100" {
            stream.write_all(b"hello").await.unwrap();
            let said = client::head(&mut stream).await;
            assert!(said.starts_with("HTTP/1.1 200"), "{said}");
            let mut body = [0; 5];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"hello");
        }
    }
}

fn rule(hosts: &str, action: Action) -> Rule {
    Rule {
        hosts: hosts.parse().unwrap(),
        action,
    }
}

#[tokio::test]
async fn rules_tell_what_is_passed_on_untouched() {
    let mut setup = Setup::new();
    setup.rules.rules = vec![
        rule("localhost", Action::Tunnel),
        rule("*.bank.example", Action::Tunnel),
    ];
    let rig = setup.start().await;
    let names = ["localhost", "www.bank.example", "www.shop.example"];
    let origin = Origin::https(&rig.world, &names, &["http/1.1"]).await;
    let port = origin.address.port();
    // A tunnelled client sees the server's certificate, other clients the proxy's.
    for (authority, name, ca) in [
        (format!("localhost:{port}"), "localhost", &rig.world),
        (format!("127.0.0.1:{port}"), "www.bank.example", &rig.world),
        (format!("127.0.0.1:{port}"), "www.shop.example", &rig.ca),
    ] {
        let stream = client::tls(&rig, ca, &authority, name, &["http/1.1"]).await;
        let answer = client::over(stream.unwrap(), name, "/x").await;
        assert_eq!(answer.body, "/x", "{name}");
    }
    let totals = rig.proxy.totals();
    assert_eq!((totals.tunnelled, totals.intercepted), (2, 1));
}

#[tokio::test]
async fn what_is_not_http_in_tls_is_passed_on() {
    let mut setup = Setup::new();
    // Shortens the wait for a client that lets the server send first.
    setup.limits.silence = std::time::Duration::from_millis(300);
    let rig = setup.start().await;
    let origin = Origin::of(origin::banner).await;
    for first in [&b""[..], b"SSH-2.0-test\r\n"] {
        let (mut stream, head) = client::connect(rig.address, &origin.address.to_string()).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream.write_all(first).await.unwrap();
        let expected = [b"220 ready\r\n", first].concat();
        let mut said = vec![0; expected.len()];
        let reading = stream.read_exact(&mut said);
        tokio::time::timeout(crate::common::EVENT_TIMEOUT, reading)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(said, expected);
    }
    // TLS with another protocol inside is forwarded, so the client sees the server's certificate.
    let mail = origin::acceptor(&rig.world, &["localhost"], &["imap"], |_| ());
    let origin = Origin::of(move |stream| {
        let mail = mail.clone();
        async move {
            if let Ok(mut stream) = mail.accept(stream).await {
                let _ = stream.write_all(b"* OK").await;
                let _ = stream.shutdown().await;
            }
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    let mut stream = client::tls(&rig, &rig.world, &authority, "localhost", &["imap"])
        .await
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "* OK");
}

#[tokio::test]
async fn what_is_under_way_is_finished() {
    let mut setup = Setup::new();
    setup.limits.drain = crate::common::EVENT_TIMEOUT;
    let rig = setup.start().await;
    let (begun, mut began) = tokio::sync::mpsc::channel(1);
    let stopping = Arc::new(tokio::sync::Notify::new());
    let stops = stopping.clone();
    let origin = Origin::of(move |mut stream| {
        let (begun, stops) = (begun.clone(), stops.clone());
        async move {
            let mut bytes = [0; 1024];
            let _ = stream.read(&mut bytes).await;
            begun.send(()).await.unwrap();
            stops.notified().await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";
            let _ = stream.write_all(answer).await;
        }
    })
    .await;
    let url = format!("http://{}/", origin.address);
    let stream = TcpStream::connect(rig.address).await.unwrap();
    let mut sender = client::http1_over(stream).await;
    let request = Request::get(url).body(Full::default()).unwrap();
    let asking =
        tokio::spawn(async move { Answer::of(sender.send_request(request).await.unwrap()).await });
    began.recv().await.unwrap();
    let address = rig.address;
    let answered_late = async {
        eventually("the proxy listens no more", async || {
            TcpStream::connect(address).await.is_err()
        })
        .await;
        stopping.notify_one();
        assert_eq!(asking.await.unwrap().body, "done");
    };
    tokio::join!(rig.stop(), answered_late);
}

/// Responds to one request over TLS with these bytes, and closes the connection without
/// `close_notify`.
async fn cut_off(rig: &Rig, response: &'static [u8]) -> Origin {
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &[], |_| ());
    Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            client::head(&mut stream).await;
            stream.write_all(response).await.unwrap();
            stream.flush().await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_response_that_ends_without_close_notify_is_passed_on() {
    let rig = Rig::new().await;
    let origin = cut_off(&rig, b"HTTP/1.0 200 OK\r\n\r\nto the end").await;
    let authority = format!("localhost:{}", origin.address.port());
    for alpn in [&["http/1.1"][..], &["h2"]] {
        let answer = client::get(&rig, &authority, "localhost", alpn, "/").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "to the end"));
    }
    let mut registry = prometheus_client::registry::Registry::default();
    rig.proxy.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let counted = "lucarne_proxy_unannounced_ends_total 2\n";
    assert!(text.contains(counted), "{text}");
}

#[tokio::test]
async fn a_response_that_is_cut_short_stays_cut_short() {
    let rig = Rig::new().await;
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let origin = cut_off(&rig, response).await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &[]);
    let mut sender = client::http1_over(stream.await.unwrap()).await;
    let request = Request::get("/").header("host", "localhost");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(body.is_err(), "{body:?}");
}
