//! Servers behind the proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE, VIA};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_mint::{Authority, LeafOptions, Time};
use lucarne_testkit::tls_server;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server, for as long as it lives.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    /// Connections it has taken.
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

    /// Does this to every connection.
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

    /// Plain HTTP.
    pub(crate) async fn plain() -> Self {
        Self::of(|stream| serve(stream, false)).await
    }

    /// HTTPS by this CA for these names, offering these protocols.
    pub(crate) async fn https(ca: &Authority, names: &[&str], alpn: &[&str]) -> Self {
        Self::https_with(ca, names, alpn, |_| ()).await
    }

    /// The same, with a certificate that is changed before it is signed.
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

/// Ended yesterday.
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
    // Clients of tests break off as they like.
    let _ = match http2 {
        true => {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder.serve_connection(io, service).await
        }
        false => {
            let builder = hyper::server::conn::http1::Builder::new();
            builder.serve_connection(io, service).with_upgrades().await
        }
    };
}

/// `/echo` gives the body back, `/seen` what came of the request, `/socket`
/// upgrades to an echo of bytes, `/refuse` wants no body.
async fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/echo" => {
            let body = request.into_body().collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            Response::new(Full::new(body))
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
        path => text(StatusCode::OK, path),
    }
}

fn seen(request: &Request<Incoming>) -> Response<Full<Bytes>> {
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
    Response::new(Full::new(seen.into()))
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Reads something, and closes.
pub(crate) async fn slam(mut stream: TcpStream) {
    let mut bytes = [0; 512];
    let _ = stream.read(&mut bytes).await;
}

/// Speaks first, and then says everything back: no HTTP, no TLS.
pub(crate) async fn banner(mut stream: TcpStream) {
    let _ = stream.write_all(b"220 ready\r\n").await;
    let (mut read, mut write) = stream.split();
    let _ = tokio::io::copy(&mut read, &mut write).await;
}
