//! Streams of HTTP/2 servers, and the clients that use them.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig};
use crate::stalls::{TestBody, endless};

const ALICE: &str = "127.0.0.1:0";
const BOB: &str = "127.0.0.2:0";

/// Starts a server of HTTP/2 that allows `streams` streams. It responds to `/events` with an event
/// and no end, to `/unread` without reading the body, and to other paths with the body's length.
async fn server(rig: &Rig, streams: u32) -> Origin {
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["h2"], |_| ());
    Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service =
                service_fn(|request| async { Ok::<_, Infallible>(respond(request).await) });
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // The first bytes of an unread body use up the window of the connection.
            builder
                .max_concurrent_streams(streams)
                .initial_connection_window_size(65_535);
            // Clients of tests may disconnect at any time.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await
}

async fn respond(request: Request<Incoming>) -> Response<TestBody> {
    match request.uri().path() {
        "/events" => {
            let event = Ok(Frame::data(Bytes::from("event")));
            let events = stream::iter([event]).chain(stream::pending());
            Response::new(BodyExt::boxed(StreamBody::new(events)))
        }
        "/unread" => {
            tokio::spawn(async move {
                let _unread = request.into_body();
                std::future::pending::<()>().await;
            });
            full("")
        }
        _ => {
            let body = request.into_body().collect().await;
            let length = body.map_or(0, |body| body.to_bytes().len());
            full(&length.to_string())
        }
    }
}

fn full(text: &str) -> Response<TestBody> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    Response::new(BodyExt::boxed(body))
}

/// Returns a body of this length.
fn zeros(length: usize) -> TestBody {
    BodyExt::boxed(Full::new(Bytes::from(vec![0; length])))
}

/// A client at one address.
struct Client(SendRequest<TestBody>);

impl Client {
    async fn new(rig: &Rig, origin: &Origin, address: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address.parse::<SocketAddr>().unwrap()).unwrap();
        let stream = socket.connect(rig.address).await.unwrap();
        let authority = format!("localhost:{}", origin.address.port());
        let (stream, head) = client::connect_over(stream, &authority).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let stream = client::tls_over(stream, &rig.ca, "localhost", &["h2"]).await;
        Client(client::http2_over(stream.unwrap()).await)
    }

    /// Sends a request, and returns the head of the response.
    async fn begin(&self, path: &str, body: TestBody) -> Response<Incoming> {
        let uri = format!("https://localhost{path}");
        let request = Request::post(uri).body(body).unwrap();
        let mut sender = self.0.clone();
        let response = timeout(EVENT_TIMEOUT, sender.send_request(request)).await;
        response.expect("a response begins").unwrap()
    }

    /// Sends a body of this length, and returns the response.
    async fn send(&self, length: usize) -> Answer {
        let answer = Answer::of(self.begin("/", zeros(length)).await);
        timeout(EVENT_TIMEOUT, answer).await.unwrap()
    }

    /// Opens `count` streams of events.
    async fn events(&self, count: usize) -> Vec<Response<Incoming>> {
        let begun = (0..count).map(|_| self.begin("/events", zeros(0)));
        let begun = join_all(begun).await;
        assert!(begun.iter().all(|response| response.status() == 200));
        begun
    }
}

#[tokio::test]
async fn streams_of_events_do_not_stop_other_clients() {
    let rig = Rig::new().await;
    let origin = server(&rig, 100).await;
    let alice = Client::new(&rig, &origin, ALICE).await;
    let _events = alice.events(100).await;
    assert_eq!(origin.taken(), 1);
    let bob = Client::new(&rig, &origin, BOB).await;
    assert_eq!(bob.send(0).await.status, 200);
    assert_eq!(bob.send(0).await.status, 200);
    assert_eq!(origin.taken(), 2);
}

#[tokio::test]
async fn unread_uploads_do_not_stop_other_clients() {
    let rig = Rig::new().await;
    let origin = server(&rig, 100).await;
    let alice = Client::new(&rig, &origin, ALICE).await;
    for _ in 0..3 {
        // The stream is in use after the response, while the body is sent.
        let (body, _uploading) = endless();
        let response = alice.begin("/unread", body).await;
        assert_eq!(Answer::of(response).await.status, 200);
    }
    let bob = Client::new(&rig, &origin, BOB).await;
    let answer = bob.send(1 << 20).await;
    assert_eq!((answer.status, &*answer.body), (200, "1048576"));
    assert_eq!(origin.taken(), 2);
}

#[tokio::test]
async fn a_client_gets_further_connections_beyond_the_limit_of_streams() {
    let rig = Rig::new().await;
    let origin = server(&rig, 2).await;
    let alice = Client::new(&rig, &origin, ALICE).await;
    let _events = alice.events(5).await;
    assert_eq!(origin.taken(), 3);
    // The last connection has a free stream.
    assert_eq!(alice.send(0).await.status, 200);
    assert_eq!(origin.taken(), 3);
}

#[tokio::test]
async fn a_connection_without_streams_serves_other_clients() {
    let rig = Rig::new().await;
    let origin = server(&rig, 100).await;
    for address in [ALICE, BOB, ALICE] {
        let client = Client::new(&rig, &origin, address).await;
        assert_eq!(client.send(10).await.body, "10");
    }
    assert_eq!(origin.taken(), 1);
}

#[tokio::test]
async fn a_server_that_allows_no_streams_is_reported() {
    let rig = Rig::new().await;
    let origin = server(&rig, 0).await;
    let alice = Client::new(&rig, &origin, ALICE).await;
    for connections in 1..3 {
        let answer = alice.send(0).await;
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(answer.body.contains("allows no streams"), "{answer:?}");
        assert_eq!(origin.taken(), connections);
    }
}
