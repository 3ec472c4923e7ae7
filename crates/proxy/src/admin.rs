//! Web pages, JSON and metrics of the proxy, served on a separate listener.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::hosts::HostRow;
use crate::learned::LearnedRow;
use crate::observe::parameter;
use crate::observe::{self, Observer};
use crate::proxy::Proxy;
use crate::records::{Record, RecordFilter};
use crate::store_metrics::StoreMetrics;
use crate::target::Target;

/// Limit of concurrent connections to the page.
const CONNECTIONS: usize = 64;
/// Time limit for a client to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Server for the page of a proxy, its JSON and its metrics.
#[derive(Clone)]
pub struct Admin(Arc<AdminState>);

struct AdminState {
    proxy: Proxy,
    observer: Option<Arc<Observer>>,
    registry: Registry,
}

#[derive(Template)]
#[template(path = "admin.html")]
struct Page {
    requests: u64,
    open: u64,
    intercepted: u64,
    tunnelled: u64,
    distrusted: u64,
    made: u64,
    hits: u64,
    errors: u64,
    /// Failed requests of the hosts in the table.
    failed: u64,
    hosts: Vec<HostRow>,
    learned: Vec<LearnedRow>,
    observed: bool,
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage {
    query: String,
    records: Vec<Arc<Record>>,
}

#[derive(Serialize)]
struct Requests<'r> {
    requests: Vec<&'r Record>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hosts {
    hosts: Vec<HostRow>,
    /// Hosts that are tunnelled for some clients.
    learned: Vec<LearnedRow>,
}

impl Admin {
    /// Creates the page of `proxy` and its observer. Adds the metrics of the certificate store to
    /// `registry`.
    pub fn new(proxy: Proxy, observer: Option<Arc<Observer>>, mut registry: Registry) -> Self {
        registry.register_collector(Box::new(StoreMetrics::of(&proxy)));
        Admin(Arc::new(AdminState {
            proxy,
            observer,
            registry,
        }))
    }

    /// Accepts connections and responds to requests until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else {
                return;
            };
            let (stream, _) = lucarne_net::accept(&listener).await;
            let shown = self.0.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let (shown, request) = (shown.clone(), request.map(drop));
                    async move { Ok::<_, Infallible>(respond_apart(shown, request).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                // A client that closed the connection early needs no report.
                let _ = connection.await;
                drop(permit);
            });
        }
    }
}

/// Responds on a thread that may block: pages can read the inventory on a disk.
async fn respond_apart(shown: Arc<AdminState>, request: Request<()>) -> Response<Full<Bytes>> {
    let response = tokio::task::spawn_blocking(move || respond(&shown, &request)).await;
    let failed = |_| text(StatusCode::INTERNAL_SERVER_ERROR, "the page failed\n");
    response.unwrap_or_else(failed).map(Full::new)
}

fn respond<B>(shown: &AdminState, request: &Request<B>) -> Response<Bytes> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    if !meant(request) {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "this page is served under an IP address or localhost only: use one of them\n",
        );
    }
    let path = request.uri().path();
    match path {
        "/" => page(shown),
        "/health" => health(shown),
        "/ca.pem" => typed("application/x-pem-file", shown.proxy.ca_pem()),
        "/hosts.json" => hosts(shown),
        "/requests" => redirect("/requests/"),
        "/requests/" | "/requests.json" => requests(shown, request.uri()),
        "/metrics" => metrics(shown, request.headers()),
        "/observed" => redirect("/observed/"),
        _ => observed(shown, request)
            .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "no such page\n")),
    }
}

/// Responds with 200 while the proxy runs. The lines after the first are problems of the observer,
/// which do not affect traffic.
fn health(shown: &AdminState) -> Response<Bytes> {
    let troubles = shown
        .observer
        .iter()
        .flat_map(|observer| observer.troubles());
    let lines: Vec<_> = std::iter::once("ok".to_owned()).chain(troubles).collect();
    typed("text/plain; charset=utf-8", lines.join("\n") + "\n")
}

fn observed<B>(shown: &AdminState, request: &Request<B>) -> Option<Response<Bytes>> {
    let below = request.uri().path().strip_prefix("/observed/")?;
    let query = request.uri().query().unwrap_or_default();
    observe::routes(shown.observer.as_ref()?, below, query)
}

/// Returns whether the `Host` of the request is an address, `localhost` or absent. With DNS
/// rebinding, a foreign web page can read responses of this server through a browser. The `Host` of
/// these requests is a name of the web page's own domain.
fn meant<B>(request: &Request<B>) -> bool {
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let Some(Ok(target)) = host.map(|host| Target::parse(host, 80)) else {
        return host.is_none();
    };
    target.host.ip().is_some() || target.host.as_str() == "localhost"
}

fn page(shown: &AdminState) -> Response<Bytes> {
    let (totals, store) = (shown.proxy.totals(), shown.proxy.store_stats());
    let hosts = shown.proxy.hosts();
    let page = Page {
        requests: totals.requests,
        open: totals.open,
        intercepted: totals.intercepted,
        tunnelled: totals.tunnelled,
        distrusted: totals.distrusted,
        made: store.generated,
        hits: store.hits + store.disk_hits + store.coalesced,
        errors: store.errors,
        failed: hosts.iter().map(|row| row.failures).sum(),
        hosts,
        learned: shown.proxy.learned(),
        observed: shown.observer.is_some(),
    };
    rendered(&page)
}

/// Returns the last requests that match `q`, as a page or as JSON.
fn requests(shown: &AdminState, uri: &Uri) -> Response<Bytes> {
    let query = parameter(uri.query().unwrap_or_default(), "q").unwrap_or_default();
    let filter = RecordFilter::parse(&query);
    let recorder = shown.proxy.recorder();
    let records = recorder.map_or(Vec::new(), |recorder| recorder.recent(&filter));
    if uri.path() == "/requests/" {
        return rendered(&RequestsPage { query, records });
    }
    json(&Requests {
        requests: records.iter().map(Arc::as_ref).collect(),
    })
}

fn rendered(page: &impl Template) -> Response<Bytes> {
    let mut response = match page.render() {
        Ok(page) => typed("text/html; charset=utf-8", page),
        Err(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the page cannot be rendered\n",
        ),
    };
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
                  frame-ancestors 'none'";
    let policy = HeaderValue::from_static(policy);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    response
}

fn hosts(shown: &AdminState) -> Response<Bytes> {
    json(&Hosts {
        hosts: shown.proxy.hosts(),
        learned: shown.proxy.learned(),
    })
}

fn json(value: &impl Serialize) -> Response<Bytes> {
    let json = serde_json::to_vec(value).unwrap_or_default();
    typed("application/json", json)
}

fn metrics(shown: &AdminState, headers: &HeaderMap) -> Response<Bytes> {
    let mut metrics = String::new();
    match prometheus_client::encoding::text::encode(&mut metrics, &shown.registry) {
        Ok(()) => {
            let (kind, metrics) = lucarne_net::exposition(headers, metrics);
            typed(kind, metrics)
        }
        Err(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be encoded\n",
        ),
    }
}

fn redirect(place: &'static str) -> Response<Bytes> {
    let mut response = text(StatusCode::MOVED_PERMANENTLY, "");
    response
        .headers_mut()
        .insert(LOCATION, HeaderValue::from_static(place));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = typed("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

fn typed(kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
