//! Responses of one log.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, HeaderMap, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use lucarne_ct::EntryKind;
use lucarne_log::Log;

use super::Site;
use crate::budget::Client;
use crate::error_response::ErrorResponse;
use crate::get_roots::GetRoots;
use crate::metrics::LogMetrics;
use crate::monitoring::{Monitoring, not_yet, read_only};
use crate::read_limits::{PartialTile, ReadLimits, Reading};
use crate::reply::{Response, plain, value};
use crate::route::{PathError, Resource};
use crate::signal::Signal;
use crate::{error_page, feed, logjson, long_poll, pages, rfc6962, submission};

/// The methods of endpoints that accept a chain.
const SUBMIT: &str = "POST, OPTIONS";

/// A log with the prepared state for its requests.
pub(super) struct ServedLog {
    /// Unique in the process, also among logs that were removed.
    pub(super) number: usize,
    pub(super) log: Arc<Log>,
    pub(super) monitoring: Monitoring,
    pub(super) roots: GetRoots,
    pub(super) metrics: LogMetrics,
    /// Raised at shutdown, and when the log is removed. Requests that wait for the log to grow then
    /// get their response.
    pub(super) closing: Arc<Signal>,
}

impl ServedLog {
    /// Returns the kind of read for the read limits.
    pub(super) fn reading(&self, resource: Resource) -> Reading {
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

    pub(super) async fn respond(
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
                self.add(EntryKind::X509, method, headers, body, client, site)
                    .await
            }
            Resource::AddPreChain => {
                self.add(EntryKind::Precert, method, headers, body, client, site)
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
                let feed = feed::respond(log, &method, query, &headers, client, &self.closing);
                Box::pin(feed).await
            }
            Resource::Rfc6962(read) if method == Method::GET || method == Method::HEAD => {
                let (log, query) = (&self.log, parts.uri.query());
                // Boxed, so that rare requests do not enlarge the state of every connection.
                Box::pin(async {
                    log.follow().await;
                    rfc6962::respond(log, read, query, client).await
                })
                .await
            }
            Resource::Checkpoint if method == Method::GET && parts.uri.query().is_some() => {
                let query = parts.uri.query();
                let response = self.checkpoint_after(query, headers, client);
                Box::pin(response).await
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
        site: &Site,
    ) -> Response {
        match method {
            // Boxed, so that the state of a connection that only reads tiles reserves no memory for
            // a submission.
            Method::POST => {
                let (limits, tracer) = (&site.limits, site.tracer.get());
                let add = submission::add(&self.log, kind, limits, tracer, client, headers, body);
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
            Ok(None) => return now().await,
            Err(_) => {
                let detail = "`after` must be the number of entries of a tree: a whole number";
                return ErrorResponse::read(StatusCode::BAD_REQUEST, "bad_query", detail)
                    .into_response();
            }
        };
        match long_poll::wait(&self.log, after, client, &self.closing).await {
            Ok(()) => {
                let mut response = now().await;
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
            Resource::Checkpoint => monitoring.checkpoint(log, method, asked).await,
            Resource::Tile(tile) => monitoring.tile(log, tile, method, asked, client).await,
            Resource::Names(data) => monitoring.names(log, data, method, asked, client).await,
            Resource::Issuer(of) => monitoring.issuer(log, of, method, asked).await,
            Resource::GetRoots => self.roots.respond(log, method, asked).await,
            Resource::LogJson => {
                let published = log.published();
                logjson::response(log.config(), &log.state(), published.as_deref(), reads)
            }
            Resource::Page => Box::pin(pages::log(log, reads)).await,
            Resource::Stats => pages::stats(log),
            Resource::Style => pages::style(),
            Resource::Script => pages::script(),
            Resource::Errors => error_page::response(),
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

pub(super) fn redirect(status: StatusCode, location: HeaderValue) -> Response {
    let mut response = plain(status, &value::TEXT, &value::MINUTE, "");
    response.headers_mut().insert(LOCATION, location);
    response
}
