//! Everything that is served: the logs of the process, and what is about them.

use std::sync::Arc;
use std::time::Instant;

use http::header::{HOST, HeaderMap, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use lucarne_ct::EntryKind;
use lucarne_log::Log;
use prometheus_client::registry::Registry;

use crate::budget::Client;
use crate::error_response::ErrorResponse;
use crate::limits::Limits;
use crate::metrics::{Endpoint, LogMetrics, Metrics};
use crate::monitoring::{Monitoring, not_yet, read_only};
use crate::reply::{Response, headed, plain, value};
use crate::route::{PathError, Prefix, PrefixError, Resource, Roles, Routes};
use crate::{health, logjson, metrics, pages, submission};

/// The endpoints that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EndpointSet {
    /// The logs, their pages, `/metrics` and `/health`.
    #[default]
    Everything,
    /// The logs and their pages: for a listener that strangers reach.
    Logs,
    /// `/metrics` and `/health` alone: for a listener that they do not.
    Operations,
}

/// The logs of a process and everything that is served of them. Shared by all
/// listeners.
pub struct Site {
    logs: Vec<ServedLog>,
    routes: Routes,
    registry: Registry,
    pub(crate) metrics: Metrics,
    elsewhere: LogMetrics,
    pub(crate) limits: Limits,
}

/// One log, and what is prepared for its requests.
pub(crate) struct ServedLog {
    pub(crate) log: Arc<Log>,
    monitoring: Monitoring,
    metrics: LogMetrics,
}

impl Site {
    /// Lays out the site. `registry` has everybody's metrics and gets ours.
    ///
    /// # Errors
    /// If a prefix is not a URL, or two logs have the same.
    pub fn new(
        logs: Vec<Arc<Log>>,
        mut registry: Registry,
        limits: Limits,
    ) -> Result<Arc<Self>, PrefixError> {
        let metrics = Metrics::register(&mut registry);
        let routes = routes(&logs)?;
        let logs = logs.into_iter().map(|log| ServedLog {
            monitoring: Monitoring::new(),
            metrics: metrics.of(&log.config().shortname),
            log,
        });
        Ok(Arc::new(Site {
            logs: logs.collect(),
            routes,
            elsewhere: metrics.of(""),
            registry,
            metrics,
            limits,
        }))
    }

    /// The logs, in the order of the configuration.
    pub fn logs(&self) -> impl Iterator<Item = &Log> {
        self.logs.iter().map(|served| &*served.log)
    }

    /// All metrics of the process as text (OpenMetrics).
    pub fn render_metrics(&self) -> String {
        metrics::render(&self.registry)
    }

    /// Answers one request.
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
        let found = match endpoints {
            EndpointSet::Operations => None,
            _ => self.find(&parts),
        };
        let (metrics, endpoint, response) = match found {
            Some((served, resource)) => {
                let endpoint = endpoint(resource);
                let limits = &self.limits;
                let response = served.answer(resource, parts, body, client, limits).await;
                (&served.metrics, endpoint, response)
            }
            None => {
                let (endpoint, response) = self.operations(endpoints, parts).await;
                (&self.elsewhere, endpoint, response)
            }
        };
        let response = if head { headed(response) } else { response };
        let sent = response.body().len();
        metrics.note(endpoint, response.status(), start.elapsed(), sent);
        response
    }

    /// The log of a request and what of it is asked for. `None` where a path
    /// of the site's own is meant: those count where a log has nothing.
    fn find(&self, parts: &Parts) -> Option<(&ServedLog, Resource)> {
        let path = parts.uri.path();
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = authority.or_else(|| parts.headers.get(HOST)?.to_str().ok());
        let found = self.routes.find(path, host)?;
        let resource = Resource::parse(found.rest, found.roles);
        // A log at the root of its host leaves the site's paths alone; the list
        // of logs is of no use where it is the only one.
        let own = match path {
            "/" => self.logs.len() > 1,
            "/metrics" | "/health" => true,
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
        Some((self.logs.get(found.log)?, resource))
    }

    /// Answers what is not about one log.
    async fn operations(&self, endpoints: EndpointSet, parts: Parts) -> (Endpoint, Response) {
        let (method, path) = (&parts.method, parts.uri.path());
        let operations = endpoints != EndpointSet::Logs;
        let pages = endpoints != EndpointSet::Operations;
        let endpoint = match path {
            "/metrics" | "/health" if operations => Endpoint::Operations,
            "/" | "/page.css" if pages => Endpoint::Page,
            _ => return (Endpoint::Unknown, self.nothing(&parts)),
        };
        let response = match path {
            _ if method == Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ if method != Method::GET && method != Method::HEAD => read_only(method),
            "/health" => health::answer(self.logs()).await,
            "/metrics" => {
                let text = self.render_metrics();
                plain(StatusCode::OK, &value::METRICS, &value::NO_STORE, text)
            }
            "/page.css" => pages::style(),
            _ => pages::index(self.logs()),
        };
        (endpoint, response)
    }

    /// 404, with what there is instead; 301 where only the slash is missing.
    fn nothing(&self, parts: &Parts) -> Response {
        let path = parts.uri.path();
        let slashed = format!("{path}/");
        if let Some(found) = self.routes.find(&slashed, None)
            && found.rest.is_empty()
            && let Ok(location) = HeaderValue::try_from(slashed)
        {
            return redirect(StatusCode::MOVED_PERMANENTLY, location);
        }
        let mut words = String::from("there is nothing here; the logs of this server:\n");
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
    }
    Ok(routes)
}

impl ServedLog {
    async fn answer(
        &self,
        resource: Resource,
        parts: Parts,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
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
            _ if method == Method::GET || method == Method::HEAD => {
                self.read(resource, &method, headers, client).await
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
        const ALLOW: &str = "POST, OPTIONS";
        match method {
            // In a box of its own: a connection that only reads tiles should
            // not have room for a submission.
            Method::POST => {
                let add = submission::add(&self.log, kind, limits, client, headers, body);
                Box::pin(add).await
            }
            Method::OPTIONS => submission::options(ALLOW),
            _ => ErrorResponse::method(&method, ALLOW).into_response(),
        }
    }

    async fn read(
        &self,
        resource: Resource,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let (log, monitoring) = (&*self.log, &self.monitoring);
        match resource {
            Resource::Checkpoint => monitoring.checkpoint(log, method, asked),
            Resource::Tile(tile) => monitoring.tile(log, tile, method, asked, client).await,
            Resource::Issuer(of) => monitoring.issuer(log, of, method, asked).await,
            Resource::GetRoots => submission::roots(log),
            Resource::LogJson => {
                let published = log.published();
                logjson::answer(log.config(), &log.state(), published.as_deref())
            }
            Resource::Page => Box::pin(pages::log(log)).await,
            Resource::Stats => pages::stats(log),
            Resource::Style => pages::style(),
            Resource::Script => pages::script(),
            Resource::Redirect => match HeaderValue::try_from(&log.config().monitoring_prefix) {
                Ok(location) => redirect(StatusCode::SEE_OTHER, location),
                Err(_) => nothing(PathError::Unknown),
            },
            Resource::NotFound(error) => nothing(error),
            Resource::AddChain | Resource::AddPreChain => nothing(PathError::Unknown),
        }
    }
}

fn nothing(error: PathError) -> Response {
    not_yet(&format!("there is nothing here: {error}\n"))
}

fn redirect(status: StatusCode, location: HeaderValue) -> Response {
    let mut response = plain(status, &value::TEXT, &value::MINUTE, "");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn endpoint(resource: Resource) -> Endpoint {
    match resource {
        Resource::AddChain => Endpoint::AddChain,
        Resource::AddPreChain => Endpoint::AddPreChain,
        Resource::GetRoots => Endpoint::GetRoots,
        Resource::Checkpoint => Endpoint::Checkpoint,
        Resource::Tile(tile) if Resource::is_data(tile) => Endpoint::DataTile,
        Resource::Tile(_) => Endpoint::Tile,
        Resource::Issuer(_) => Endpoint::Issuer,
        Resource::LogJson => Endpoint::LogJson,
        Resource::NotFound(_) => Endpoint::Unknown,
        Resource::Page
        | Resource::Stats
        | Resource::Style
        | Resource::Script
        | Resource::Redirect => Endpoint::Page,
    }
}
