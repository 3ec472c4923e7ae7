//! Malformed input from clients and in files: the proxy reports a clear error, and other clients
//! are not affected.

use std::sync::Arc;
use std::time::Duration;

use crate::common::client;
use crate::common::origin::{Origin, acceptor};
use crate::common::{EVENT_TIMEOUT, Rig, Setup, authority};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use lucarne_mint::store::{DiskOptions, DiskStore};
use lucarne_testkit::{END_HEADERS, FrameType, STATUS_200, frame, serve_http2, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Verifies that the proxy still forwards requests to this server.
async fn well(rig: &Rig, origin: &Origin) {
    let authority = format!("localhost:{}", origin.address.port());
    let answer = client::get(rig, &authority, "localhost", &["h2", "http/1.1"], "/well").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "/well"));
}

async fn rig() -> (Rig, Origin) {
    let mut setup = Setup::new();
    setup.limits.handshake = Duration::from_millis(500);
    setup.limits.head = Duration::from_millis(500);
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["h2", "http/1.1"]).await;
    (rig, origin)
}

#[tokio::test]
async fn connect_to_nonsense_is_refused() {
    let (rig, origin) = rig().await;
    let long = "a".repeat(300);
    for authority in [
        "example.com",
        "example.com:0",
        "example.com:99999",
        "example.com:https",
        ":443",
        "a..b:443",
        "-a.example:443",
        "[::1:443",
        "[zz]:443",
        "1.2.3.4.5:443",
        "256.1.1.1:443",
        "user@example.com:443",
        "/:443",
        "a%00b:443",
        "xn--a:443",
        "*:443",
        &long,
    ] {
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: x\r\n\r\n");
        let said = client::raw(rig.address, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{authority}: {said}");
    }
    for nonsense in [
        "CONNECT\r\n\r\n",
        "GET ftp://a.example/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET http:/// HTTP/1.1\r\nConnection: close\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ] {
        let said = client::raw(rig.address, nonsense.as_bytes()).await;
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 400"),
            "{nonsense:?}: {said}"
        );
    }
    let endless = format!(
        "GET http://a.example/ HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    let said = client::raw(rig.address, endless.as_bytes()).await;
    assert!(
        said.is_empty() || said.starts_with("HTTP/1.1 431"),
        "{said}"
    );
    well(&rig, &origin).await;
}

#[tokio::test]
async fn a_client_that_stalls_is_given_up() {
    let (rig, origin) = rig().await;
    let target = origin.address.to_string();
    // The beginning of a ClientHello, a bare record header, and half a request.
    let mut stalled = Vec::new();
    for start in [&[22, 3, 1, 2, 0, 1][..], &[22]] {
        let (mut stream, _) = client::connect(rig.address, &target).await;
        stream.write_all(start).await.unwrap();
        stalled.push(stream);
    }
    let mut half = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    half.write_all(b"GET http://a.example/ HT").await.unwrap();
    stalled.push(half);
    well(&rig, &origin).await;
    for mut stream in stalled {
        let mut rest = Vec::new();
        let reading = stream.read_to_end(&mut rest);
        let _ = tokio::time::timeout(crate::common::EVENT_TIMEOUT, reading)
            .await
            .expect("not given up");
    }
    well(&rig, &origin).await;
}

/// A ClientHello with a server name of this length.
fn hello(name: usize) -> Vec<u8> {
    let u16 = |n: usize| u16::try_from(n.min(0xffff)).unwrap().to_be_bytes();
    let name = vec![b'a'; name];
    let mut sni = [&u16(name.len() + 3)[..], &[0], &u16(name.len()), &name].concat();
    sni = [&[0, 0][..], &u16(sni.len()), &sni].concat();
    let mut body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &u16(sni.len()),
        &sni,
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    body = [&[1][..], &length[1..], &body].concat();
    let records = body.chunks(16 << 10);
    records
        .flat_map(|record| [&[22, 3, 1][..], &u16(record.len()), record].concat())
        .collect()
}

/// A body over HTTP/2 whose stream is reset with NO_ERROR lacks its end, and the proxy does not add
/// an end.
#[tokio::test]
async fn a_body_that_is_cut_off_is_not_passed_on_as_whole() {
    let rig = Rig::new().await;
    let acceptor = acceptor(&rig.world, &["localhost"], &["h2"], |_| ());
    let origin = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let _ = serve_http2(stream, |stream| {
                [
                    frame(FrameType::Headers, END_HEADERS, stream, STATUS_200),
                    frame(FrameType::Data, 0, stream, b"half of "),
                    frame(FrameType::Reset, 0, stream, &[0; 4]),
                ]
                .concat()
            })
            .await;
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]);
    let mut sender = client::http2_over(stream.await.unwrap()).await;
    let request = Request::get("https://localhost/").body(Full::<Bytes>::default());
    let exchange = async {
        // The reset may overtake the head of the response.
        let response = sender.send_request(request.unwrap()).await?;
        response.into_body().collect().await
    };
    let body = tokio::time::timeout(EVENT_TIMEOUT, exchange).await;
    assert!(body.unwrap().is_err(), "the body ended as if it were whole");
}

#[tokio::test]
async fn an_endless_server_name_ends_its_connection() {
    let (rig, origin) = rig().await;
    for name in [254, 16 << 10, 64 << 10, 1 << 20] {
        let (mut stream, _) = client::connect(rig.address, &origin.address.to_string()).await;
        // The proxy may close the connection before everything is written.
        let _ = stream.write_all(&hello(name)).await;
        let mut said = Vec::new();
        let reading = stream.read_to_end(&mut said);
        let _ = tokio::time::timeout(crate::common::EVENT_TIMEOUT, reading)
            .await
            .expect("not closed");
        // An alert or nothing, but no ServerHello.
        assert!(
            said.first().is_none_or(|kind| *kind == 21),
            "{name}: {said:?}"
        );
    }
    well(&rig, &origin).await;
}

/// Returns whether a new client that trusts `ca` accepts the proxy's certificate.
async fn issuer(rig: &Rig, origin: &Origin, ca: &lucarne_mint::Authority) -> bool {
    let authority = format!("localhost:{}", origin.address.port());
    client::tls(rig, ca, &authority, "localhost", &["h2"])
        .await
        .is_ok()
}

#[tokio::test]
async fn the_ca_changes_under_way() {
    let (rig, origin) = rig().await;
    let authority_of = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority_of, "localhost", &["h2"])
        .await
        .unwrap();
    let mut open = client::http2_over(stream).await;
    let next = authority("The Next");
    rig.proxy.replace_ca(next.clone()).unwrap();
    assert!(
        !issuer(&rig, &origin, &rig.ca).await,
        "the old CA is still in use"
    );
    assert!(issuer(&rig, &origin, &next).await);
    assert!(rig.proxy.ca_pem().contains(&next.certificate_pem()));
    // An open connection continues.
    let request = Request::get("https://localhost/open")
        .body(Full::default())
        .unwrap();
    let answer = client::Answer::of(open.send_request(request).await.unwrap()).await;
    assert_eq!(answer.body, "/open");
    until("the client that does not trust it is counted", || {
        rig.proxy.totals().distrusted == 1
    })
    .await;
}

#[tokio::test]
async fn a_store_directory_that_went_bad_costs_new_certificates_only() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("store");
    let start = async |world| {
        let mut setup = Setup::new();
        setup.world = world;
        setup.store = Arc::new(DiskStore::open(&directory, DiskOptions::default()).unwrap());
        setup.start().await
    };
    let rig = start(authority("The World")).await;
    let origin = Origin::https(&rig.world, &["localhost"], &["h2", "http/1.1"]).await;
    well(&rig, &origin).await;
    well(&rig, &origin).await;
    let stats = rig.proxy.store_stats();
    assert_eq!((stats.generated, stats.disk_hits), (1, 1), "{stats:?}");
    // Every file in the directory is overwritten.
    let spoilt = spoil(&directory);
    assert!(spoilt > 0);
    well(&rig, &origin).await;
    let stats = rig.proxy.store_stats();
    assert!(stats.generated == 2 && stats.disk_errors >= 1, "{stats:?}");
    // Then the directory is replaced by a file: even root cannot write there.
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::write(&directory, "no directory").unwrap();
    let before = rig.proxy.store_stats().disk_errors;
    well(&rig, &origin).await;
    well(&rig, &origin).await;
    assert!(rig.proxy.store_stats().disk_errors > before);
}

/// Overwrites every file below the directory, and returns their number.
fn spoil(directory: &std::path::Path) -> usize {
    let mut spoilt = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            spoilt += spoil(&path);
        } else {
            std::fs::write(&path, "something else entirely").unwrap();
            spoilt += 1;
        }
    }
    spoilt
}

/// Browsers break off handshakes of connections that they do not use.
#[tokio::test]
async fn a_handshake_that_the_client_breaks_off_is_counted() {
    let (rig, origin) = rig().await;
    let hello = client::hello(&rig.ca, "localhost", &["http/1.1"], None);
    for length in [hello.len() / 2, hello.len()] {
        let (mut stream, _) = client::connect(rig.address, &origin.address.to_string()).await;
        stream.write_all(&hello[..length]).await.unwrap();
    }
    let mut registry = prometheus_client::registry::Registry::default();
    rig.proxy.register(&mut registry);
    until("both are counted", || {
        let mut metrics = String::new();
        prometheus_client::encoding::text::encode(&mut metrics, &registry).unwrap();
        metrics.contains("lucarne_proxy_aborted_total 2\n")
    })
    .await;
}
