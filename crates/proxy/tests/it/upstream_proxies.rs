//! Servers behind an upstream proxy. The upstream proxy, the parent, is Lucarne as well.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use lucarne_proxy::{Action, Rule, UpstreamRoute, Users};
use lucarne_testkit::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig, Setup};

/// Returns a route for `hosts` to the proxy at `url`, or without a proxy if `url` is `direct`.
fn way(hosts: &str, url: &str) -> UpstreamRoute {
    UpstreamRoute {
        hosts: hosts.parse().unwrap(),
        through: (url != "direct").then(|| url.parse().unwrap()),
    }
}

fn tunnel(hosts: &str) -> Rule {
    Rule {
        hosts: hosts.parse().unwrap(),
        action: Action::Tunnel,
    }
}

/// A proxy that intercepts nothing.
fn parent() -> Setup {
    let mut setup = Setup::new();
    setup.rules.default = Action::Tunnel;
    setup.rules.resolve = vec![("*.localhost".parse().unwrap(), [127, 0, 0, 1].into())];
    setup
}

/// A proxy with these routes that tunnels one host.
fn child(upstream_routes: Vec<UpstreamRoute>) -> Setup {
    let mut setup = Setup::new();
    setup.upstream_routes.through = upstream_routes;
    setup.rules.rules = vec![tunnel("tunnelled.localhost")];
    setup
}

/// Sends a request in three ways: plain, intercepted and tunnelled. Returns the status of each
/// response, and the `Proxy-Status` with the body.
async fn ways_in(rig: &Rig, port: u16) -> [(u16, String); 3] {
    let said = |answer: Answer| {
        let status = answer.headers.get("proxy-status");
        let status = status.map_or("", |value| value.to_str().unwrap());
        (answer.status, format!("{status}\n{}", answer.body))
    };
    let authority = format!("localhost:{port}");
    let plain = client::plain(rig, &format!("http://{authority}/x")).await;
    let inside = client::get(rig, &authority, "localhost", &["http/1.1"], "/x").await;
    let request = format!(
        "CONNECT tunnelled.localhost:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    );
    let tunnelled = client::raw(rig.address, request.as_bytes()).await;
    let status = tunnelled.split(' ').nth(1).unwrap().parse().unwrap();
    [said(plain), said(inside), (status, tunnelled)]
}

#[tokio::test]
async fn everything_goes_through_the_upstream_proxy() {
    let parent = parent().start().await;
    let mut setup = child(vec![way("*", &format!("http://{}", parent.address))]);
    setup.world = parent.world.clone();
    let rig = setup.start().await;
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let origin = Origin::https(&rig.world, &["localhost"], alpn).await;
        let authority = format!("localhost:{}", origin.address.port());
        for path in ["/1", "/2", "/3"] {
            let answer = client::get(&rig, &authority, "localhost", alpn, path).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, path));
        }
        // One connection through the parent, which is kept.
        assert_eq!(origin.taken(), 1, "{alpn:?}");
    }
    assert_eq!(parent.proxy.totals().tunnelled, 2);

    let origin = Origin::plain().await;
    let url = format!("http://localhost:{}/seen?q=1", origin.address.port());
    let answer = client::plain(&rig, &url).await;
    // Both proxies forwarded the request with the host that the client sent.
    let expected = format!(
        "GET /seen?q=1 HTTP/1.1 host=localhost:{} via=1.1 lucarne-",
        origin.address.port()
    );
    assert!(answer.body.starts_with(&expected), "{}", answer.body);
    assert!(
        answer.body.ends_with("connection= auth="),
        "{}",
        answer.body
    );
    assert_eq!(parent.proxy.totals().requests, 1);

    // The first bytes of a server that sends first arrive together with the response to CONNECT.
    let origin = Origin::of(origin::banner).await;
    let (mut stream, head) = client::connect(
        rig.address,
        &format!("tunnelled.localhost:{}", origin.address.port()),
    )
    .await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream.write_all(b"hello").await.unwrap();
    let mut said = [0; 16];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"220 ready\r\nhello");
}

#[tokio::test]
async fn patterns_tell_who_is_asked() {
    let parent = parent().start().await;
    let (by_parent, direct) = (Origin::plain().await, Origin::plain().await);
    let url = format!("http://{}", parent.address);
    let rig = child(vec![
        way(&format!("localhost:{}", direct.address.port()), "direct"),
        way("localhost", &url),
    ])
    .start()
    .await;
    for (origin, asked) in [(&by_parent, 1), (&direct, 1)] {
        let url = format!("http://localhost:{}/x", origin.address.port());
        assert_eq!(client::plain(&rig, &url).await.body, "/x");
        assert_eq!(parent.proxy.totals().requests, asked);
    }
    // Without a matching pattern the connection is direct.
    let url = format!("http://{}/x", direct.address);
    assert_eq!(client::plain(&rig, &url).await.body, "/x");
    assert_eq!(parent.proxy.totals().requests, 1);
}

#[tokio::test]
async fn the_upstream_proxy_is_told_who_asks_and_nobody_else() {
    let mut setup = parent();
    setup.users = Some(Users::parse("anna:p@ss").unwrap());
    let parent = setup.start().await;
    let world = parent.world.clone();
    let through = |user: &str| {
        let url = format!("http://{user}{}", parent.address);
        let mut setup = child(vec![way("*", &url)]);
        setup.world = world.clone();
        setup.start()
    };
    let origin = Origin::https(&world, &["localhost"], &["h2"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let plain = Origin::plain().await;
    let url = format!("http://{}/seen", plain.address);
    let known = through("anna:p%40ss@").await;
    let answer = client::get(&known, &authority, "localhost", &["h2"], "/seen").await;
    assert!(answer.body.ends_with("auth="), "{}", answer.body);
    let answer = client::plain(&known, &url).await;
    assert!(answer.body.ends_with("auth="), "{}", answer.body);

    for user in ["", "anna:wrong@"] {
        let unknown = through(user).await;
        for (status, said) in ways_in(&unknown, origin.address.port()).await {
            // Not 407, because the client would send its own credentials.
            assert_eq!(status, 502, "{said}");
            let name = format!("http://{}", parent.address);
            let expected = format!(
                "The upstream proxy {name} responded with 407 Proxy Authentication Required"
            );
            assert!(said.contains(&expected), "{said}");
            let expected = format!("next-hop=\"{name}\"; received-status=407");
            assert!(said.contains(&expected), "{said}");
            assert!(said.contains("(upstream.proxy)"), "{said}");
            assert!(!said.contains("wrong"), "{said}");
        }
    }
    assert_eq!((origin.taken(), plain.taken()), (1, 1));
}

#[tokio::test]
async fn a_refusal_is_the_upstream_proxy_s_and_said_so() {
    let mut setup = parent();
    setup.rules.deny = vec!["*:1".parse().unwrap()];
    setup.rules.ports = vec!["1-65535".parse().unwrap()];
    let parent = setup.start().await;
    let mut setup = child(vec![way("*", &format!("http://{}", parent.address))]);
    setup.rules.ports = vec!["1-65535".parse().unwrap()];
    let rig = setup.start().await;
    let port = free_port();
    for (port, status, word) in [
        (1, 403, "http_request_denied"),
        (port, 502, "connection_refused"),
    ] {
        for (way, (got, said)) in ways_in(&rig, port).await.into_iter().enumerate() {
            assert_eq!(got, status, "{said}");
            let name = format!(
                "next-hop=\"http://{}\"; received-status={status}",
                parent.address
            );
            // For a plain request, the parent's page is forwarded, and the parent's header comes
            // first.
            if way > 0 {
                let told = format!(
                    "The upstream proxy http://{} responded with {status}",
                    parent.address
                );
                assert!(said.contains(&told) && said.contains(&name), "{said}");
            }
            assert!(said.contains(word), "{said}");
        }
    }
}

#[tokio::test]
async fn without_the_upstream_proxy_nothing_is_connected_to() {
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (closing, garbage) = (
        Origin::of(origin::slam).await,
        Origin::of(origin::banner).await,
    );
    let cut = Origin::of(async |mut stream| {
        client::head(&mut stream).await;
        // The proxy may close the connection at any time.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
    })
    .await;
    for (proxy, why) in [
        (dead, "Connection refused"),
        (closing.address, "closed the connection before it responded"),
        (cut.address, "before the end of its response's head"),
        (garbage.address, "not valid HTTP"),
    ] {
        let rig = child(vec![way("*", &format!("http://{proxy}"))])
            .start()
            .await;
        let plain = Origin::plain().await;
        let secure = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
        for origin in [&plain, &secure] {
            for (way, (status, said)) in ways_in(&rig, origin.address.port())
                .await
                .into_iter()
                .enumerate()
            {
                assert_eq!(status, 502, "{said}");
                if way > 0 || proxy == dead {
                    let told = format!("The upstream proxy http://{proxy} cannot be used: ");
                    assert!(said.contains(&told) && said.contains(why), "{said}");
                }
            }
            assert_eq!(origin.taken(), 0, "does not connect directly");
        }
    }
}

#[tokio::test]
async fn circles_are_refused() {
    // A route to the proxy itself.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let rig = child(vec![way("*", &own)]).start_on(listener).await;
    for (status, said) in ways_in(&rig, 8443).await {
        assert_eq!(status, 403, "{said}");
        assert!(said.contains("proxy_loop_detected"), "{said}");
        assert!(
            said.contains(&format!("The upstream proxy {own}")),
            "{said}"
        );
    }
    // A loop through another proxy, which tunnels or intercepts TLS. The first proxy need not trust
    // the other one.
    for (action, trusted) in [
        (Action::Tunnel, true),
        (Action::Intercept, true),
        (Action::Intercept, false),
    ] {
        let (first, second) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let to = |listener: &TcpListener| {
            vec![way(
                "*",
                &format!("http://{}", listener.local_addr().unwrap()),
            )]
        };
        let mut setup = child(to(&first));
        setup.rules.default = action;
        let mut back = child(to(&second));
        let there = setup.start_on(second).await;
        if trusted {
            back.world = there.ca.clone();
        }
        let here = back.start_on(first).await;
        let authority = "localhost:8443";
        let plain = client::plain(&here, &format!("http://{authority}/x")).await;
        let inside = client::get(&here, authority, "localhost", &["http/1.1"], "/x").await;
        let inside_http2 = client::get(&here, authority, "localhost", &["h2"], "/x").await;
        for answer in [plain, inside, inside_http2] {
            assert_eq!(answer.status, 403, "{action:?} {trusted}: {answer:?}");
            let told = answer.headers["proxy-status"].to_str().unwrap();
            assert!(told.contains("proxy_loop_detected"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_upstream_proxy_can_be_behind_tls() {
    let parent = parent().start().await;
    let world = parent.world.clone();
    for (names, works) in [(["localhost"], true), (["elsewhere.test"], false)] {
        let acceptor = origin::acceptor(&world, &names, &["http/1.1"], |_| ());
        let behind = parent.address;
        let front = Origin::of(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut client) = acceptor.accept(stream).await else {
                    return;
                };
                let mut proxy = TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut proxy).await;
            }
        })
        .await;
        let url = format!("https://localhost:{}", front.address.port());
        let mut setup = child(vec![way("*", &url)]);
        setup.world = world.clone();
        let rig = setup.start().await;
        let origin = Origin::https(&world, &["localhost"], &["h2"]).await;
        let authority = format!("localhost:{}", origin.address.port());
        let answer = client::get(&rig, &authority, "localhost", &["h2"], "/x").await;
        let plain = Origin::plain().await;
        let seen = client::plain(&rig, &format!("http://{}/x", plain.address)).await;
        if works {
            assert_eq!((answer.body.as_str(), seen.body.as_str()), ("/x", "/x"));
        } else {
            for answer in [answer, seen] {
                assert_eq!(answer.status, 502, "{answer:?}");
                assert!(
                    answer.body.contains(&format!("The upstream proxy {url}")),
                    "{answer:?}"
                );
                assert!(answer.body.contains("other names"), "{answer:?}");
            }
            assert_eq!((origin.taken(), plain.taken()), (0, 0));
        }
    }
}

#[tokio::test]
async fn inner_addresses_are_not_asked_for_elsewhere_either() {
    let parent = parent().start().await;
    let mut setup = child(vec![way("*", &format!("http://{}", parent.address))]);
    setup.rules.private = false;
    let rig = setup.start().await;
    let origin = Origin::plain().await;
    let port = origin.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "0x7f000001",
        "0xa9fea9fe",
        "[::1]",
        "169.254.169.254",
    ] {
        let answer = client::plain(&rig, &format!("http://{host}:{port}/x")).await;
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
    }
    assert!(
        parent.proxy.hosts().is_empty(),
        "{:?}",
        parent.proxy.hosts()
    );
}

#[tokio::test]
async fn bodies_pass_through_both_proxies() {
    let parent = parent().start().await;
    let rig = child(vec![way("*", &format!("http://{}", parent.address))])
        .start()
        .await;
    let origin = Origin::plain().await;
    let body = Bytes::from(vec![b'x'; 5 << 20]);
    let request = Request::post(format!("http://{}/echo", origin.address));
    let request = request.body(Full::new(body.clone())).unwrap();
    let answer = client::ask(&rig, request).await;
    assert_eq!((answer.status, answer.body.len()), (200, body.len()));
}

#[tokio::test]
async fn what_is_not_tls_inside_connect_goes_by_connect_too() {
    let parent = parent().start().await;
    let mut setup = child(vec![way("*", &format!("http://{}", parent.address))]);
    setup.limits.silence = Duration::from_millis(50);
    let rig = setup.start().await;
    // Requests without TLS, which the parent forwards as bytes.
    let origin = Origin::plain().await;
    let authority = format!("localhost:{}", origin.address.port());
    let (stream, head) = client::connect(rig.address, &authority).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let request = Request::get("/seen").header("host", "elsewhere.example");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let answer = client::http1_over(stream).await.send_request(request).await;
    let answer = Answer::of(answer.unwrap()).await;
    let expected = "GET /seen HTTP/1.1 host=elsewhere.example via= ";
    assert!(answer.body.starts_with(expected), "{}", answer.body);
    assert_eq!(parent.proxy.totals().requests, 0);
    // A client that waits for the server to send first.
    let origin = Origin::of(origin::banner).await;
    let authority = format!("localhost:{}", origin.address.port());
    let (mut stream, _) = client::connect(rig.address, &authority).await;
    let mut said = [0; 11];
    let reading = stream.read_exact(&mut said);
    tokio::time::timeout(EVENT_TIMEOUT, reading)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&said, b"220 ready\r\n");
    stream.write_all(b"EHLO me\r\n").await.unwrap();
    let mut said = [0; 9];
    let reading = stream.read_exact(&mut said);
    tokio::time::timeout(EVENT_TIMEOUT, reading)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&said, b"EHLO me\r\n");
    assert_eq!(parent.proxy.totals().tunnelled, 2);
}

#[tokio::test]
async fn a_wrong_password_is_one_also_where_it_is_told_as_servers_do() {
    // Tinyproxy sends this response.
    let parent = Origin::of(|mut stream| async move {
        client::head(&mut stream).await;
        let refusal = b"HTTP/1.0 401 Unauthorized\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(refusal).await;
    })
    .await;
    let url = format!("http://anna:wrong@{}", parent.address);
    let rig = child(vec![way("*", &url)]).start().await;
    let [_, intercepted, tunnelled] = ways_in(&rig, 8443).await;
    for (status, said) in [intercepted, tunnelled] {
        assert_eq!(status, 502, "{said}");
        assert!(said.contains("proxy_configuration_error"), "{said}");
        assert!(said.contains("responded with 401 Unauthorized"), "{said}");
        assert!(said.contains("user name and the password"), "{said}");
    }
}

#[tokio::test]
async fn an_upstream_proxy_that_breaks_off_is_not_taken_for_the_server() {
    let parent = Origin::of(origin::slam).await;
    let url = format!("http://{}", parent.address);
    let rig = child(vec![way("*", &url)]).start().await;
    let answer = client::plain(&rig, "http://localhost:8080/x").await;
    assert_eq!(answer.status, 502, "{answer:?}");
    let said = format!("The upstream proxy {url} cannot be used");
    assert!(answer.body.contains(&said), "{}", answer.body);
    let told = format!("lucarne; error=connection_terminated; next-hop=\"{url}\"");
    assert_eq!(answer.headers["proxy-status"], told);
}
