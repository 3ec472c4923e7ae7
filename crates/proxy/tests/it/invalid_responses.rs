//! Responses that are not valid HTTP: repaired, or reported in words.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_testkit::until;
use tokio::io::AsyncWriteExt;

use crate::common::Rig;
use crate::common::client;
use crate::common::origin::{Origin, acceptor};

/// Responds to each connection with these bytes, and closes it.
async fn origin(response: &'static str) -> Origin {
    Origin::of(move |mut stream| async move {
        client::head(&mut stream).await;
        stream.write_all(response.as_bytes()).await.unwrap();
    })
    .await
}

/// Sends a plain request for this origin, and returns the complete response.
async fn ask(rig: &Rig, origin: &Origin) -> String {
    let head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let request = format!("GET http://{}/ {head}", origin.address);
    client::raw(rig.address, request.as_bytes()).await
}

#[tokio::test]
async fn spaces_folded_lines_and_lengths_are_repaired() {
    let rig = Rig::new().await;
    for length in ["0005", "5, 5", "5\r\nContent-Length: 5"] {
        let response = format!(
            "HTTP/1.1 200 OK\r\nX-Space \t: 1\r\nX-Fold: a\r\n \t b\r\nContent-Length: {length}\
             \r\n\r\nhello"
        );
        let origin = origin(response.leak()).await;
        let said = ask(&rig, &origin).await;
        for line in ["X-Space: 1", "X-Fold: a b", "Content-Length: 5"] {
            assert!(said.contains(&format!("\r\n{line}\r\n")), "{line}: {said}");
        }
        assert_eq!(said.to_lowercase().matches("content-length").count(), 1);
        assert!(said.ends_with("\r\n\r\nhello"), "{said}");
    }
}

#[tokio::test]
async fn a_response_that_cannot_be_read_is_not_a_missing_one() {
    let rig = Rig::new().await;
    let (invalid, incomplete) = ("not valid HTTP", "before the end of the response");
    for (response, why) in [
        (
            "HTTP/1.1 200 OK\r\nX(Odd): 1\r\nContent-Length: 0\r\n\r\n",
            invalid,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
            invalid,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            invalid,
        ),
        ("HTTP/1.1 2000 OK\r\n\r\n", invalid),
        ("H", incomplete),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", incomplete),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", incomplete),
    ] {
        let origin = origin(response).await;
        let said = ask(&rig, &origin).await;
        // The client receives interim responses first.
        assert!(said.contains("HTTP/1.1 502"), "{response}: {said}");
        assert!(said.contains("error=http_protocol_error"), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("sent no response"), "{said}");
    }
}

/// The proxy waits for the first chunk only for a moment. On a busy machine, the head can be sent
/// before the chunk is read, and the body is then cut off. The client always receives a response.
#[tokio::test]
async fn an_invalid_first_chunk_is_reported_and_counted() {
    let rig = Rig::new().await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = origin(format!("{head}zz\r\nhello\r\n").leak()).await;
    let mut reported = false;
    for asked in 1..=20 {
        let said = ask(&rig, &origin).await;
        if said.starts_with("HTTP/1.1 502") {
            assert!(said.contains("error=http_protocol_error"), "{said}");
            assert!(said.contains("body of the server's response"), "{said}");
            reported = true;
        } else {
            assert!(said.starts_with("HTTP/1.1 200"), "{said:?}");
            assert!(!said.ends_with("0\r\n\r\n"), "{said:?}");
        }
        until("the failure is counted", || {
            rig.proxy.hosts().iter().any(|row| row.failures == asked)
        })
        .await;
    }
    assert!(reported);
}

/// A later invalid chunk cuts the body off, after the valid part.
#[tokio::test]
async fn an_invalid_later_chunk_cuts_the_body_off() {
    let rig = Rig::new().await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = origin(format!("{head}5\r\nhello\r\nzz\r\n").leak()).await;
    let said = ask(&rig, &origin).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.contains("hello"), "{said}");
    assert!(!said.ends_with("0\r\n\r\n"), "{said}");
    until("the failure is counted", || {
        rig.proxy.hosts().iter().any(|row| row.failures == 1)
    })
    .await;
}

/// A client that uses the service would go around the proxy by HTTP/3.
#[tokio::test]
async fn other_services_of_an_intercepted_host_are_not_announced() {
    let rig = Rig::new().await;
    let response =
        "HTTP/1.1 200 OK\r\nAlt-Svc: h3=\":443\"\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n";
    let acceptor = acceptor(&rig.world, &["localhost"], &["http/1.1"], |_| ());
    let origin = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            client::head(&mut stream).await;
            stream.write_all(response.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    let answer = client::get(&rig, &authority, "localhost", &["http/1.1"], "/").await;
    assert_eq!(answer.headers["x-kept"], "1");
    assert!(!answer.headers.contains_key("alt-svc"), "{answer:?}");
}

/// Serves responses over HTTP/2 whose head has 90 kB.
async fn large_heads(rig: &Rig) -> Origin {
    let acceptor = acceptor(&rig.world, &["localhost"], &["h2"], |_| ());
    Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(|_| async {
                let mut response = Response::new(Full::<Bytes>::default());
                large(response.headers_mut());
                Ok::<_, Infallible>(response)
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await
}

/// Adds 90 kB of fields.
fn large(headers: &mut http::HeaderMap) {
    let value = HeaderValue::try_from("x".repeat(9_000)).unwrap();
    for number in 0..10 {
        let name = HeaderName::try_from(format!("x-{number}")).unwrap();
        headers.insert(name, value.clone());
    }
}

#[tokio::test]
async fn a_large_head_over_http2_names_its_limit() {
    let rig = Rig::new().await;
    let origin = large_heads(&rig).await;
    let authority = format!("localhost:{}", origin.address.port());
    let answer = client::get(&rig, &authority, "localhost", &["h2"], "/").await;
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("limits.maxheader"), "{answer:?}");

    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let mut sender = client::http2_over(stream.unwrap()).await;
    let request = Request::get("https://localhost/").body(Full::<Bytes>::default());
    let mut request = request.unwrap();
    large(request.headers_mut());
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 431);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(body.contains("limits.maxheader"), "{body}");
}
