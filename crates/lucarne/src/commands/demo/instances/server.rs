//! HTTP server on loopback for the balancer and the bucket.

use std::convert::Infallible;
use std::error::Error;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves requests on this socket until the process ends.
pub(super) async fn serve<F, A, B>(listener: TcpListener, respond: F) -> Infallible
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    loop {
        let (tcp, _) = lucarne_net::accept(&listener).await;
        let _ = tcp.set_nodelay(true);
        let respond = respond.clone();
        let service = service_fn(move |request| {
            let response = respond(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        // A disconnected client is not an error.
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(tcp), service);
            let _ = connection.await;
        });
    }
}
