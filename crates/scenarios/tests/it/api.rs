//! A small API over TLS, which counts its requests.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
use lucarne_testkit::tls_server;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Api {
    pub(crate) url: String,
    /// PEM file of the root of the API's certificate.
    pub(crate) ca: PathBuf,
    /// Certificate of the API.
    pub(crate) certificate: Vec<u8>,
    pub(crate) seen: Arc<Seen>,
    _directory: tempfile::TempDir,
    _runtime: Runtime,
}

/// Counts and names of the requests.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Names of created things.
    pub(crate) names: Mutex<HashSet<String>>,
    /// Requested paths.
    pub(crate) paths: Mutex<Vec<String>>,
    /// Methods of the requests.
    pub(crate) methods: Mutex<Vec<String>>,
    /// Meets when three requests have arrived.
    meeting: Meeting,
}

struct Meeting(tokio::sync::Barrier);

impl Default for Meeting {
    fn default() -> Self {
        Self(tokio::sync::Barrier::new(3))
    }
}

impl Api {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let root = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
        let mut options = LeafOptions::for_names(["localhost"]).unwrap();
        options.scts = 2;
        let leaf = root.issue(&options).unwrap();
        let config = tls_server(
            std::slice::from_ref(&leaf),
            &options.key,
            &["h2", "http/1.1"],
        );
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, root.certificate_pem()).unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        runtime.spawn(accept(
            listener,
            TlsAcceptor::from(config.unwrap()),
            seen.clone(),
        ));
        Self {
            url: format!("https://localhost:{port}"),
            ca,
            certificate: leaf,
            seen,
            _directory: directory,
            _runtime: runtime,
        }
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        tokio::spawn(async move {
            seen.connections.fetch_add(1, SeqCst);
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            match stream.get_ref().1.handshake_kind() {
                Some(rustls::HandshakeKind::Resumed) => seen.resumed.fetch_add(1, SeqCst),
                _ => seen.full.fetch_add(1, SeqCst),
            };
            let serve = service_fn(|request| answer(request, seen.clone()));
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), serve)
                .await;
        });
    }
}

/// Responds to `/packed/CODING` with a list in this coding. `POST /things` creates a thing and
/// returns its id, `GET /things/ID` returns this thing, `/redirect/N` redirects N times, `/to?URL`
/// redirects to the URL, `/cookie` sets a cookie, `/whoami` returns the cookies, `/meet/…` responds
/// to three requests together, `/list` is a list, `/html` is a page, and
/// `/slow/MS` takes this time. Other paths are 404.
async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let number = seen.requests.fetch_add(1, SeqCst);
    let path = request.uri().path().to_owned();
    seen.paths.lock().push(path.clone());
    seen.methods.lock().push(request.method().to_string());
    let of = |status: StatusCode, kind: &str, body: String| {
        let answer = Response::builder()
            .status(status)
            .header("content-type", kind);
        let answer = answer
            .header("etag", "\"7\"")
            .header("location", format!("/things/{number}"));
        Ok(answer.body(Full::new(body.into())).unwrap())
    };
    let redirect = |location: String| {
        let answer = Response::builder().status(StatusCode::FOUND);
        let answer = answer.header("location", location);
        Ok(answer.body(Full::default()).unwrap())
    };
    let json = |status, body| of(status, "application/json", body);
    if request
        .headers()
        .get("authorization")
        .is_none_or(|token| token != "Bearer secret")
    {
        return json(StatusCode::UNAUTHORIZED, "{\"error\": \"no token\"}".into());
    }
    let mut parts = path.trim_start_matches('/').split('/');
    match (request.method(), parts.next(), parts.next()) {
        (&Method::POST, Some("things"), None) => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let Ok(sent) = serde_json::from_slice::<serde_json::Value>(&body) else {
                return json(StatusCode::BAD_REQUEST, "{}".into());
            };
            let name = sent["name"].as_str().unwrap_or_default().to_owned();
            let made = serde_json::json!({"id": number, "name": name, "sans": sent["sans"]});
            seen.names.lock().insert(name);
            json(StatusCode::CREATED, made.to_string())
        }
        (_, Some("things"), Some(id)) => {
            let found = serde_json::json!({"id": id.parse::<u64>().ok()});
            json(StatusCode::OK, found.to_string())
        }
        (_, Some("list"), _) => json(
            StatusCode::OK,
            "{\"data\": [{\"id\": 1}, {\"id\": 2}], \"total\": 2}".into(),
        ),
        (_, Some("packed"), Some(coding)) => {
            let list = b"{\"data\": [1, 2, 3]}";
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(list).unwrap();
            let body = match coding {
                "gzip" => gzip.finish().unwrap(),
                "zstd" => zstd::encode_all(&list[..], 1).unwrap(),
                _ => b"no such thing".to_vec(),
            };
            let answer = Response::builder().header("content-encoding", coding);
            Ok(answer.body(Full::new(body.into())).unwrap())
        }
        (_, Some("redirect"), Some("0")) => json(StatusCode::OK, "{\"end\": true}".into()),
        (_, Some("redirect"), Some(left)) => {
            let left: u64 = left.parse().unwrap();
            redirect(format!("/redirect/{}", left - 1))
        }
        (_, Some("to"), None) => redirect(request.uri().query().unwrap().to_owned()),
        (_, Some("cookie"), None) => {
            let answer = Response::builder().header("set-cookie", "session=1; Path=/");
            Ok(answer.body(Full::default()).unwrap())
        }
        (_, Some("whoami"), None) => {
            let cookie = request.headers().get("cookie");
            let cookie = cookie.map_or("", |cookie| cookie.to_str().unwrap());
            let seen = serde_json::json!({ "cookie": cookie });
            json(StatusCode::OK, seen.to_string())
        }
        (_, Some("meet"), Some(_)) => {
            seen.meeting.0.wait().await;
            json(
                StatusCode::OK,
                serde_json::json!({ "id": number }).to_string(),
            )
        }
        (_, Some("html"), _) => of(
            StatusCode::OK,
            "text/html",
            "<html>all is well</html>".into(),
        ),
        (_, Some("slow"), Some(ms)) => {
            // The response takes at least this long, which is what the test needs.
            tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await;
            json(StatusCode::OK, "{}".into())
        }
        _ => json(StatusCode::NOT_FOUND, "{\"error\": \"none\"}".into()),
    }
}
