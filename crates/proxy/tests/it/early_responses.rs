//! Responses that arrive while the client still sends its body, and responses to invalid heads.

use http::Method;
use lucarne_proxy::Users;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::client;
use crate::common::origin::Origin;
use crate::common::{EVENT_TIMEOUT, Rig, Setup};

/// Length of a body that no buffer of the kernel can hold.
const LENGTH: usize = 16 << 20;

/// Sends a request with a long body. Reads the response only after the whole body is sent, as
/// simple clients do.
async fn upload_over<S>(mut stream: S, line: &str, host: &str) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {LENGTH}\r\n\r\n");
    let exchange = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        let part = [b'x'; 64 << 10];
        for _ in 0..LENGTH / part.len() {
            stream.write_all(&part).await.unwrap();
        }
        stream.flush().await.unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.unwrap();
        said
    };
    let said = timeout(EVENT_TIMEOUT, exchange).await.unwrap();
    String::from_utf8(said).unwrap()
}

/// Sends a request with a long body to the proxy itself.
async fn upload(rig: &Rig, method: &Method, target: &str) -> String {
    let stream = TcpStream::connect(rig.address).await.unwrap();
    upload_over(stream, &format!("{method} {target}"), "a.example").await
}

/// The server reads the head alone, responds, and closes the connection with unread bytes, so that
/// the kernel resets it.
#[tokio::test]
async fn an_early_response_of_a_server_is_not_lost() {
    let rig = Rig::new().await;
    let origin = Origin::of(|mut stream| async move {
        client::head(&mut stream).await;
        let response = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n";
        stream.write_all(response).await.unwrap();
    })
    .await;
    let url = format!("http://{}/", origin.address);
    for turn in 0..20 {
        let said = upload(&rig, &Method::POST, &url).await;
        assert!(said.starts_with("HTTP/1.1 413"), "{turn}: {said}");
        assert!(said.ends_with("no\n"), "{turn}: {said}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_proxy_is_not_lost() {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.example".parse().unwrap()];
    let rig = setup.start().await;
    let closed = Origin::of(crate::common::origin::slam).await;
    let closing = format!("http://{}/", closed.address);
    for (method, target, status) in [
        (Method::POST, "http://denied.example/", "403"),
        (Method::CONNECT, "denied.example:443", "403"),
        (Method::POST, &*closing, "502"),
    ] {
        let said = upload(&rig, &method, target).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(said.starts_with(&expected), "{method} {target}: {said}");
        assert!(said.contains("What to do"), "{said}");
    }
    let mut setup = Setup::new();
    setup.users = Some(Users::parse("anna:p@ss").unwrap());
    let rig = setup.start().await;
    let said = upload(&rig, &Method::POST, "http://a.example/").await;
    assert!(said.starts_with("HTTP/1.1 407"), "{said}");
}

#[tokio::test]
async fn a_refusal_inside_tls_is_not_lost() {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.example".parse().unwrap()];
    let rig = setup.start().await;
    let origin = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["http/1.1"]).await;
    let said = upload_over(stream.unwrap(), "POST /", "denied.example").await;
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    assert!(said.contains("What to do"), "{said}");
}

#[tokio::test]
async fn an_invalid_head_is_refused_in_words() {
    let rig = Rig::new().await;
    let large = "x".repeat(100_000);
    for (line, field, status, word) in [
        ("GET http://a.example/?q=\"x\"", "X: 1", "400", "%22"),
        ("GET http://a.example/", "X : 1", "400", "before the colon"),
        ("GET http://a.example/", "X(Odd): 1", "400", "header field"),
        (
            "POST http://a.example/",
            "Content-Length: 5, 5",
            "400",
            "Content-Length",
        ),
        (
            "GET http://a.example/",
            &*format!("X: {large}"),
            "431",
            "limits.maxheader",
        ),
        (
            &*format!("GET http://a.example/{large}"),
            "X: 1",
            "431",
            "limits.maxheader",
        ),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: a.example\r\n{field}\r\n\r\n");
        let said = client::raw(rig.address, request.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
        assert!(said.contains("error=http_request_error"), "{said}");
        assert!(said.contains(word), "{word}: {said}");
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
    }
}

/// The proxy forwards one valid form of a length.
#[tokio::test]
async fn a_length_with_leading_zeros_is_forwarded_without_them() {
    let (rig, origin) = (Rig::new().await, Origin::plain().await);
    let request = format!(
        "POST http://{}/header/content-length HTTP/1.1\r\nHost: x\r\nContent-Length: 0005\r\n\
         Connection: close\r\n\r\nhello",
        origin.address
    );
    let said = client::raw(rig.address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.ends_with("\r\n\r\n5"), "{said}");
}
