//! A TLS proxy between a load test and a real target, with one fault.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_targets::Authority;
use lucarne_testkit::{free_port, tls_client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::common::aside::Aside;

/// The fault of the proxy. By default, it affects every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// Every response is 2.2 s late.
    Slow,
    /// Every twentieth response is a 500.
    Errors,
    /// Every response is `<html>` with status 200.
    Html,
    /// The connection is reset for every tenth request.
    Reset,
    /// The certificate has another name.
    WrongCertificate,
    /// Every third connection is accepted without a response to the handshake. The others serve
    /// one request each.
    Stall,
    /// Every nonce is rejected (ACME).
    NonceRefused,
    /// Every new order exceeds the rate limit: 429 with a Retry-After of one second (ACME).
    RateLimited,
    /// Every order stays in processing (ACME).
    NeverIssued,
    /// Every order leads to the first issued certificate (ACME).
    OtherCertificate,
    /// No server listens.
    Down,
}

impl Fault {
    /// Describes the fault.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Fault::None => "nothing",
            Fault::Slow => "every response 2.2 s late",
            Fault::Errors => "one response in twenty is 500",
            Fault::Html => "every response is an HTML page with status 200",
            Fault::Reset => "one request in ten causes a reset",
            Fault::WrongCertificate => "the certificate has another name",
            Fault::Stall => "one handshake in three gets no response",
            Fault::NonceRefused => "every nonce is refused",
            Fault::RateLimited => "every new order is refused (429, Retry-After)",
            Fault::NeverIssued => "no order ever completes",
            Fault::OtherCertificate => "every order gets the same certificate",
            Fault::Down => "no server listens on the port",
        }
    }
}

/// The delay of a slow response: longer than any p(95) threshold of the plans.
const DELAY: Duration = Duration::from_millis(2200);

/// The proxy. It stops when this value is dropped.
pub(crate) struct Breaker {
    pub(crate) address: SocketAddr,
    _server: Option<Aside>,
}

/// The state that all connections share.
struct Shared {
    fault: Fault,
    target: SocketAddr,
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    connections: AtomicU64,
    answers: AtomicU64,
    /// The first issued certificate.
    certificate: Mutex<Option<Bytes>>,
}

impl Breaker {
    /// Starts a proxy to `target`.
    pub(crate) fn start(target: SocketAddr, authority: &Authority, fault: Fault) -> Self {
        if fault == Fault::Down {
            return Breaker {
                address: (Ipv4Addr::LOCALHOST, free_port()).into(),
                _server: None,
            };
        }
        let names: &[&str] = match fault {
            Fault::WrongCertificate => &["other.example.test"],
            _ => &["localhost", "127.0.0.1"],
        };
        let mut tls = (*authority.server_config(names).unwrap()).clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let shared = Arc::new(Shared {
            fault,
            target,
            connector: connector(authority),
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            connections: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            certificate: Mutex::new(None),
        });
        let server = Aside::serve(move |stream| connection(stream, shared.clone()));
        Breaker {
            address: server.address,
            _server: Some(server),
        }
    }
}

/// Creates a TLS connector that trusts the authority of the targets.
fn connector(authority: &Authority) -> TlsConnector {
    let roots = CertificateDer::pem_file_iter(authority.ca_file()).unwrap();
    let roots = roots.map(|root| root.unwrap().to_vec());
    tls_client(roots, &[]).unwrap().into()
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
    // The first connections only check whether the server is reachable.
    if shared.fault == Fault::Stall && number >= 4 && number % 3 == 1 {
        // Longer than any client waits; the connection ends with the proxy.
        tokio::time::sleep(Duration::from_secs(600)).await;
        return;
    }
    let Ok(stream) = shared.acceptor.accept(stream).await else {
        return;
    };
    let upstream = Arc::new(Mutex::new(None));
    let keep = shared.fault != Fault::Stall;
    let service = service_fn(move |request| {
        let (shared, upstream) = (shared.clone(), upstream.clone());
        async move {
            match shared.fault {
                // An error ends the connection.
                Fault::Reset if shared.is_turn(10) => Err(io::Error::other("reset")),
                _ => Ok(shared.answer(request, &upstream).await),
            }
        }
    });
    let _ = http1::Builder::new()
        .keep_alive(keep)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Upstream = Mutex<Option<SendRequest<Full<Bytes>>>>;

impl Shared {
    /// Returns whether this request is the affected one of `of` requests.
    fn is_turn(&self, of: u64) -> bool {
        self.answers.fetch_add(1, Ordering::Relaxed) % of == 7
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
    ) -> Response<Full<Bytes>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        match self.fault {
            Fault::Html => return page(200, "text/html", "<html><body>It works!</body></html>"),
            Fault::Errors if self.is_turn(20) => {
                return page(500, "application/json", r#"{"error":"out of order"}"#);
            }
            Fault::NonceRefused if method == Method::POST => return problem(400, "badNonce"),
            Fault::RateLimited if path.starts_with("/order-plz") => {
                let mut answer = problem(429, "rateLimited");
                let second = HeaderValue::from_static("1");
                answer.headers_mut().insert(header::RETRY_AFTER, second);
                return answer;
            }
            // The fault itself: the response is late by at least this time.
            Fault::Slow => tokio::time::sleep(DELAY).await,
            _ => {}
        }
        let of_order = ["/my-order/", "/finalize-order/"];
        match self.forward(request, upstream).await {
            Ok(answer)
                if self.fault == Fault::NeverIssued
                    && of_order.iter().any(|order| path.starts_with(order)) =>
            {
                unfinished(answer).await
            }
            // Pebble itself rejects a nonce now and then.
            Ok(answer)
                if self.fault == Fault::OtherCertificate
                    && path.starts_with("/certZ/")
                    && answer.status() == StatusCode::OK =>
            {
                self.other_certificate(answer).await
            }
            Ok(answer) => answer,
            Err(error) => page(502, "text/plain", &format!("{error:#}")),
        }
    }

    /// Returns the first certificate of this proxy, in this response.
    async fn other_certificate(&self, answer: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        let (mut parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let first = self.certificate.lock().await.get_or_insert(body).clone();
        parts.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(parts, Full::new(first))
    }

    /// Returns the response of the target, on a separate connection for each client connection. The
    /// target may close its connection between two requests; then the request is sent again.
    async fn forward(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
    ) -> anyhow::Result<Response<Full<Bytes>>> {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, Full::new(body.collect().await?.to_bytes()));
        let mut upstream = upstream.lock().await;
        if let Some(kept) = upstream.as_mut()
            && let Ok(answer) = exchange(kept, request.clone()).await
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(self.target).await?;
        let name = ServerName::try_from("localhost")?;
        let stream = self.connector.connect(name, stream).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        exchange(upstream.insert(sender), request).await
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    sender.ready().await?;
    let (mut parts, body) = sender.send_request(request).await?.into_parts();
    parts.headers.remove(header::TRANSFER_ENCODING);
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(body)))
}

fn page(status: u16, kind: &str, body: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    let kind = HeaderValue::from_str(kind).unwrap();
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Sets the status of an order after its finalization to `processing`.
async fn unfinished(answer: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut order: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if matches!(order["status"].as_str(), Some("pending" | "ready")) {
        return Response::from_parts(parts, Full::new(body));
    }
    order["status"] = "processing".into();
    if let Some(order) = order.as_object_mut() {
        order.remove("certificate");
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    // With this interval, no request is in flight at the end of the run.
    let later = HeaderValue::from_static("600");
    parts.headers.insert(header::RETRY_AFTER, later);
    Response::from_parts(parts, Full::new(order.to_string().into()))
}

/// Returns a problem document, with a nonce as in every response of ACME.
fn problem(status: u16, kind: &str) -> Response<Full<Bytes>> {
    let body = format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"broken"}}"#);
    let mut answer = page(status, "application/problem+json", &body);
    let nonce = HeaderValue::from_static("bm9uY2U");
    answer.headers_mut().insert("replay-nonce", nonce);
    answer
}
