//! The site: the logs of the process, their pages and metrics.

mod endpoint;
mod served_log;
mod table;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use lucarne_log::Log;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use self::endpoint::{of_resource, of_site};
use self::served_log::ServedLog;
pub use self::table::Cosigners;
use self::table::{Found, Table, routes};
use crate::budget::{BudgetMetrics, Client};
use crate::get_roots::GetRoots;
use crate::limits::Limits;
use crate::metrics::{Endpoint, LogMetrics, Metrics};
use crate::monitoring::{Monitoring, not_yet, read_only};
use crate::read_limits::{ReadGate, ReadLimiter, ReadLimits, ReadMetrics, Reading};
use crate::reply::{Response, headed, plain, value};
use crate::route::{PrefixError, Routes};
use crate::tls::Tls;
use crate::trace::Tracer;
use crate::{
    error_page, error_response, health, logjson, metrics, pages, request_head, robots, submission,
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

/// The logs of a process, their pages and the metrics. All listeners share the site.
pub struct Site {
    /// Replaced as a whole: a request uses one table from its beginning to its end.
    table: ArcSwap<Table>,
    /// Number of the next log that is added. The lock is held while the table is replaced.
    next_number: Mutex<usize>,
    /// TLS of the listeners, if any.
    pub(crate) tls: OnceLock<Arc<Tls>>,
    /// Receiver of traces, if submissions are traced.
    pub(crate) tracer: OnceLock<Arc<dyn Tracer>>,
    registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) inflight: BudgetMetrics,
    elsewhere: LogMetrics,
    pub(crate) limits: Limits,
    reads: ReadGate,
    /// The reason why the configuration file is not applied.
    unapplied: Mutex<Option<&'static str>>,
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
        let metrics = Metrics::default();
        metrics.configured.set(1);
        metrics.describe(&mut registry);
        let inflight = BudgetMetrics::default();
        inflight.describe(&mut registry);
        let reads = ReadMetrics::default();
        reads.register(&mut registry);
        let limiter = limits.reads.clone();
        let limiter = limiter.map(|reads| ReadLimiter::new(reads, limits.trusted_proxies.clone()));
        let empty = Table {
            logs: Vec::new(),
            listed: 0,
            cosigners: Cosigners::default(),
            routes: Routes::default(),
        };
        let site = Arc::new(Site {
            table: ArcSwap::from_pointee(empty),
            next_number: Mutex::new(0),
            tls: OnceLock::new(),
            tracer: OnceLock::new(),
            elsewhere: metrics.of(""),
            reads: ReadGate::new(limiter, reads),
            registry,
            metrics,
            inflight,
            limits,
            unapplied: Mutex::default(),
        });
        site.replace_logs(logs, Vec::new())?;
        Ok(site)
    }

    /// Traces submissions from now on. Only the first tracer has an effect.
    pub fn trace(&self, tracer: Arc<dyn Tracer>) {
        // A second tracer would split the traces.
        let _ = self.tracer.set(tracer);
    }

    /// Serves a witness and a mirror beside the logs.
    ///
    /// # Errors
    /// If a prefix is not a URL, or a log has the same prefix; then nothing changes.
    pub fn serve_cosigners(&self, cosigners: Cosigners) -> Result<(), PrefixError> {
        let _replacing = self.next_number.lock();
        let before = self.table.load_full();
        let logs: Vec<_> = before.logs.iter().map(|it| Arc::clone(&it.log)).collect();
        self.table.store(Arc::new(Table {
            routes: routes(&logs, &cosigners)?,
            logs: before.logs.clone(),
            listed: before.listed,
            cosigners,
        }));
        Ok(())
    }

    /// Reports in `/health` and in a metric that the process has not applied the whole
    /// configuration file, with the reason; or that it has.
    pub fn note_configuration(&self, unapplied: Option<&'static str>) {
        self.metrics.configured.set(i64::from(unapplied.is_none()));
        *self.unapplied.lock() = unapplied;
    }

    /// Serves these logs instead of the present ones. Logs that stay are not disturbed. Logs that
    /// are `leaving` keep their paths, but are not in `/health` and lists of logs. Requests in
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
        let mut next_number = self.next_number.lock();
        let before = self.table.load_full();
        let cosigners = before.cosigners.clone();
        let routes = routes(&logs, &cosigners)?;
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
            cosigners,
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
    pub(crate) async fn respond(
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
        if let Err(refused) = request_head::check(&parts, &body) {
            let response = complete(refused.into_response(), head, table.errors(None));
            self.elsewhere
                .note_response(Endpoint::Unknown, &response, start);
            return response;
        }
        let found = match endpoints {
            EndpointSet::Operations => None,
            _ => table.find(&parts),
        };
        let (metrics, endpoint) = match &found {
            Some(Found::Log(served, resource)) => (&served.metrics, of_resource(*resource)),
            Some(Found::Cosigner(_, resource)) => (&self.elsewhere, resource.endpoint()),
            None => (&self.elsewhere, of_site(endpoints, parts.uri.path())),
        };
        let reading = endpoint.is_read().then(|| {
            let operations = endpoint == Endpoint::Operations;
            match &found {
                Some(Found::Log(served, resource)) => served.reading(*resource),
                None if operations => Reading::Operations,
                Some(Found::Cosigner(_, resource)) => resource.reading(),
                None => Reading::Other,
            }
        });
        let admitted = self.reads.admit(reading, client.address(), &parts.headers);
        let (passage, response) = match admitted {
            Ok(passage) => {
                let limits = passage.limits();
                let response = match &found {
                    Some(Found::Log(served, resource)) => {
                        let responding =
                            served.respond(*resource, parts, body, client, self, limits);
                        responding.await
                    }
                    Some(Found::Cosigner(service, resource)) => {
                        let limits = &self.limits;
                        // Boxed, so that it does not enlarge the state of every connection.
                        Box::pin(service.respond(*resource, parts, body, client, limits)).await
                    }
                    None => self.operations(&table, endpoint, parts, limits).await,
                };
                (Some(passage), response)
            }
            Err(refused) => (None, refused.into_response()),
        };
        let mut response = complete(response, head, table.errors(found.as_ref()));
        if let Some(passage) = passage {
            passage.pay(&mut response);
        }
        metrics.note_response(endpoint, &response, start);
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
            "/health" => {
                let tls = self.tls.get().map(|tls| &**tls);
                let unapplied = *self.unapplied.lock();
                health::response(table.logs(), &table.cosigners, tls, unapplied).await
            }
            "/metrics" => {
                let metrics = self.render_metrics();
                let (kind, text) = lucarne_net::exposition(&parts.headers, metrics);
                let kind = HeaderValue::from_static(kind);
                plain(StatusCode::OK, &kind, &value::NO_STORE, text)
            }
            "/page.css" => pages::style(),
            "/errors" => error_page::response(),
            "/robots.txt" => robots::response(table.logs()),
            "/logs.v3.json" => logjson::list(table.logs(), limits),
            "/operator.json" => {
                let list = logjson::operator_list(table.logs());
                list.unwrap_or_else(|| not_yet("the operator of these logs is not configured\n"))
            }
            _ => pages::index(table.logs(), &table.cosigners).await,
        }
    }
}

/// Completes a response: links a refusal to the page of all errors below `prefix`, and removes the
/// body of a response to HEAD.
fn complete(mut response: Response, head: bool, prefix: &str) -> Response {
    error_response::link(&mut response, prefix);
    if head { headed(response) } else { response }
}
