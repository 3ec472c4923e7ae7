//! The site: the logs of the process, their pages and metrics.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use http::header::{CACHE_CONTROL, HOST, HeaderMap, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use lucarne_ct::EntryKind;
use lucarne_log::Log;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::budget::Client;
use crate::error_response::{ErrorCode, ErrorResponse};
use crate::get_roots::GetRoots;
use crate::limits::Limits;
use crate::metrics::{Endpoint, LogMetrics, Metrics};
use crate::monitoring::{Monitoring, not_yet, read_only};
use crate::read_limits::{PartialTile, ReadGate, ReadLimiter, ReadLimits, Reading};
use crate::reply::{Response, headed, plain, value};
use crate::route::{PathError, Prefix, PrefixError, Resource, Roles, Routes};
use crate::signal::Signal;
use crate::tls::Tls;
use crate::{
    error_page, feed, health, logjson, long_poll, metrics, pages, rfc6962, robots, submission,
};

/// The endpoints that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EndpointSet {
    /// The logs, their pages, `/metrics` and `/health`.
    #[default]
    Everything,
    /// The logs and their pages, for a public listener.
    Logs,
    /// `/metrics` and `/health` alone, for a private listener.
    Operations,
}

/// The logs of a process with everything that is served for them. All listeners share it.
pub struct Site {
    /// Replaced as a whole: a request uses one table from its beginning to its end.
    table: ArcSwap<Table>,
    /// Number of the next log that is added. Held while the table is replaced.
    next_number: Mutex<usize>,
    /// TLS of the listeners, if any.
    pub(crate) tls: OnceLock<Arc<Tls>>,
    registry: Registry,
    pub(crate) metrics: Metrics,
    elsewhere: LogMetrics,
    pub(crate) limits: Limits,
    reads: ReadGate,
}

/// The logs of a site with their routes.
struct Table {
    /// All logs. Logs that are being removed are at the end.
    logs: Vec<Arc<ServedLog>>,
    /// The number of logs that are not being removed.
    listed: usize,
    routes: Routes,
}

/// The methods of endpoints that accept a chain.
const SUBMIT: &str = "POST, OPTIONS";

/// A log with the prepared state for its requests.
pub(crate) struct ServedLog {
    /// Unique in the process, also among logs that were removed.
    number: usize,
    pub(crate) log: Arc<Log>,
    monitoring: Monitoring,
    roots: GetRoots,
    metrics: LogMetrics,
    /// Raised at shutdown, and when the log is removed: requests that wait for the log to grow get
    /// their response.
    closing: Arc<Signal>,
}

impl Site {
    /// Creates the site. `registry` has the metrics of the process and gets the metrics of the
    /// site.
    ///
    /// # Errors
    /// If a prefix is not a URL, or two logs have the same prefix.
    pub fn new(
        logs: Vec<Arc<Log>>,
        mut registry: Registry,
        limits: Limits,
    ) -> Result<Arc<Self>, PrefixError> {
        let metrics = Metrics::register(&mut registry);
        let limiter = limits.reads.clone();
        let limiter = limiter.map(|reads| ReadLimiter::new(reads, limits.trusted_proxies.clone()));
        let empty = Table {
            logs: Vec::new(),
            listed: 0,
            routes: Routes::default(),
        };
        let site = Arc::new(Site {
            table: ArcSwap::from_pointee(empty),
            next_number: Mutex::new(0),
            tls: OnceLock::new(),
            elsewhere: metrics.of(""),
            reads: ReadGate::new(limiter, metrics.reads.clone()),
            registry,
            metrics,
            limits,
        });
        site.replace_logs(logs, Vec::new())?;
        Ok(site)
    }

    /// Serves these logs instead of the present ones. Logs that stay are not disturbed. Logs that
    /// are `leaving` have their paths, but are not in `/health` and lists of logs. Requests in
    /// progress get their response from the log that they began with. The metrics of removed logs
    /// are removed.
    ///
    /// # Errors
    /// If a prefix is not a URL, or two logs have the same prefix; then nothing changes.
    pub fn replace_logs(
        &self,
        logs: Vec<Arc<Log>>,
        leaving: Vec<Arc<Log>>,
    ) -> Result<(), PrefixError> {
        let listed = logs.len();
        let logs: Vec<_> = logs.into_iter().chain(leaving).collect();
        let routes = routes(&logs)?;
        let mut next_number = self.next_number.lock();
        let before = self.table.load_full();
        let serve = |log: Arc<Log>| {
            let mut present = before.logs.iter();
            if let Some(served) = present.find(|served| Arc::ptr_eq(&served.log, &log)) {
                return Arc::clone(served);
            }
            let number = *next_number;
            *next_number += 1;
            Arc::new(ServedLog {
                number,
                monitoring: Monitoring::new(),
                roots: GetRoots::default(),
                metrics: self.metrics.of(&log.config().shortname),
                closing: Arc::default(),
                log,
            })
        };
        let logs: Vec<_> = logs.into_iter().map(serve).collect();
        let table = Arc::new(Table {
            logs,
            listed,
            routes,
        });
        self.table.store(Arc::clone(&table));
        for served in &before.logs {
            if !table.logs.iter().any(|stays| Arc::ptr_eq(stays, served)) {
                served.closing.raise();
                served.metrics.remove();
            }
        }
        Ok(())
    }

    /// Ends the requests that wait for a log to grow.
    pub(crate) fn close(&self) {
        for served in &self.table.load().logs {
            served.closing.raise();
        }
    }

    /// Returns all metrics of the process as text (OpenMetrics).
    pub fn render_metrics(&self) -> String {
        self.reads.count();
        metrics::render(&self.registry)
    }

    /// Responds to one request.
    pub(crate) async fn answer(
        &self,
        endpoints: EndpointSet,
        client: &Arc<Client>,
        request: Request<Incoming>,
    ) -> Response {
        let start = Instant::now();
        let (parts, body) = request.into_parts();
        tracing::debug!(method = %parts.method, uri = %parts.uri, "request");
        let head = parts.method == Method::HEAD;
        let table = self.table.load_full();
        let found = match endpoints {
            EndpointSet::Operations => None,
            _ => table.find(&parts),
        };
        let (metrics, endpoint) = match &found {
            Some((served, resource)) => (&served.metrics, endpoint(*resource)),
            None => (&self.elsewhere, own_endpoint(endpoints, parts.uri.path())),
        };
        let reading = endpoint.is_read().then(|| {
            found.map_or(Reading::Other, |(served, resource)| {
                served.reading(resource)
            })
        });
        let admitted = self.reads.admit(reading, client.address(), &parts.headers);
        let (passage, response) = match admitted {
            Ok(passage) => {
                let limits = passage.limits();
                let response = match found {
                    Some((served, resource)) => {
                        let answer = served.answer(resource, parts, body, client, self, limits);
                        answer.await
                    }
                    None => self.operations(&table, endpoint, parts, limits).await,
                };
                (Some(passage), response)
            }
            Err(refused) => (None, refused.into_response()),
        };
        let mut response = if head { headed(response) } else { response };
        if let Some(passage) = passage {
            passage.pay(&mut response);
        }
        let sent = response.body().len();
        metrics.note(endpoint, response.status(), start.elapsed(), sent);
        if let Some(code) = response.extensions().get::<ErrorCode>() {
            metrics.note_refusal(code.0);
        }
        response
    }

    /// Responds to requests that concern no single log.
    async fn operations(
        &self,
        table: &Table,
        endpoint: Endpoint,
        parts: Parts,
        limits: Option<&ReadLimits>,
    ) -> Response {
        let method = &parts.method;
        match parts.uri.path() {
            _ if endpoint == Endpoint::Unknown => table.nothing(&parts),
            _ if method == Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ if method != Method::GET && method != Method::HEAD => read_only(method),
            "/health" => health::answer(table.logs(), self.tls.get().map(|tls| &**tls)).await,
            "/metrics" => {
                let metrics = self.render_metrics();
                let (kind, text) = lucarne_net::exposition(&parts.headers, metrics);
                let kind = HeaderValue::from_static(kind);
                plain(StatusCode::OK, &kind, &value::NO_STORE, text)
            }
            "/page.css" => pages::style(),
            "/errors" => error_page::answer(),
            "/robots.txt" => robots::answer(table.logs()),
            "/logs.v3.json" => logjson::list(table.logs(), limits),
            _ => pages::index(table.logs()),
        }
    }
}

impl Table {
    /// Returns the logs that are not being removed, in the order of the configuration.
    fn logs(&self) -> impl Iterator<Item = &Log> {
        let listed = self.logs.iter().take(self.listed);
        listed.map(|served| &*served.log)
    }

    /// Returns the log and the resource of a request. `None` for a path of the site itself, which
    /// applies if no log has the path.
    fn find(&self, parts: &Parts) -> Option<(&ServedLog, Resource)> {
        let path = parts.uri.path();
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = authority.or_else(|| parts.headers.get(HOST)?.to_str().ok());
        let found = self.routes.find(path, host)?;
        let resource = Resource::parse(found.rest, found.roles);
        // A log at the root of its host does not hide the site's own paths. The list of logs is
        // useless if there is only one log.
        let own = match path {
            "/" => self.listed > 1,
            "/metrics" | "/health" | "/robots.txt" | "/logs.v3.json" => true,
            _ => false,
        };
        if own
            && matches!(
                resource,
                Resource::Page | Resource::Redirect | Resource::NotFound(_)
            )
        {
            return None;
        }
        Some((&**self.logs.get(found.log)?, resource))
    }

    /// Returns 404 with the existing paths, or 301 if only the slash is missing.
    fn nothing(&self, parts: &Parts) -> Response {
        let path = parts.uri.path();
        let slashed = format!("{path}/");
        if let Some(found) = self.routes.find(&slashed, None)
            && found.rest.is_empty()
            && let Ok(location) = HeaderValue::try_from(slashed)
        {
            return redirect(StatusCode::MOVED_PERMANENTLY, location);
        }
        let mut words = String::from("not found; the logs of this server:\n");
        for log in self.logs() {
            let config = log.config();
            words += &format!("{}: {}\n", config.shortname, config.monitoring_prefix);
        }
        not_yet(&words)
    }
}

fn routes(logs: &[Arc<Log>]) -> Result<Routes, PrefixError> {
    let mut routes = Routes::default();
    let name = |n: usize| logs[n].config().shortname.clone();
    for (n, log) in logs.iter().enumerate() {
        let config = log.config();
        let submission = Prefix::parse(&config.submission_prefix)?;
        routes.add(submission, Roles::SUBMISSION, n, name)?;
        let monitoring = Prefix::parse(&config.monitoring_prefix)?;
        routes.add(monitoring, Roles::MONITORING, n, name)?;
        if let Some(url) = &config.also_at {
            let roles = Roles::SUBMISSION.or(Roles::MONITORING);
            routes.add(Prefix::parse(url)?, roles, n, name)?;
        }
    }
    Ok(routes)
}

impl ServedLog {
    /// Returns the kind of read for the read limits.
    fn reading(&self, resource: Resource) -> Reading {
        let (names, tile) = match resource {
            Resource::Tile(tile) => (false, tile),
            Resource::Names(data) => (true, data),
            Resource::Issuer(_) | Resource::Rfc6962(_) => return Reading::Tree(None),
            _ => return Reading::Other,
        };
        let log = self.number;
        let partial = PartialTile { log, names, tile };
        Reading::Tree((!tile.is_full()).then_some(partial))
    }

    async fn answer(
        &self,
        resource: Resource,
        parts: Parts,
        body: Incoming,
        client: &Arc<Client>,
        site: &Site,
        reads: Option<&ReadLimits>,
    ) -> Response {
        let limits = &site.limits;
        let (method, headers) = (parts.method, parts.headers);
        match resource {
            Resource::AddChain => {
                self.add(EntryKind::X509, method, headers, body, client, limits)
                    .await
            }
            Resource::AddPreChain => {
                self.add(EntryKind::Precert, method, headers, body, client, limits)
                    .await
            }
            Resource::CheckChain => match method {
                Method::POST => {
                    let check = submission::check(&self.log, limits, client, headers, body);
                    Box::pin(check).await
                }
                Method::OPTIONS => submission::options(SUBMIT),
                _ => ErrorResponse::method(&method, SUBMIT).into_response(),
            },
            Resource::Feed if method == Method::GET || method == Method::HEAD => {
                let (log, query) = (&self.log, parts.uri.query());
                feed::answer(log, &method, query, &headers, client, &self.closing)
            }
            Resource::Rfc6962(read) if method == Method::GET || method == Method::HEAD => {
                let (log, query) = (&self.log, parts.uri.query());
                // Boxed, as below: the state of a connection should not grow for rare requests.
                Box::pin(async {
                    log.follow().await;
                    rfc6962::answer(log, read, query, client).await
                })
                .await
            }
            Resource::Checkpoint if method == Method::GET && parts.uri.query().is_some() => {
                let query = parts.uri.query();
                let answer = self.checkpoint_after(query, headers, client);
                Box::pin(answer).await
            }
            _ if method == Method::GET || method == Method::HEAD => {
                self.read(resource, &method, headers, client, reads).await
            }
            Resource::NotFound(error) => nothing(error),
            _ if method == Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ => read_only(&method),
        }
    }

    async fn add(
        &self,
        kind: EntryKind,
        method: Method,
        headers: HeaderMap,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        match method {
            // Boxed, so that the state of a connection that only reads tiles has no room for a
            // submission.
            Method::POST => {
                let add = submission::add(&self.log, kind, limits, client, headers, body);
                Box::pin(add).await
            }
            Method::OPTIONS => submission::options(SUBMIT),
            _ => ErrorResponse::method(&method, SUBMIT).into_response(),
        }
    }

    /// `checkpoint?after=SIZE`: responds when the tree is larger than SIZE. Other queries are
    /// ignored.
    async fn checkpoint_after(
        &self,
        query: Option<&str>,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let now = || self.monitoring.checkpoint(&self.log, &Method::GET, asked);
        let after = match long_poll::after(query) {
            Ok(Some(after)) => after,
            Ok(None) => return now(),
            Err(error) => {
                let detail = format!("`after` must be the number of entries of a tree: {error}");
                return ErrorResponse::read(StatusCode::BAD_REQUEST, "bad_query", detail)
                    .into_response();
            }
        };
        match long_poll::wait(&self.log, after, client, &self.closing).await {
            Ok(()) => {
                let mut response = now();
                let headers = response.headers_mut();
                headers.insert(CACHE_CONTROL, value::NO_STORE.clone());
                response
            }
            Err(exhausted) => ErrorResponse::waiting(exhausted).into_response(),
        }
    }

    async fn read(
        &self,
        resource: Resource,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
        reads: Option<&ReadLimits>,
    ) -> Response {
        let (log, monitoring) = (&*self.log, &self.monitoring);
        log.follow().await;
        match resource {
            Resource::Checkpoint => monitoring.checkpoint(log, method, asked),
            Resource::Tile(tile) => monitoring.tile(log, tile, method, asked, client).await,
            Resource::Names(data) => monitoring.names(log, data, method, asked, client).await,
            Resource::Issuer(of) => monitoring.issuer(log, of, method, asked).await,
            Resource::GetRoots => self.roots.answer(log, method, asked).await,
            Resource::LogJson => {
                let published = log.published();
                logjson::answer(log.config(), &log.state(), published.as_deref(), reads)
            }
            Resource::Page => Box::pin(pages::log(log, reads)).await,
            Resource::Stats => pages::stats(log),
            Resource::Style => pages::style(),
            Resource::Script => pages::script(),
            Resource::Errors => error_page::answer(),
            Resource::Redirect => match HeaderValue::try_from(&log.config().monitoring_prefix) {
                Ok(location) => redirect(StatusCode::SEE_OTHER, location),
                Err(_) => nothing(PathError::Unknown),
            },
            Resource::NotFound(error) => nothing(error),
            Resource::AddChain
            | Resource::AddPreChain
            | Resource::CheckChain
            | Resource::Feed
            | Resource::Rfc6962(_) => nothing(PathError::Unknown),
        }
    }
}

fn nothing(error: PathError) -> Response {
    not_yet(&format!("not found: {error}\n"))
}

fn redirect(status: StatusCode, location: HeaderValue) -> Response {
    let mut response = plain(status, &value::TEXT, &value::MINUTE, "");
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Returns the endpoint of one of the site's own paths.
fn own_endpoint(endpoints: EndpointSet, path: &str) -> Endpoint {
    let operations = endpoints != EndpointSet::Logs;
    let pages = endpoints != EndpointSet::Operations;
    match path {
        "/metrics" | "/health" if operations => Endpoint::Operations,
        "/" | "/page.css" | "/errors" | "/robots.txt" | "/logs.v3.json" if pages => Endpoint::Page,
        _ => Endpoint::Unknown,
    }
}

fn endpoint(resource: Resource) -> Endpoint {
    match resource {
        Resource::AddChain => Endpoint::AddChain,
        Resource::AddPreChain => Endpoint::AddPreChain,
        Resource::CheckChain => Endpoint::CheckChain,
        Resource::GetRoots => Endpoint::GetRoots,
        Resource::Checkpoint => Endpoint::Checkpoint,
        Resource::Tile(tile) if Resource::is_data(tile) => Endpoint::DataTile,
        Resource::Tile(_) => Endpoint::Tile,
        Resource::Names(_) => Endpoint::NamesTile,
        Resource::Issuer(_) => Endpoint::Issuer,
        Resource::LogJson => Endpoint::LogJson,
        Resource::Feed => Endpoint::Feed,
        Resource::Rfc6962(_) => Endpoint::Rfc6962,
        Resource::NotFound(_) => Endpoint::Unknown,
        Resource::Page
        | Resource::Stats
        | Resource::Style
        | Resource::Script
        | Resource::Errors
        | Resource::Redirect => Endpoint::Page,
    }
}
