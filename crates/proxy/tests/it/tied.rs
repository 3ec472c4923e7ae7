//! Authentication that belongs to a connection, and servers that refuse HTTP/2 requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_testkit::{END_HEADERS, END_STREAM, FrameType, STATUS_200, frame, serve_http2};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig};

/// Serves a connection that NTLM authenticates: after one request with credentials, all requests on
/// the connection are from alice.
async fn ntlm<S>(stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let alice = Arc::<AtomicBool>::default();
    let service = service_fn(move |request: Request<Incoming>| {
        let alice = alice.clone();
        async move {
            if request.headers().contains_key(AUTHORIZATION) {
                alice.store(true, Ordering::SeqCst);
            }
            let known = alice.load(Ordering::SeqCst);
            let mut response =
                Response::new(Full::<Bytes>::from(["nobody", "alice"][usize::from(known)]));
            // A public page does not request credentials.
            if !known && request.uri().path() != "/public" {
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                let offer = "Basic realm=\"a\", NTLM".parse().unwrap();
                response.headers_mut().insert(WWW_AUTHENTICATE, offer);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let builder = hyper::server::conn::http1::Builder::new();
    // Clients of tests may disconnect at any time.
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// A client connection, and the URL of the server for its requests.
struct Client {
    sender: SendRequest<Full<Bytes>>,
    base: String,
    host: String,
}

impl Client {
    async fn new(rig: &Rig, origin: &Origin, tls: bool) -> Self {
        let host = format!("localhost:{}", origin.address.port());
        if tls {
            let stream = client::tls(rig, &rig.ca, &host, "localhost", &["http/1.1"]).await;
            let sender = client::http1_over(stream.unwrap()).await;
            let base = String::new();
            Client { sender, base, host }
        } else {
            let stream = TcpStream::connect(rig.address).await.unwrap();
            let sender = client::http1_over(stream).await;
            let base = format!("http://{host}");
            Client { sender, base, host }
        }
    }

    async fn get(&mut self, path: &str, authorization: Option<&str>) -> Answer {
        let mut request = Request::get(format!("{}{path}", self.base)).header("host", &self.host);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::default()).unwrap();
        let asking = async {
            self.sender.ready().await.unwrap();
            Answer::of(self.sender.send_request(request).await.unwrap()).await
        };
        timeout(EVENT_TIMEOUT, asking).await.unwrap()
    }
}

#[tokio::test]
async fn an_authenticated_connection_serves_its_client_only() {
    let rig = Rig::new().await;
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["http/1.1"], |_| ());
    let secure = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                ntlm(stream).await;
            }
        }
    })
    .await;
    for (origin, tls) in [(Origin::of(ntlm).await, false), (secure, true)] {
        let mut alice = Client::new(&rig, &origin, tls).await;
        let refused = alice.get("/", None).await;
        assert_eq!(refused.status, 401);
        let announced = refused.headers.get("proxy-support");
        assert_eq!(announced.is_some(), !tls, "{refused:?}");
        let known = alice.get("/", Some("NTLM TlRMTVNTUAAD")).await;
        assert_eq!((known.status, &*known.body), (200, "alice"));
        // The client's requests stay on the connection, also without credentials.
        assert_eq!(alice.get("/", None).await.body, "alice");
        assert_eq!(origin.taken(), 1, "TLS: {tls}");

        // Credentials in the first request, on a page that requests none, for any scheme.
        let mut direct = Client::new(&rig, &origin, tls).await;
        assert_eq!(
            direct.get("/public", Some("negotiate YII=")).await.body,
            "alice"
        );

        // Neither open nor closed connections of alice reach other clients.
        let mut other = Client::new(&rig, &origin, tls).await;
        assert_eq!(other.get("/public", None).await.body, "nobody");
        drop((alice, direct));
        let mut next = Client::new(&rig, &origin, tls).await;
        assert_eq!(next.get("/public", None).await.body, "nobody");
        assert_eq!(next.get("/", None).await.status, 401);
    }
}

/// Starts a server of HTTPS that offers both protocols, and responds to each request over HTTP/2
/// with this function, after the first frame of the body, or for PUT after the whole body. Over
/// HTTP/1.1 the response has the body of the request.
async fn over_http2(
    rig: &Rig,
    respond: impl Fn() -> Result<Response<Full<Bytes>>, h2::Error> + Clone + Send + Sync + 'static,
) -> Origin {
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["h2", "http/1.1"], |_| ());
    Origin::of(move |stream| {
        let (acceptor, respond) = (acceptor.clone(), respond.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let service = service_fn(move |request: Request<Incoming>| {
                let respond = respond.clone();
                async move {
                    let (head, mut body) = request.into_parts();
                    if head.version != Version::HTTP_2 {
                        let body = body.collect().await.unwrap().to_bytes();
                        return Ok(Response::new(Full::from(body)));
                    }
                    while body.frame().await.is_some() && head.method == Method::PUT {}
                    respond()
                }
            });
            let io = TokioIo::new(stream);
            // Clients of tests may disconnect at any time.
            let _ = if http2 {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.serve_connection(io, service).await
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                builder.serve_connection(io, service).await
            };
        }
    })
    .await
}

/// Sends a request over HTTP/2, on a new connection to the proxy.
async fn send(rig: &Rig, origin: &Origin, method: &str, body: &[u8]) -> Answer {
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let mut sender = client::http2_over::<_, Full<Bytes>>(stream.unwrap()).await;
    let request = Request::builder().method(method).uri("https://localhost/");
    let request = request.body(Full::from(body.to_vec())).unwrap();
    let sent = async { Answer::of(sender.send_request(request).await.unwrap()).await };
    timeout(EVENT_TIMEOUT, sent).await.unwrap()
}

#[tokio::test]
async fn a_request_that_requires_http1_is_sent_again_and_the_route_remembers_it() {
    let rig = Rig::new().await;
    let body: Vec<u8> = (b'a'..=b'p').cycle().take((64 << 10) + 1).collect();
    let small = &body[1..];
    for (method, body, status) in [
        ("DELETE", &b""[..], 200),
        ("POST", small, 200),
        ("PUT", small, 200),
        ("PUT", &body, 502),
    ] {
        let refused = Arc::<AtomicUsize>::default();
        let counted = refused.clone();
        let origin = over_http2(&rig, move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(Reason::HTTP_1_1_REQUIRED.into())
        })
        .await;
        let answer = send(&rig, &origin, method, body).await;
        assert_eq!(answer.status, status, "{method}: {answer:?}");
        match status {
            200 => assert!(answer.body.as_bytes() == body, "{method}: {answer:?}"),
            _ => assert!(answer.body.contains("requires HTTP/1.1"), "{answer:?}"),
        }
        let next = send(&rig, &origin, method, b"next").await;
        assert_eq!((next.status, &*next.body), (200, "next"));
        assert_eq!(refused.load(Ordering::SeqCst), 1, "{method}");
    }
}

/// A server that stops processes no stream after the one that its GOAWAY names.
#[tokio::test]
async fn a_stream_that_a_stopping_server_excludes_is_tried_again() {
    let rig = Rig::new().await;
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["h2"], |_| ());
    let asked = Arc::<AtomicUsize>::default();
    let origin = Origin::of(move |stream| {
        let (acceptor, asked) = (acceptor.clone(), asked.clone());
        async move {
            let respond = |id| match asked.fetch_add(1, Ordering::SeqCst) {
                0 => frame(FrameType::GoAway, 0, 0, &[0; 8]),
                _ => frame(FrameType::Headers, END_HEADERS | END_STREAM, id, STATUS_200),
            };
            if let Ok(stream) = acceptor.accept(stream).await {
                // The proxy may close the connection at any time.
                let _ = serve_http2(stream, respond).await;
            }
        }
    })
    .await;
    let answer = send(&rig, &origin, "POST", b"body").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(origin.taken(), 2);
}

#[tokio::test]
async fn a_refused_stream_is_tried_again_a_few_times() {
    let rig = Rig::new().await;
    for (refusals, status) in [(2, 200), (usize::MAX, 502)] {
        let asked = Arc::<AtomicUsize>::default();
        let counted = asked.clone();
        let origin = over_http2(&rig, move || {
            if counted.fetch_add(1, Ordering::SeqCst) < refusals {
                return Err(Reason::REFUSED_STREAM.into());
            }
            Ok(Response::new(Full::from("served")))
        })
        .await;
        for body in [&b""[..], b"body"] {
            asked.store(0, Ordering::SeqCst);
            let answer = send(&rig, &origin, "DELETE", body).await;
            assert_eq!(answer.status, status, "{answer:?}");
            assert_eq!(asked.load(Ordering::SeqCst), 3);
        }
    }
}

#[tokio::test]
async fn a_server_that_offers_negotiate_gets_http1() {
    let rig = Rig::new().await;
    let origin = over_http2(&rig, || {
        let response = Response::builder().status(401);
        let response = response.header(WWW_AUTHENTICATE, "Negotiate");
        Ok(response.body(Full::default()).unwrap())
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    let both = ["h2", "http/1.1"];
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &both)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(client::over(stream, "localhost", "/").await.status, 401);
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &both)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(client::over(stream, "localhost", "/").await.status, 200);
}
