//! Header fields and transfer codings of HTTP/1.1, byte for byte.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::common::client;
use crate::common::origin::Origin;
use lucarne_proxy::Admin;
use lucarne_testkit::until;
use prometheus_client::registry::Registry;

use crate::common::{Rig, Setup};

/// Sends these bytes to the proxy, and reads the head of the response.
async fn ask(rig: &Rig, request: &str) -> String {
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    client::head(&mut stream).await
}

/// Responds to each request with these bytes, and the fields of the request that begin with `X-`
/// in any case, as `Seen-X-…`.
async fn origin(response: &'static str) -> Origin {
    Origin::of(move |mut stream| async move {
        let head = client::head(&mut stream).await;
        let mut said = response.to_owned();
        for line in head.lines() {
            if line.to_lowercase().starts_with("x-") || line.starts_with("SOAP") {
                said += &format!("Seen-{line}\r\n");
            }
        }
        said += "\r\n";
        stream.write_all(said.as_bytes()).await.unwrap();
    })
    .await
}

#[tokio::test]
async fn names_of_fields_keep_their_case_both_ways() {
    let rig = Rig::new().await;
    let origin = origin(
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nwww-odd: 2\r\nContent-MD5: 3\r\nContent-Length: 0\r\n",
    )
    .await;
    let url = format!("http://{}/", origin.address);
    let fields = "SOAPAction: 1\r\nx-lower: 2\r\nX-UPPER: 3\r\n";
    let head = ask(
        &rig,
        &format!("GET {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"),
    )
    .await;
    for line in [
        "ETag: \"1\"",
        "www-odd: 2",
        "Content-MD5: 3",
        "Seen-SOAPAction: 1",
        "Seen-x-lower: 2",
        "Seen-X-UPPER: 3",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
}

#[tokio::test]
async fn transfer_codings_other_than_chunked_are_refused() {
    let rig = Rig::new().await;
    let origin = origin("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n").await;
    let url = format!("http://{}/", origin.address);
    for coding in ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"] {
        let head = format!("POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let said = ask(&rig, &format!("{head}0\r\n\r\n")).await;
        assert!(said.starts_with("HTTP/1.1 501"), "{said}");
        assert_eq!(origin.taken(), 0);
    }
    let head = format!("POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n");
    let said = ask(&rig, &format!("{head}0\r\n\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn a_chunked_body_reaches_the_server_with_every_method() {
    let rig = Rig::new().await;
    let origin = Origin::plain().await;
    let url = format!("http://{}/echo", origin.address);
    for method in ["GET", "DELETE", "POST"] {
        let head = format!("{method} {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        let request = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        let said = client::raw(rig.address, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{method}: {said}");
        assert!(said.ends_with("hello"), "{method}: {said}");
    }
}

#[tokio::test]
async fn an_invalid_body_is_a_failure_of_the_client() {
    let rig = Rig::new().await;
    // The origin waits until the proxy closes the connection.
    let origin = Origin::of(|mut stream| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let url = format!("http://{}/", origin.address);
    let head = format!("POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for body in [
        "3;a\nabc\r\n0\r\n\r\n",
        "-1\r\nabc\r\n",
        "FFFFFFFFFFFFFFFFF\r\nabc",
    ] {
        let said = client::raw(rig.address, format!("{head}{body}").as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{said}");
        assert!(said.contains("error=http_request_error"), "{said}");
        assert!(said.contains("the body of the request"), "{said}");
    }
}

#[tokio::test]
async fn a_response_in_another_transfer_coding_is_not_passed_on_undecoded() {
    let rig = Rig::new().await;
    let origin = origin("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n").await;
    let url = format!("http://{}/", origin.address);
    let said = ask(&rig, &format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
    assert!(said.contains("http_response_transfer_coding"), "{said}");
}

#[tokio::test]
async fn trailers_are_announced_only_where_they_come() {
    let rig = Rig::new().await;
    let origin = Origin::of(|mut stream| async move {
        client::head(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
        let response = format!("{head}2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n");
        stream.write_all(response.as_bytes()).await.unwrap();
    })
    .await;
    let url = format!("http://{}/", origin.address);
    let get = |te: &str| format!("GET {url} HTTP/1.1\r\nHost: x\r\n{te}\r\n");
    let said = ask(&rig, &get("")).await;
    assert!(!said.contains("Trailer"), "{said}");
    let said = ask(&rig, &get("TE: trailers\r\nConnection: te\r\n")).await;
    assert!(said.contains("\r\nTrailer: X-Sum\r\n"), "{said}");
}

#[tokio::test]
async fn failures_of_plain_requests_are_counted_for_their_host() {
    let rig = Rig::new().await;
    let closing = Origin::of(crate::common::origin::slam).await;
    let url = format!("http://localhost:{}/", closing.address.port());
    let said = ask(&rig, &format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
    until("the failure is counted", || {
        let hosts = rig.proxy.hosts();
        hosts
            .iter()
            .any(|row| (row.host.as_str(), row.failures) == ("localhost", 1))
    })
    .await;
    // The page counts the same failures above the table.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let admin = Admin::new(rig.proxy.clone(), None, Registry::default());
    let serving = tokio::spawn(admin.serve(listener));
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let page = client::raw(address, request).await;
    assert!(
        page.contains("Failed requests to the hosts below: 1."),
        "{page}"
    );
    serving.abort();
}

/// The body never pauses, but is so slow that it would take minutes.
#[tokio::test]
async fn a_body_that_brings_next_to_nothing_is_given_up() {
    let mut setup = Setup::new();
    setup.limits.idle = Duration::from_secs(1);
    let rig = setup.start().await;
    let origin = Origin::of(|mut stream| async move {
        client::head(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
        let mut sent = stream.write_all(head).await;
        while sent.is_ok() {
            sent = stream.write_all(b"x").await;
            // The pace of a slow server. On a busy machine the body is slower, and is given up as
            // well.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let request = format!("GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n", origin.address);
    let said = client::raw(rig.address, request.as_bytes()).await;
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!body.is_empty() && body.len() < 1000, "{}", body.len());
}

#[tokio::test]
async fn letters_beyond_ascii_in_the_request_line_are_refused_in_words() {
    let rig = Rig::new().await;
    for line in ["CONNECT bücher.example:443", "GET http://bücher.example/"] {
        let request = format!("{line} HTTP/1.1\r\nHost: bücher.example\r\n\r\n");
        let said = client::raw(rig.address, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{said}");
        assert!(said.contains("punycode"), "{said}");
    }
    // Characters beyond ASCII are allowed elsewhere.
    let request = "GET / HTTP/1.1\r\nHost: x\r\nX-Name: bücher\r\nConnection: close\r\n\r\n";
    let said = client::raw(rig.address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}
