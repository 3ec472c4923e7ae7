//! The first bytes of a client after CONNECT, and the decision of the rules.

use std::time::Duration;

use crate::common::client;
use crate::common::origin::{self, Origin};
use crate::common::{self, Rig, Setup};
use http::Request;
use http_body_util::Full;
use lucarne_proxy::{Action, Rule};
use lucarne_testkit::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A proxy that denies `denied.example`, and considers a client silent after a short time.
async fn strict(change: impl FnOnce(&mut Setup)) -> Rig {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.example".parse().unwrap()];
    setup.limits.silence = Duration::from_millis(300);
    change(&mut setup);
    setup.start().await
}

async fn connected(rig: &Rig, authority: &str) -> TcpStream {
    let (stream, head) = client::connect(rig.address, authority).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream
}

/// Reads until the connection is closed or reset.
async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let reading = stream.read_to_end(&mut said);
    let _ = tokio::time::timeout(common::EVENT_TIMEOUT, reading)
        .await
        .expect("not closed");
    said
}

#[tokio::test]
async fn a_client_hello_is_judged_however_late_it_comes() {
    let rig = strict(|_| ()).await;
    let names = ["localhost", "denied.example"];
    for alpn in [&["http/1.1"], &["h2"]] {
        for (name, status) in [("denied.example", 403), ("localhost", 200)] {
            let origin = Origin::https(&rig.world, &names, alpn).await;
            let authority = origin.address.to_string();
            let stream = connected(&rig, &authority).await;
            // The connection to the server shows that the proxy has noticed the client's silence.
            until("the server is asked", || origin.taken() == 1).await;
            let stream = client::tls_over(stream, &rig.ca, name, alpn).await;
            let stream = stream.expect("not intercepted");
            // The name of the connection applies to all its requests, even if they name another
            // host.
            let statuses = statuses(stream, &[name, &authority, &authority]).await;
            assert_eq!(statuses, [status; 3], "{name} {alpn:?}");
            assert!(status == 200 || origin.taken() == 1, "{alpn:?}");
        }
    }
    assert_eq!(rig.proxy.totals().tunnelled, 0);
}

/// Returns the responses to requests for each of `hosts`, one after the other on one connection.
async fn statuses(stream: TlsStream<TcpStream>, hosts: &[&str]) -> Vec<u16> {
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let request = |uri: String| Request::get(uri);
    let mut statuses = Vec::new();
    if http2 {
        let mut sender = client::http2_over(stream).await;
        for host in hosts {
            let request = request(format!("https://{host}/x")).body(Full::default());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            statuses.push(client::Answer::of(answer).await.status);
        }
        return statuses;
    }
    let mut sender = client::http1_over(stream).await;
    for host in hosts {
        let request = request("/x".to_owned()).header("host", *host);
        sender.ready().await.unwrap();
        let answer = sender.send_request(request.body(Full::default()).unwrap());
        statuses.push(client::Answer::of(answer.await.unwrap()).await.status);
    }
    statuses
}

#[tokio::test]
async fn what_is_tunnelled_for_its_protocol_is_judged_by_its_name() {
    let rig = strict(|_| ()).await;
    let origin = Origin::https(&rig.world, &["localhost", "denied.example"], &["imap"]).await;
    let authority = origin.address.to_string();
    let denied = client::tls(&rig, &rig.world, &authority, "denied.example", &["imap"]).await;
    assert!(denied.is_err(), "it got past the rules");
    assert_eq!(origin.taken(), 0);
    let allowed = client::tls(&rig, &rig.world, &authority, "localhost", &["imap"]).await;
    assert!(allowed.is_ok(), "{allowed:?}");
}

#[tokio::test]
async fn a_tunnel_rule_for_one_name_is_none_for_another() {
    let rig = strict(|setup| {
        setup.rules.rules = vec![Rule {
            hosts: "localhost".parse().unwrap(),
            action: Action::Tunnel,
        }];
    })
    .await;
    let names = ["localhost", "denied.example"];
    let origin = Origin::https(&rig.world, &names, &["http/1.1"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let denied = client::tls(&rig, &rig.world, &authority, "denied.example", &[]).await;
    assert!(denied.is_err(), "it got past the rules");
    let allowed = client::tls(&rig, &rig.world, &authority, "localhost", &[]).await;
    let answer = client::over(allowed.unwrap(), "localhost", "/x").await;
    assert_eq!(answer.body, "/x");
}

#[tokio::test]
async fn a_client_hello_in_pieces_is_one() {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.example".parse().unwrap()];
    let rig = setup.start().await;
    for fragment in [None, Some(40)] {
        for name in ["denied.example", "localhost"] {
            let hello = client::hello(&rig.world, name, &["imap"], fragment);
            let expected = hello.clone();
            let (got, mut came) = tokio::sync::mpsc::channel(1);
            let origin = Origin::of(move |mut stream| {
                let (got, mut bytes) = (got.clone(), vec![0; expected.len()]);
                let expected = expected.clone();
                async move {
                    stream.read_exact(&mut bytes).await.unwrap();
                    got.send(bytes == expected).await.unwrap();
                }
            })
            .await;
            let mut stream = connected(&rig, &origin.address.to_string()).await;
            stream.set_nodelay(true).unwrap();
            for byte in hello {
                // The last bytes may find the connection closed.
                let _ = stream.write_all(&[byte]).await;
                tokio::task::yield_now().await;
            }
            if name == "localhost" {
                assert_eq!(came.recv().await, Some(true), "{fragment:?}");
            } else {
                let said = rest(stream).await;
                assert!(said.first().is_none_or(|kind| *kind == 21), "{said:?}");
                assert_eq!(origin.taken(), 0, "{fragment:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_only_begins_like_tls_or_http_goes_nowhere() {
    let rig = strict(|setup| setup.limits.handshake = Duration::from_millis(500)).await;
    let origin = Origin::plain().await;
    for start in [
        &[22][..],
        &[22, 3, 1, 0],
        &[22, 3, 1, 0, 4, 9, 9, 9, 9],
        // A ClientHello of SSL 2, which has no name.
        &[0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10],
        b"GET / HTTP/1.1",
        b"\r\nGET / HT",
    ] {
        let mut stream = connected(&rig, &origin.address.to_string()).await;
        stream.write_all(start).await.unwrap();
        let said = rest(stream).await;
        assert!(said.first().is_none_or(|kind| *kind == 21), "{said:?}");
        assert_eq!(origin.taken(), 0, "{start:?}");
    }
}

#[tokio::test]
async fn tls_does_not_follow_a_server_that_spoke() {
    let rig = strict(|_| ()).await;
    for (first, closed) in [
        (client::hello(&rig.world, "denied.example", &[], None), true),
        (
            b"GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n".to_vec(),
            true,
        ),
        // A request line without a line end.
        (b"GET http://denied.example/ HTTP/1.0".to_vec(), true),
        (b"EHLO a.example\r\n".to_vec(), false),
    ] {
        let origin = Origin::of(origin::banner).await;
        let mut stream = connected(&rig, &origin.address.to_string()).await;
        let mut banner = [0; 11];
        stream.read_exact(&mut banner).await.unwrap();
        assert_eq!(&banner, b"220 ready\r\n");
        stream.write_all(&first).await.unwrap();
        if closed {
            // The proxy may have closed the connection already.
            let _ = stream.shutdown().await;
            assert_eq!(rest(stream).await, b"");
            continue;
        }
        let mut echo = vec![0; first.len()];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, first);
    }
}

#[tokio::test]
async fn requests_in_the_clear_are_judged_like_others() {
    let rig = strict(|_| ()).await;
    let origin = Origin::plain().await;
    let authority = origin.address.to_string();
    for (host, status) in [("denied.example", 403), ("localhost", 200)] {
        for lead in ["", "\r\n"] {
            let mut stream = connected(&rig, &authority).await;
            let request = format!("{lead}GET /seen HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let (start, end) = request.split_at(lead.len() + 7);
            stream.write_all(start.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            stream.write_all(end.as_bytes()).await.unwrap();
            let said = client::head(&mut stream).await;
            assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
        }
    }
    // HTTP/2 without TLS, as gRPC uses it.
    let origin = Origin::of(origin::clear_http2).await;
    let mut sender = client::http2_over(connected(&rig, &origin.address.to_string()).await).await;
    for (host, status) in [("denied.example", 403), ("localhost", 200)] {
        let request = Request::get(format!("http://{host}/seen"));
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let answer = client::Answer::of(sender.send_request(request).await.unwrap()).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(
            status != 200 || answer.body.contains("HTTP/2.0"),
            "{answer:?}"
        );
    }
}

/// The client behaves like `nc` with empty input.
#[tokio::test]
async fn a_client_that_has_nothing_to_say_hears_the_server() {
    let rig = strict(|_| ()).await;
    let origin = Origin::of(origin::banner).await;
    let mut stream = connected(&rig, &origin.address.to_string()).await;
    stream.shutdown().await.unwrap();
    assert_eq!(rest(stream).await, b"220 ready\r\n");
}

/// Some servers skip blanks, accept any byte in a path, or respond to a line without an end.
#[tokio::test]
async fn requests_that_only_lenient_servers_read_reach_none() {
    let rig = strict(|_| ()).await;
    let origin = Origin::of(origin::banner).await;
    for request in [
        "GET /\x01 HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        "\r\n\tGET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        "GET\x0b/ HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        "GET http://denied.example/ HTTP/1.0",
    ] {
        let mut stream = connected(&rig, &origin.address.to_string()).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let said = String::from_utf8(rest(stream).await).unwrap();
        let refused = said.is_empty() || said.starts_with("HTTP/1.1 400");
        assert!(refused, "{request:?}: {said}");
        assert_eq!(origin.taken(), 0, "{request:?}");
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_judged_is_refused() {
    let rig = strict(|_| ()).await;
    let origin = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    for host in [
        &b"denied.example:"[..],
        b"denied.example:0443",
        b"denied.example:99999",
        b"denied..example",
        b"\xffdenied.example",
    ] {
        let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["http/1.1"]).await;
        let mut sender = client::http1_over(stream.unwrap()).await;
        let request = Request::get("/x").header("host", host);
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let answer = client::Answer::of(sender.send_request(request).await.unwrap()).await;
        assert!(matches!(answer.status, 400 | 403), "{host:?}: {answer:?}");
    }
    assert_eq!(origin.taken(), 0);
}

#[tokio::test]
async fn requests_do_not_hide_behind_an_upgrade() {
    let rig = strict(|_| ()).await;
    let origin = Origin::plain().await;
    for (asked, passed) in [
        ("h2c", ""),
        ("TLS/1.2, HTTP/2.0, H2C", ""),
        ("h2c, websocket", "websocket"),
        ("websocket/13", "websocket/13"),
    ] {
        let request = Request::get(format!("http://{}/header/upgrade", origin.address))
            .header("connection", "Upgrade, HTTP2-Settings")
            .header("upgrade", asked)
            .header("http2-settings", "AAMAAABkAAQAoAAAAAIAAAAA");
        let answer = client::ask(&rig, request.body(Full::default()).unwrap()).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, passed),
            "{asked}"
        );
    }
}
