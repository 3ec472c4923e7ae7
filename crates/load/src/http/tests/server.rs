//! Servers: hyper for correct behaviour, scripts for faults.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::{Method, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, LeafOptions, extension, oid};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::http::{Client, ClientOptions, Endpoint};

/// A server on loopback, which ends with the test's runtime.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// Number of accepted connections.
    connections: Arc<AtomicUsize>,
    /// Root of the server's certificate in PEM.
    pub(super) root: Option<String>,
}

impl Server {
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) async fn client(&self, options: ClientOptions) -> Client {
        let scheme = if self.root.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{}", self.address.port());
        let options = ClientOptions {
            resolve: vec![("localhost".into(), self.address.ip())],
            ..options
        };
        let endpoint = Endpoint::resolve(&url, &options).await.unwrap();
        Client::new(endpoint, Arc::new(options))
    }

    async fn accept<F: Future<Output = ()> + Send + 'static>(
        root: Option<String>,
        serve: impl Fn(TcpStream, usize) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counter.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self {
            address,
            connections,
            root,
        }
    }

    /// Starts a server that responds with an endless body.
    pub(super) async fn endless() -> Self {
        Self::accept(None, |mut stream, _| async move {
            let piece = vec![b'x'; 64 << 10];
            let mut begun = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while begun.is_ok() {
                begun = stream.write_all(&piece).await;
            }
        })
        .await
    }

    /// Starts a hyper server: see [`answer`].
    pub(super) async fn plain() -> Self {
        Self::accept(None, |stream, _| serve(TokioIo::new(stream))).await
    }

    /// Starts a hyper server over TLS, with a certificate for localhost.
    pub(super) async fn tls(alpn: &'static [&'static [u8]]) -> Self {
        let (config, root) = certificate(alpn);
        Self::over_tls(config, root).await
    }

    /// Starts a hyper server with a self-signed certificate, which is returned.
    pub(super) async fn self_signed(name: &str, authority: bool, days: i64) -> (Self, String) {
        let (config, pem) = self_signed(name, authority, days);
        (Self::over_tls(config, pem.clone()).await, pem)
    }

    async fn over_tls(config: rustls::ServerConfig, root: String) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::accept(Some(root), move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(TokioIo::new(stream)).await;
                }
            }
        })
        .await
    }

    /// Starts a TLS server that does not have the key of its certificate.
    pub(super) async fn impostor() -> Self {
        let ca = Authority::root(&CaOptions::named("Test Root", KeyType::EcdsaP256)).unwrap();
        let key = || Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap());
        let issue = |key| {
            ca.issue(&LeafOptions::with_key(["localhost"], key))
                .unwrap()
        };
        let own = key();
        let mut config = serving(issue(own.clone()), &own, &[b"http/1.1"]);
        let signing = PrivatePkcs8KeyDer::from(own.to_pkcs8().unwrap()).into();
        let signing = any_supported_type(&signing).unwrap();
        let shown = CertifiedKey::new(vec![issue(key()).into()], signing);
        config.cert_resolver = Arc::new(SingleCertAndKey::from(shown));
        Self::over_tls(config, ca.certificate_pem()).await
    }

    /// Starts a TLS server that sends these bytes as response to one request, and closes the
    /// connection without `close_notify`.
    pub(super) async fn cut_off(answer: &'static [u8]) -> Self {
        let (config, root) = certificate(&[b"http/1.1"]);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::accept(Some(root), move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                if read_head(&mut stream).await && stream.write_all(answer).await.is_ok() {
                    let _ = stream.flush().await;
                }
            }
        })
        .await
    }

    /// Starts a server of HTTP/2 that responds to the first request of each connection, and refuses
    /// the other requests.
    pub(super) async fn refusing(refusal: Refusal) -> Self {
        Self::accept(None, move |stream, _| async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            let mut is_first = true;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                match refusal {
                    _ if std::mem::take(&mut is_first) => {
                        let _ = respond.send_response(Response::new(()), true);
                    }
                    Refusal::Stream(reason) => respond.send_reset(reason),
                    Refusal::Connection(reason) => connection.abrupt_shutdown(reason),
                }
            }
        })
        .await
    }

    /// Starts a server that responds to the requests of connection number n with the pieces of
    /// `script(n)`, and closes after the last request of the script. A request ends with an empty
    /// line.
    pub(super) async fn script(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        let script = Arc::new(script);
        Self::accept(None, move |mut stream, number| {
            let script = script.clone();
            async move {
                let script = script(number);
                for answer in script.answers {
                    if script.read && !read_head(&mut stream).await {
                        return;
                    }
                    for piece in answer {
                        if stream.write_all(&piece).await.is_err() {
                            return;
                        }
                        // The pause lets the pieces arrive separately. If some arrive together on a
                        // busy machine, the response is the same.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                if script.hang {
                    std::future::pending::<()>().await;
                }
                if script.reset {
                    let _ = stream.set_zero_linger();
                }
            }
        })
        .await
    }
}

/// Refusal of a request over HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// RST_STREAM with this code.
    Stream(h2::Reason),
    /// GOAWAY with this code; the connection ends.
    Connection(h2::Reason),
}

/// Script of a connection.
pub(super) struct Script {
    /// Pieces of each response.
    pub(super) answers: Vec<Vec<Vec<u8>>>,
    /// Whether a request is read before each response.
    pub(super) read: bool,
    /// Whether to keep the connection open without sending at the end.
    pub(super) hang: bool,
    /// Whether to reset the connection at the end instead of closing it.
    pub(super) reset: bool,
}

impl Script {
    /// Sends these responses, each in one piece, and closes the connection.
    pub(super) fn of(answers: &[&[u8]]) -> Self {
        Self {
            answers: answers.iter().map(|a| vec![a.to_vec()]).collect(),
            read: true,
            hang: false,
            reset: false,
        }
    }
}

async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> bool {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut head).await, Ok(1..)) {
            return false;
        }
    }
    true
}

async fn serve<S>(io: TokioIo<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(io, service_fn(answer))
        .await;
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// Responds to `/echo` with the body, to `/bytes/N` with N bytes, to `/chunks/N` with N bytes in
/// chunks, to `/status/N` with this status, to `/slow` after 30 ms, and to other paths with 404.
async fn answer(request: ::http::Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let number = || -> usize { path.rsplit('/').next().unwrap().parse().unwrap() };
    let full = |bytes: Bytes| Full::new(bytes).boxed_unsync();
    let to_head = request.method() == Method::HEAD;
    let mut response = match path.split('/').nth(1).unwrap_or_default() {
        "echo" => {
            let method = request.method().to_string();
            let host = request.headers().get("host").cloned();
            let host = host.or_else(|| request.uri().authority()?.as_str().parse().ok());
            let extra = request.headers().get("x-extra").cloned();
            let Ok(body) = request.into_body().collect().await else {
                return Ok(Response::new(full(Bytes::new())));
            };
            let mut response = Response::new(full(body.to_bytes()));
            let headers = response.headers_mut();
            headers.insert("x-method", method.parse().unwrap());
            host.map(|host| headers.insert("x-host", host));
            extra.map(|extra| headers.insert("x-extra", extra));
            response
        }
        "bytes" => Response::new(full(vec![7; number()].into())),
        "chunks" => {
            let pieces = vec![7u8; number()];
            let pieces: Vec<_> = pieces.chunks(1000).map(Bytes::copy_from_slice).collect();
            let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
            Response::new(StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync())
        }
        "status" => {
            let mut response = Response::new(full(Bytes::new()));
            *response.status_mut() = ::http::StatusCode::from_u16(number() as u16).unwrap();
            response
        }
        "hang" => std::future::pending().await,
        "slow" => {
            // A measurable time to the first byte: at least this long.
            tokio::time::sleep(Duration::from_millis(30)).await;
            Response::new(full(Bytes::from_static(b"at last")))
        }
        _ => {
            let mut response = Response::new(full(Bytes::from_static(b"no such page")));
            *response.status_mut() = ::http::StatusCode::NOT_FOUND;
            response
        }
    };
    if to_head {
        // hyper leaves the response to HEAD to the service for HTTP/2.
        let length = response.body().size_hint().exact().unwrap_or_default();
        *response.body_mut() = full(Bytes::new());
        response
            .headers_mut()
            .insert("content-length", length.into());
    }
    let version = format!("{:?}", response.version());
    response
        .headers_mut()
        .insert("x-version", version.parse().unwrap());
    Ok(response)
}

fn certificate(alpn: &[&[u8]]) -> (rustls::ServerConfig, String) {
    let ca = Authority::root(&CaOptions::named("Test Root", KeyType::EcdsaP256)).unwrap();
    let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap());
    let leaf = LeafOptions::with_key(["localhost"], key.clone());
    let leaf = ca.issue(&leaf).unwrap();
    (serving(leaf, &key, alpn), ca.certificate_pem())
}

/// Returns a self-signed certificate for a server of this name, as a CA certificate or not, valid
/// for this number of days from yesterday.
fn self_signed(name: &str, authority: bool, days: i64) -> (rustls::ServerConfig, String) {
    let mut options = CaOptions::named(name, KeyType::EcdsaP256);
    options.not_after = options.not_before.plus_days(1 + days);
    let ca = Authority::root(&options).unwrap();
    let key = Arc::new(KeyPair::from_pkcs8(&ca.key().to_pkcs8().unwrap()).unwrap());
    let leaf = LeafOptions {
        not_before: options.not_before,
        not_after: options.not_after,
        ..LeafOptions::with_key([name], key.clone())
    };
    let mut template = ca.leaf_template(&leaf).unwrap();
    template.subject = ca.name().clone();
    if authority {
        template.remove_extension(&oid::BASIC_CONSTRAINTS);
        template.extensions.push(extension::ca(None));
    }
    let der = ca.sign(&template).unwrap();
    let pem = lucarne_mint::pem::encode("CERTIFICATE", &der);
    (serving(der, &key, &[b"http/1.1"]), pem)
}

fn serving(leaf: Vec<u8>, key: &KeyPair, alpn: &[&[u8]]) -> rustls::ServerConfig {
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &key.to_pkcs8().unwrap());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(leaf)], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}
