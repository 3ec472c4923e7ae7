//! Servers behind the proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_mint::{Authority, LeafOptions, Time};
use lucarne_testkit::tls_server;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server that runs until it is dropped.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    /// Number of accepted connections.
    pub(crate) connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Origin {
    pub(crate) fn taken(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Starts a server that calls this function for every connection.
    pub(crate) async fn of<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        Origin {
            address,
            connections,
            task,
        }
    }

    /// Starts a server of plain HTTP.
    pub(crate) async fn plain() -> Self {
        Self::of(|stream| serve(stream, false)).await
    }

    /// Starts a server of HTTPS with a certificate of this CA for these names. The server offers
    /// the protocols `alpn`.
    pub(crate) async fn https(ca: &Authority, names: &[&str], alpn: &[&str]) -> Self {
        Self::https_with(ca, names, alpn, |_| ()).await
    }

    /// Starts a server of HTTPS whose certificate is changed before it is signed.
    pub(crate) async fn https_with(
        ca: &Authority,
        names: &[&str],
        alpn: &[&str],
        change: impl FnOnce(&mut LeafOptions),
    ) -> Self {
        let acceptor = acceptor(ca, names, alpn, change);
        Self::of(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(stream, http2).await;
                }
            }
        })
        .await
    }
}

/// Changes the validity so that the certificate expired yesterday.
pub(crate) fn expired(options: &mut LeafOptions) {
    options.not_before = Time::now().plus_days(-30);
    options.not_after = Time::now().plus_days(-1);
}

pub(crate) fn acceptor(
    ca: &Authority,
    names: &[&str],
    alpn: &[&str],
    change: impl FnOnce(&mut LeafOptions),
) -> TlsAcceptor {
    let mut options = LeafOptions::for_names(names.iter().copied()).unwrap();
    change(&mut options);
    let chain = ca.chain(ca.issue(&options).unwrap());
    let config = tls_server(chain.certificates(), &options.key, alpn);
    config.unwrap().into()
}

async fn serve<S>(stream: S, http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    let io = TokioIo::new(stream);
    // Clients of tests may disconnect at any time.
    let _ = if http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.serve_connection(io, service).await
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        builder.serve_connection(io, service).with_upgrades().await
    };
}

/// Serves HTTP/2 without TLS, for clients with prior knowledge.
pub(crate) async fn clear_http2(stream: TcpStream) {
    serve(stream, true).await;
}

/// Serves one request, and closes the connection.
pub(crate) async fn serve_one<S>(stream: S, http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if !http2 {
        return serve(stream, false).await;
    }
    let asked = tokio::sync::Notify::new();
    let service = service_fn(|request| {
        asked.notify_one();
        async { Ok::<_, Infallible>(answer(request).await) }
    });
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = asked.notified() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves `/echo` (the body), `/seen` (a summary of the request), `/header/NAME` (a header of the
/// request), `/fields` (the number of fields, and the `x-` fields), `/trailers` (its trailers and
/// some more), `/socket` (upgrade to an echo of bytes), `/refuse` (refuses the body).
async fn answer(mut request: Request<Incoming>) -> Answer {
    match request.uri().path() {
        "/echo" => {
            let body = request.into_body().collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            Response::new(Full::new(body).boxed())
        }
        "/trailers" => trailers(request).await,
        "/fields" => {
            let mut response = text(StatusCode::OK, &request.headers().len().to_string());
            let seen = request.headers().iter();
            let seen = seen.filter(|(name, _)| name.as_str().starts_with("x-"));
            let seen = seen.map(|(name, value)| (name.clone(), value.clone()));
            response.headers_mut().extend(seen);
            response
        }
        "/socket" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            response
        }
        "/refuse" => text(StatusCode::EXPECTATION_FAILED, "no"),
        "/nothing" => text(StatusCode::NO_CONTENT, ""),
        "/seen" => seen(&request),
        path => match path.strip_prefix("/header/") {
            Some(name) => {
                let value = request.headers().get(name).map(HeaderValue::as_bytes);
                text(
                    StatusCode::OK,
                    &String::from_utf8_lossy(value.unwrap_or_default()),
                )
            }
            None => text(StatusCode::OK, path),
        },
    }
}

/// Returns the request's trailer `x-sent` as text, with a gRPC trailer.
async fn trailers(request: Request<Incoming>) -> Answer {
    let te = request.headers().get("te").cloned();
    let sent = request.into_body().collect().await.unwrap();
    let sent = sent.trailers().and_then(|trailers| trailers.get("x-sent"));
    let sent = sent.map_or(&b"none"[..], HeaderValue::as_bytes).to_vec();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("x-te", te.unwrap_or(HeaderValue::from_static("none")));
    // A body of known length has no trailers in HTTP/1.1.
    let body = http_body_util::StreamBody::new(futures_util::stream::iter([
        Ok(hyper::body::Frame::data(Bytes::from(sent))),
        Ok(hyper::body::Frame::trailers(trailers)),
    ]));
    let mut response = Response::new(BodyExt::boxed(body));
    let names = HeaderValue::from_static("grpc-status, x-te");
    response
        .headers_mut()
        .insert(HeaderName::from_static("trailer"), names);
    response
}

fn seen(request: &Request<Incoming>) -> Answer {
    let header = |name| {
        let value = request.headers().get(name);
        value.map_or(String::new(), |value: &HeaderValue| {
            value.to_str().unwrap().to_owned()
        })
    };
    let seen = format!(
        "{} {} {:?} host={} via={} connection={} auth={}",
        request.method(),
        request.uri(),
        request.version(),
        header(HOST),
        header(VIA),
        header(CONNECTION),
        header(http::header::PROXY_AUTHORIZATION),
    );
    Response::new(Full::new(Bytes::from(seen)).boxed())
}

fn text(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

/// Reads some bytes, and closes the connection.
pub(crate) async fn slam(mut stream: TcpStream) {
    let mut bytes = [0; 512];
    let _ = stream.read(&mut bytes).await;
}

/// Sends first, and then echoes all bytes: neither HTTP nor TLS.
pub(crate) async fn banner(mut stream: TcpStream) {
    let _ = stream.write_all(b"220 ready\r\n").await;
    let (mut read, mut write) = stream.split();
    let _ = tokio::io::copy(&mut read, &mut write).await;
}
