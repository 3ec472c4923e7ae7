//! Refusals of the proxy, and their texts.

use crate::common::client;
use crate::common::origin::{self, Origin};
use crate::common::{Rig, Setup};
use http::Request;
use http_body_util::Full;
use lucarne_proxy::{Rules, Users};
use lucarne_testkit::until;

/// Sends CONNECT, which is refused, and returns the head and the text.
async fn refused(rig: &Rig, authority: &str, extra: &str) -> String {
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{extra}\r\n");
    client::raw(rig.address, request.as_bytes()).await
}

#[tokio::test]
async fn inner_addresses_are_refused_however_they_are_written() {
    let mut setup = Setup::new();
    setup.rules = Rules::default();
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    let port = origin.address.port();
    for host in [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
    ] {
        let said = refused(&rig, &format!("{host}:{port}"), "").await;
        assert!(said.starts_with("HTTP/1.1 403"), "{host}: {said}");
        assert!(said.contains("destination_ip_prohibited"), "{host}: {said}");
    }
    // Inside TLS, a name is refused because of its address.
    let authority = format!("localhost:{port}");
    let answer = client::get(&rig, &authority, "localhost", &["http/1.1"], "/").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("loopback"), "{}", answer.body);
    let answer = client::plain(&rig, &format!("http://localhost:{port}/")).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(origin.taken(), 0);
}

#[tokio::test]
async fn the_proxy_does_not_talk_to_itself() {
    let rig = Rig::new().await;
    let port = rig.address.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let answer = client::plain(&rig, &format!("http://{host}:{port}/")).await;
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        assert_eq!(
            answer.headers["proxy-status"],
            "lucarne; error=proxy_loop_detected"
        );
        // The id identifies the log lines of the request.
        assert_eq!(answer.headers["x-request-id"].len(), 16);
    }
    let said = refused(&rig, &rig.address.to_string(), "").await;
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    // A loop through another proxy is detected by Via.
    let origin = Origin::plain().await;
    let seen = client::plain(&rig, &format!("http://{}/seen", origin.address)).await;
    let via = seen
        .body
        .split("via=1.1 ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let request =
        Request::get(format!("http://{}/", origin.address)).header("via", format!("1.1 {via}"));
    let answer = client::ask(&rig, request.body(Full::default()).unwrap()).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
async fn lists_and_ports_hold_for_every_way_in() {
    let mut setup = Setup::new();
    setup.rules.deny = vec![
        "denied.example".parse().unwrap(),
        "127.0.0.9".parse().unwrap(),
    ];
    let rig = setup.start().await;
    for authority in ["denied.example:443", "127.0.0.9:443", "DENIED.example.:443"] {
        let said = refused(&rig, authority, "").await;
        assert!(
            said.starts_with("HTTP/1.1 403") && said.contains("--deny"),
            "{authority}: {said}"
        );
    }
    for authority in ["localhost:22", "localhost:25"] {
        let said = refused(&rig, authority, "").await;
        assert!(said.contains("--allow-port"), "{authority}: {said}");
    }
    let answer = client::plain(&rig, "http://denied.example/").await;
    assert_eq!(answer.status, 403);
    // The name inside TLS counts, and also the name in the request.
    let origin = Origin::https(&rig.world, &["localhost", "denied.example"], &["http/1.1"]).await;
    let authority = origin.address.to_string();
    let answer = client::get(&rig, &authority, "denied.example", &["http/1.1"], "/").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    // The response is about that name, not the name in CONNECT.
    let named = "denied.example is on the list of denied hosts";
    assert!(answer.body.contains(named), "{}", answer.body);
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["http/1.1"])
        .await
        .unwrap();
    let answer = client::over(stream, "denied.example", "/").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(origin.taken(), 0);
}

#[tokio::test]
async fn only_hosts_on_the_list_are_reached() {
    let mut setup = Setup::new();
    setup.rules.allow = vec!["127.0.0.1".parse().unwrap()];
    let rig = setup.start().await;
    let origin = Origin::plain().await;
    let port = origin.address.port();
    let answer = client::plain(&rig, &format!("http://127.0.0.1:{port}/x")).await;
    assert_eq!(answer.body, "/x");
    let answer = client::plain(&rig, &format!("http://localhost:{port}/x")).await;
    assert!(
        answer.status == 403 && answer.body.contains("--allow"),
        "{answer:?}"
    );
    let named = "localhost is not on the list of allowed hosts.";
    assert!(answer.body.contains(named), "{}", answer.body);
}

#[tokio::test]
async fn users_are_asked_who_they_are() {
    let mut setup = Setup::new();
    setup.users = Some(Users::parse("ann:secret").unwrap());
    let rig = setup.start().await;
    let origin = Origin::plain().await;
    let url = format!("http://{}/seen", origin.address);
    let answer = client::plain(&rig, &url).await;
    assert_eq!(answer.status, 407);
    let wanted = answer.headers["proxy-authenticate"].to_str().unwrap();
    assert!(wanted.starts_with("Basic realm="), "{wanted}");
    let said = refused(&rig, "localhost:443", "Connection: close\r\n").await;
    assert!(said.starts_with("HTTP/1.1 407"), "{said}");
    let request = Request::get(&url).header("proxy-authorization", "Basic YW5uOndyb25n");
    let answer = client::ask(&rig, request.body(Full::default()).unwrap()).await;
    assert_eq!(answer.status, 407);
    let request = Request::get(&url).header("proxy-authorization", "Basic YW5uOnNlY3JldA==");
    let answer = client::ask(&rig, request.body(Full::default()).unwrap()).await;
    assert!(
        answer.status == 200 && answer.body.ends_with("auth="),
        "{answer:?}"
    );
    // The CA certificate is no secret: a client must get it before it can trust it.
    let pem = client::raw(
        rig.address,
        b"GET /ca.pem HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(pem.contains(&rig.ca.certificate_pem()), "{pem}");
}

/// Known users are admitted regardless of the number of wrong passwords from the same address. A
/// wrong password and an unchecked password get different responses.
#[tokio::test]
async fn those_who_guess_are_in_nobodys_way() {
    let mut setup = Setup::new();
    let line = format!("ann:{}", bcrypt::hash("secret", 8).unwrap());
    setup.users = Some(Users::parse(&line).unwrap());
    let rig = setup.start().await;
    let origin = Origin::plain().await;
    let url = format!("http://{}/seen", origin.address);
    let ask = async |password: &str| {
        let basic = base64_simd::STANDARD.encode_to_string(format!("ann:{password}"));
        let request = Request::get(&url).header("proxy-authorization", format!("Basic {basic}"));
        client::ask(&rig, request.body(Full::default()).unwrap()).await
    };
    assert_eq!(ask("secret").await.status, 200);
    let guesses: Vec<_> = (0..40).map(|n| format!("guess{n}")).collect();
    let guesses = futures_util::future::join_all(guesses.iter().map(|guess| ask(guess)));
    let known = async {
        for _ in 0..10 {
            assert_eq!(ask("secret").await.status, 200);
        }
    };
    let (answers, ()) = tokio::join!(guesses, known);
    for answer in &answers {
        let later = answer.headers.contains_key("retry-after");
        let another = answer.headers.contains_key("proxy-authenticate");
        match answer.status {
            407 => assert!(another && !later, "{answer:?}"),
            429 | 503 => assert!(later && !another, "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
    }
    assert!(answers.iter().any(|answer| answer.status == 407));
}

#[tokio::test]
async fn a_server_that_is_not_to_be_believed_is_explained() {
    let rig = Rig::new().await;
    let others = crate::common::authority("Somebody Else");
    let cases = [
        (
            Origin::https_with(&rig.world, &["localhost"], &[], origin::expired).await,
            "expired",
        ),
        (
            Origin::https(&rig.world, &["other.example"], &[]).await,
            "other.example",
        ),
        (
            Origin::https(&others, &["localhost"], &[]).await,
            "is not trusted",
        ),
    ];
    for (origin, expected) in &cases {
        let authority = format!("localhost:{}", origin.address.port());
        for alpn in ["h2", "http/1.1"] {
            let answer = client::get(&rig, &authority, "localhost", &[alpn], "/").await;
            assert_eq!(answer.status, 502, "{answer:?}");
            assert_eq!(
                answer.headers["proxy-status"],
                "lucarne; error=tls_certificate_error"
            );
            for part in [
                *expected,
                &authority,
                "Certificate for",
                "Issued by",
                "What to do",
            ] {
                assert!(answer.body.contains(part), "no {part} in {}", answer.body);
            }
        }
    }
    // Browsers receive a page.
    let authority = format!("localhost:{}", cases[0].0.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &[])
        .await
        .unwrap();
    let request = Request::get("/")
        .header("host", "localhost")
        .header("accept", "text/html,*/*");
    let request = request.body(Full::default()).unwrap();
    let response = client::http1_over(stream)
        .await
        .send_request(request)
        .await
        .unwrap();
    let answer = client::Answer::of(response).await;
    assert!(
        answer.body.starts_with("<!doctype html>"),
        "{}",
        answer.body
    );
    assert!(answer.body.contains("expired"), "{}", answer.body);
}

#[tokio::test]
async fn servers_that_are_not_there_are_told_apart() {
    let mut setup = Setup::new();
    setup.limits.response = std::time::Duration::from_millis(300);
    let rig = setup.start().await;
    let gone = Origin::plain().await.address;
    let slams = Origin::of(origin::slam).await;
    let banner = Origin::of(origin::banner).await;
    let mute = Origin::of(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    for (url, status, error) in [
        (format!("http://{gone}/"), 502, "connection_refused"),
        (
            format!("http://{}/", slams.address),
            502,
            "connection_terminated",
        ),
        (
            format!("http://{}/", banner.address),
            502,
            "http_protocol_error",
        ),
        (
            format!("http://{}/", mute.address),
            504,
            "http_response_timeout",
        ),
        (
            format!("https://{}/", slams.address),
            502,
            "tls_protocol_error",
        ),
        (
            format!("https://{}/", banner.address),
            502,
            "tls_protocol_error",
        ),
        ("http://host.invalid/".to_owned(), 502, "dns_error"),
    ] {
        let answer = client::plain(&rig, &url).await;
        assert_eq!(answer.status, status, "{url}: {answer:?}");
        let told = answer.headers["proxy-status"].to_str().unwrap();
        assert_eq!(
            told,
            format!("lucarne; error={error}"),
            "{url}: {}",
            answer.body
        );
    }
    let authority = format!("localhost:{}", slams.address.port());
    let answer = client::get(&rig, &authority, "localhost", &["h2", "http/1.1"], "/").await;
    assert_eq!(answer.status, 502, "{answer:?}");
}

/// Requests that wait for a failing connection fail together. Otherwise each request would wait for
/// its own connection attempt.
#[tokio::test]
async fn requests_that_wait_for_a_connection_share_its_failure() {
    let rig = Rig::new().await;
    let (fail, failing) = tokio::sync::watch::channel(false);
    let first = std::sync::atomic::AtomicBool::new(true);
    // The first connection is closed at once, so that TLS with the client is established.
    let origin = Origin::of(move |stream| {
        let at_once = first.swap(false, std::sync::atomic::Ordering::SeqCst);
        let mut failing = failing.clone();
        async move {
            if !at_once {
                let _ = failing.wait_for(|fail| *fail).await;
            }
            drop(stream);
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let sender = client::http2_over(stream.unwrap()).await;
    let ask = async || {
        let request = Request::get(format!("https://{authority}/x")).body(Full::default());
        let answer = sender.clone().send_request(request.unwrap()).await;
        client::Answer::of(answer.unwrap()).await.status
    };
    assert_eq!(ask().await, 502);
    let asked = async {
        until("all have been asked", || rig.proxy.totals().requests == 4).await;
        fail.send(true).unwrap();
    };
    let (statuses, ()) = tokio::join!(futures_util::future::join_all([ask(), ask(), ask()]), asked);
    assert_eq!(statuses, [502; 3]);
    assert_eq!(origin.taken(), 2);
}

#[tokio::test]
async fn a_request_names_one_host_and_that_one_counts() {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.example".parse().unwrap()];
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["h2", "http/1.1"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let ask = async |alpn: &'static str, uri: &str, hosts: &[&str]| {
        let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &[alpn])
            .await
            .unwrap();
        let mut request = Request::get(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        let request = request.body(Full::default()).unwrap();
        let response = match alpn {
            "h2" => client::http2_over(stream).await.send_request(request).await,
            _ => client::http1_over(stream).await.send_request(request).await,
        };
        client::Answer::of(response.unwrap()).await
    };
    let url = "https://localhost/seen";
    let answer = ask("http/1.1", url, &["denied.example"]).await;
    assert!(answer.body.contains("host=localhost via"), "{answer:?}");
    let answer = ask("http/1.1", "/seen", &["localhost", "denied.example"]).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let answer = ask("h2", url, &["denied.example"]).await;
    assert!(answer.body.contains("host= via"), "{answer:?}");
    let answer = ask("h2", "https://denied.example/", &[]).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_goes_no_further() {
    let (rig, origin) = (Rig::new().await, Origin::plain().await);
    let answer = client::plain(&rig, &format!("http://{}/socket", origin.address)).await;
    assert_eq!(answer.status, 502, "{answer:?}");
}

#[tokio::test]
async fn hosts_are_where_the_rules_say() {
    let mut setup = Setup::new();
    setup.rules.resolve = vec![("*.test".parse().unwrap(), "127.0.0.1".parse().unwrap())];
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["www.shop.test"], &["h2"]).await;
    let authority = format!("www.shop.test:{}", origin.address.port());
    let answer = client::get(&rig, &authority, "www.shop.test", &["h2"], "/x").await;
    assert_eq!(answer.body, "/x");
}

#[tokio::test]
async fn one_client_cannot_take_all_connections() {
    let mut setup = Setup::new();
    setup.limits.client_connections = 2;
    let rig = setup.start().await;
    let origin = Origin::plain().await;
    let url = format!("http://{}/x", origin.address);
    let request = format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    // A tunnel counts like any other connection.
    let tunnel = client::connect(rig.address, &origin.address.to_string()).await;
    let idle = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    until("both are counted", || rig.proxy.totals().open == 2).await;
    let said = client::raw(rig.address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
    assert!(said.contains("limits.maxclientconnections"), "{said}");
    drop((tunnel, idle));
    until("none is open", || rig.proxy.totals().open == 0).await;
    let said = client::raw(rig.address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}
