//! Balancer in front of the instances, and the page that shows the leader.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::client::{Client, MAX_BODY};
use super::process::{Part, Standing};
use super::server::serve;

/// Path of the page.
pub(super) const PAGE: &str = "/instances";

type BalancerResponse = Response<Either<Full<Bytes>, Incoming>>;

/// The balancer. If an instance does not respond to a request, the balancer sends the request to
/// the next instance.
pub(super) struct Balancer {
    pub(super) instances: Arc<[Mutex<Standing>]>,
    pub(super) client: Client,
    /// URL of the log's page, for a link.
    pub(super) log: String,
    pub(super) turn: AtomicUsize,
}

impl Balancer {
    /// Serves on this socket until the process ends.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        serve(listener, move |request| {
            let balancer = Arc::clone(&self);
            async move { balancer.respond(request).await }
        })
        .await
    }

    async fn respond(&self, request: Request<Incoming>) -> BalancerResponse {
        if request.uri().path().trim_end_matches('/') == PAGE {
            return self.page();
        }
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            return words(StatusCode::PAYLOAD_TOO_LARGE, "The request is too long.\n");
        };
        let (body, path) = (body.to_bytes(), head.uri.path_and_query());
        let path = path.map_or("/", |path| path.as_str());
        for address in self.by_turns() {
            let Ok(uri) = format!("http://{address}{path}").parse() else {
                break;
            };
            let mut request = Request::new(Full::from(body.clone()));
            (*request.method_mut(), *request.uri_mut()) = (head.method.clone(), uri);
            request.headers_mut().clone_from(&head.headers);
            if let Ok(response) = self.client.0.request(request).await {
                return response.map(Either::Right);
            }
        }
        words(StatusCode::BAD_GATEWAY, "No instance responds.\n")
    }

    /// Returns the addresses of the responding instances, starting with a different instance each
    /// time.
    fn by_turns(&self) -> Vec<String> {
        let count = self.instances.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let all = (0..count).map(|n| self.instances[(first + n) % count].lock());
        let responding =
            |standing: &Standing| [Part::Leads, Part::Follows].contains(&standing.part);
        let chosen = all.filter(|it| responding(it));
        chosen.map(|it| it.address.clone()).collect()
    }

    fn page(&self) -> BalancerResponse {
        let mut rows = String::new();
        for standing in self.instances.iter() {
            let Standing {
                number,
                address,
                pid,
                part,
                size,
            } = standing.lock().clone();
            let pid = pid.map_or_else(String::new, |pid| pid.to_string());
            let size = size.map_or_else(String::new, |size| size.to_string());
            let (words, kill) = (part.words(), super::kill(&pid));
            let class = if part == Part::Leads { "leads" } else { "" };
            let _ = write!(
                rows,
                "<tr class=\"{class}\"><td>{number}<td><a href=\"http://{address}/\">{address}</a>\
                 <td>{words}<td>{size}<td><code>{kill}</code>"
            );
        }
        let html = PAGE_HTML.replace("LOG", &self.log).replace("ROWS", &rows);
        let mut response = words(StatusCode::OK, html);
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert("content-type", kind);
        response
    }
}

const PAGE_HTML: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta http-equiv=\"refresh\" content=\"1\"><title>Instances of one log</title>\
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:3rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .8rem}\
.leads{background:#d9f2e3;color:#000;font-weight:600}</style>\
<h1>Three processes, one log</h1><p><a href=\"LOG\">LOG</a>, behind a balancer.\
<table><tr><th>Instance<th>Address<th>Part<th>Entries<th>Kill itROWS</table>\
<p>The leading instance sequences the entries. Kill this instance: another \
instance leads within seconds, and submissions wait until then.";

fn words(status: StatusCode, text: impl Into<Bytes>) -> BalancerResponse {
    let mut response = Response::new(Either::Left(Full::from(text.into())));
    *response.status_mut() = status;
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert("cache-control", never);
    response
}
