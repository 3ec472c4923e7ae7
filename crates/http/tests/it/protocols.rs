//! Tests of HTTP/2, of TLS, and of the signature check on the page.

use std::sync::Arc;
use std::time::Duration;

use crate::read_limits::{CONTACT, SMALL, limits};
use crate::support::{Client, Server, TestLog};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_http::{Limits, Tls};
use lucarne_log::{Endpoint, Metrics, WitnessClient, WitnessError, WitnessResponse, Witnesses};
use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, LeafOptions};
use lucarne_testkit::tls_client;
use lucarne_tlog::{Cosigner, Policy};
use prometheus_client::registry::Registry;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Returns a certificate for localhost and its key, both PEM, and the root to trust.
fn certificate(name: &str) -> (String, String, Vec<u8>) {
    let ca = Authority::root(&CaOptions::named(name, KeyType::EcdsaP256)).unwrap();
    let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap());
    let leaf = ca
        .issue(&LeafOptions::with_key(["localhost"], key.clone()))
        .unwrap();
    let pem = lucarne_mint::Chain::new(vec![leaf]).to_pem();
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &key.to_pkcs8().unwrap());
    (pem, key, ca.cert_der().to_vec())
}

async fn dial(
    server: &Server,
    root: &[u8],
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = tls_client([root.to_vec()], alpn).unwrap();
    let tcp = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(config).connect(name, tcp).await
}

/// Submits and reads over HTTP/2 with concurrent requests.
async fn talk_http2<S>(stream: S, test: &TestLog)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = |method: &str, path: &str, body: String| {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://log.example{path}"))
            .header("accept-encoding", "identity")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let mut sender = sender.clone();
        async move {
            let response = sender.send_request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            (parts, body.collect().await.unwrap().to_bytes())
        }
    };
    let chain = test.chain("h2.example").to_json();
    let (submitted, read, lost, huge) = tokio::join!(
        request("POST", "/demo/ct/v1/add-chain", chain),
        request("GET", "/demo/tile/data/000", String::new()),
        request("GET", "/demo/tile/0/900", String::new()),
        request("POST", "/demo/ct/v1/add-chain", "A".repeat(600_000)),
    );
    assert_eq!(submitted.0.status, StatusCode::OK);
    assert_eq!(
        (read.0.status, lost.0.status),
        (StatusCode::OK, StatusCode::NOT_FOUND)
    );
    assert_eq!(huge.0.status, StatusCode::PAYLOAD_TOO_LARGE);
    let (head, body) = request("HEAD", "/demo/tile/data/000", String::new()).await;
    assert_eq!(head.headers["content-length"], read.1.len().to_string());
    assert!(body.is_empty());
    let (head, body) = request("HEAD", "/demo/ct/v1/add-chain", String::new()).await;
    assert_eq!(
        (head.status, body.len()),
        (StatusCode::METHOD_NOT_ALLOWED, 0)
    );
}

#[tokio::test]
async fn http2_without_tls() {
    let test = TestLog::start("demo").await;
    test.fill(256).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    talk_http2(TcpStream::connect(server.address).await.unwrap(), &test).await;
    // The first byte of the client fits both protocols.
    let mut client = server.connect().await;
    client.send(b"P").await;
    // During the pause, the server usually reads the byte alone. Otherwise the response is the
    // same.
    tokio::time::sleep(Duration::from_millis(30)).await;
    client
        .send(b"UT /demo/checkpoint HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.unwrap().status, 405);
}

#[tokio::test]
async fn tls_with_either_protocol_and_a_new_certificate() {
    let test = TestLog::start("demo").await;
    test.fill(256).await;
    let (old, old_key, old_root) = certificate("Old");
    let (new, new_key, new_root) = certificate("New");
    let tls = Tls::new(old.as_bytes(), old_key.as_bytes()).unwrap();
    let logs = vec![test.log.clone()];
    let server = Server::start_tls(logs, Limits::default(), tls.clone()).await;

    let stream = dial(&server, &old_root, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    talk_http2(stream, &test).await;
    let mut before = Client::new(dial(&server, &old_root, &["http/1.1"]).await.unwrap());
    assert_eq!(before.get("/demo/checkpoint").await.status, 200);

    // Invalid input is refused, and the old certificate stays.
    assert!(tls.replace(b"", old_key.as_bytes()).is_err());
    assert!(tls.replace(new.as_bytes(), old_key.as_bytes()).is_err());
    assert!(tls.replace(new.as_bytes(), b"no key").is_err());
    assert!(dial(&server, &old_root, &[]).await.is_ok());

    tls.replace(new.as_bytes(), new_key.as_bytes()).unwrap();
    assert!(dial(&server, &old_root, &[]).await.is_err());
    let mut after = Client::new(dial(&server, &new_root, &[]).await.unwrap());
    assert_eq!(after.get("/demo/checkpoint").await.status, 200);
    assert_eq!(
        before.get("/demo/checkpoint").await.status,
        200,
        "goes on as it was"
    );

    let stopped = server.stop();
    assert!(before.closed().await && after.closed().await);
    stopped.await.unwrap();
}

/// Reads over HTTP/2; returns the statuses and the last `Retry-After`.
async fn read_http2<S>(stream: S, times: usize) -> (Vec<u16>, Option<String>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let (mut statuses, mut retry_after) = (Vec::new(), None);
    for _ in 0..times {
        let request =
            Request::get(format!("http://log.example{SMALL}")).header(CONTACT.0, CONTACT.1);
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        statuses.push(response.status().as_u16());
        let header = response.headers().get("retry-after");
        retry_after = header.map(|seconds| seconds.to_str().unwrap().to_owned());
    }
    (statuses, retry_after)
}

async fn read_http1<S: AsyncRead + AsyncWrite + Unpin>(stream: S, times: usize) -> Vec<u16> {
    let mut client = Client::new(stream);
    let mut statuses = Vec::new();
    for _ in 0..times {
        let (name, value) = CONTACT;
        let request = format!("GET {SMALL} HTTP/1.1\r\nhost: x\r\n{name}: {value}\r\n\r\n");
        client.send(request.as_bytes()).await;
        statuses.push(client.answer().await.unwrap().status);
    }
    statuses
}

#[tokio::test]
async fn all_protocols_take_from_one_limit() {
    let test = TestLog::start("demo").await;
    let logs = vec![test.log.clone()];
    let refused = (vec![200, 200, 429], Some("1".to_owned()));

    let server = Server::start(logs.clone(), limits(4, Some(&[])).0).await;
    let dial_plain = || async { TcpStream::connect(server.address).await.unwrap() };
    assert_eq!(read_http1(dial_plain().await, 2).await, [200, 200]);
    assert_eq!(read_http2(dial_plain().await, 3).await, refused);
    assert_eq!(read_http1(dial_plain().await, 1).await, [429]);

    let (certificate, key, root) = certificate("CA");
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap();
    let server = Server::start_tls(logs, limits(4, Some(&[])).0, tls).await;
    let dial_tls = |protocol| {
        let (server, root) = (&server, &root);
        async move { dial(server, root, &[protocol]).await.unwrap() }
    };
    assert_eq!(read_http1(dial_tls("http/1.1").await, 2).await, [200, 200]);
    assert_eq!(read_http2(dial_tls("h2").await, 3).await, refused);
    assert_eq!(read_http1(dial_tls("http/1.1").await, 1).await, [429]);
}

#[tokio::test]
async fn a_tls_handshake_that_does_not_come() {
    let test = TestLog::start("demo").await;
    let (certificate, key, _) = certificate("CA");
    let limits = Limits {
        header_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap();
    let server = Server::start_tls(vec![test.log.clone()], limits, tls.clone()).await;
    assert!(server.connect().await.closed().await);
    let logs = vec![test.log.clone()];
    let server = Server::start_tls(logs, Limits::default(), tls).await;
    let mut plain = server.connect().await;
    plain.send(b"GET / HTTP/1.1\r\n\r\n").await;
    let mut alert = Vec::new();
    plain.stream.read_to_end(&mut alert).await.unwrap();
    assert!(!alert.starts_with(b"HTTP"), "{alert:?}");
}

/// Runs the page's script with node, if available.
#[tokio::test]
async fn the_page_checks_the_signature() {
    let test = TestLog::start("demo").await;
    test.fill(2).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let note = server.get("/demo/checkpoint").await;
    let script = server.get("/demo/page.js").await;
    let key = test.log.config().key.public_key_spki();
    let program = format!(
        "{}\n(async () => {{ const key = bytes('{}'); const note = {:?};\n\
         const seen = await verify(note, 'log.example/demo', key);\n\
         const other = await verify(note.replace('\\n2\\n', '\\n3\\n'), 'log.example/demo', key);\n\
         const lost = await verify(note, 'log.example/other', key).catch((e) => e.message);\n\
         console.log(seen.good, seen.size, other.good, lost); }})();",
        script.text(),
        base64_simd::STANDARD.encode_to_string(key),
        note.text(),
    );
    let ran = std::process::Command::new("node")
        .arg("-e")
        .arg(program)
        .output();
    let Ok(ran) = ran else {
        println!("skipped: there is no node to run page.js with");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    let complaints = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        said.trim(),
        "true 2 false the origin is log.example/demo",
        "{complaints}"
    );
}

#[derive(Debug)]
struct Unreachable;

#[async_trait]
impl WitnessClient for Unreachable {
    async fn post(
        &self,
        _prefix: &str,
        _endpoint: Endpoint,
        _body: Bytes,
        _max: usize,
    ) -> Result<WitnessResponse, WitnessError> {
        let why = "the proxy http://user:secret@10.0.0.1/ refuses";
        Err(WitnessError::Unreachable(why.into()))
    }
}

#[tokio::test]
async fn the_problems_of_witnesses_are_shown_without_locations() {
    let key = Cosigner::ed25519("w.example", &[7; 32]).unwrap();
    let policy = format!(
        "witness W {} https://w.example/\nquorum W\n",
        key.verifier()
    );
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let witnesses = Witnesses::new(policy, Arc::new(Unreachable)).unwrap();
    let metrics = Metrics::register(&mut Registry::default());
    let test = TestLog::start_with("demo", &metrics, |config| {
        config.witnesses = Some(witnesses);
    })
    .await;
    test.until(|log| log.witnesses()[0].problem.is_some()).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let page = server.get("/demo/").await;
    let page = page.text();
    assert!(page.contains("refuses"), "{page}");
    assert!(!page.contains("secret"), "{page}");
}
