//! HTTP/2 streams whose receiver accepts no bytes.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig, Setup, client};

pub(crate) type TestBody = BoxBody<Bytes, Infallible>;

/// Returns a body without an end, and a task that ends when the body has been dropped.
pub(crate) fn endless() -> (TestBody, tokio::task::JoinHandle<()>) {
    let (sender, mut chunks) = mpsc::channel::<Bytes>(1);
    let sending = tokio::spawn(async move {
        let chunk = Bytes::from(vec![0; 64 << 10]);
        while sender.send(chunk.clone()).await.is_ok() {}
    });
    let frames = stream::poll_fn(move |cx| chunks.poll_recv(cx));
    let frames = futures_util::StreamExt::map(frames, |chunk| Ok(Frame::data(chunk)));
    (BodyExt::boxed(StreamBody::new(frames)), sending)
}

/// Starts a server of HTTP/2 that does not read bodies. The response to `/endless` has a body
/// without an end; `dropped` receives a message when the server drops this body.
async fn unreading(rig: &Rig, dropped: mpsc::Sender<()>) -> Origin {
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["h2"], |_| ());
    Origin::of(move |stream| {
        let (acceptor, dropped) = (acceptor.clone(), dropped.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let dropped = dropped.clone();
                async move { Ok::<_, Infallible>(respond(request, dropped)) }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // Clients of tests may disconnect at any time.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await
}

fn respond(request: Request<Incoming>, dropped: mpsc::Sender<()>) -> Response<TestBody> {
    if request.uri().path() == "/endless" {
        let (body, sending) = endless();
        tokio::spawn(async move {
            let _ = sending.await;
            let _ = dropped.send(()).await;
        });
        return Response::new(body);
    }
    tokio::spawn(async move {
        let _unread = request.into_body();
        std::future::pending::<()>().await;
    });
    Response::new(BodyExt::boxed(Empty::new()))
}

#[tokio::test]
async fn a_stream_that_its_receiver_does_not_read_ends_after_the_idle_limit() {
    let mut setup = Setup::new();
    setup.limits.idle = Duration::from_secs(1);
    let rig = setup.start().await;
    let (dropped, mut drops) = mpsc::channel(1);
    let origin = unreading(&rig, dropped).await;
    let authority = format!("localhost:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let mut sender = client::http2_over::<_, TestBody>(stream.unwrap()).await;

    // The server responds, but does not read the body of the request.
    let (body, uploading) = endless();
    let request = Request::post("https://localhost/").body(body).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let ended = timeout(EVENT_TIMEOUT, uploading).await;
    ended.expect("the upload is given up").unwrap();

    // The client does not read the body of the response.
    let request = Request::get("https://localhost/endless");
    let request = request.body(BodyExt::boxed(Empty::new())).unwrap();
    let unread = sender.send_request(request).await.unwrap();
    let ended = timeout(EVENT_TIMEOUT, drops.recv()).await;
    ended.expect("the download is given up").unwrap();
    drop(unread);

    // The connections still work.
    assert_eq!(origin.taken(), 1);
    let request = Request::get("https://localhost/");
    let request = request.body(BodyExt::boxed(Empty::new())).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert_eq!(origin.taken(), 1);
}
