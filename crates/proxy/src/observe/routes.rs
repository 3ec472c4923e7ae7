//! Pages of the observer, and their JSON.
//!
//! All paths are in one folder, and links are relative: `./` lists the hosts, `host?name=…` shows
//! one host, `inventory` the database, `observed.json`, `host.json` and `inventory.json` are the
//! same as JSON, `chain.pem` is a chain. The pages have no scripts and load only one style sheet
//! from the same folder.

use askama::Template;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use lucarne_mint::{now_ms, pem};
use serde::Serialize;

use super::Observer;
use super::filter::{Filter, PAGE_SIZE, Show, encoded, parameter};
use super::inventory::Inventoried;
use super::shared::Shared;
use super::view::{self, HostRow, HostView, Summary};
use crate::time::time;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const CSS: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PEM: &str = "application/x-pem-file";

/// Responds to a GET of `path` below the mount point of the observer, without a leading slash; the
/// empty path is the page of hosts. Returns `None` for unknown paths.
pub fn routes(observer: &Observer, path: &str, query: &str) -> Option<Response<Bytes>> {
    let shared = observer.shared();
    match path {
        "" => Some(hosts_page(shared, &Filter::parse(query))),
        "observed.json" => Some(hosts_json(shared, &Filter::parse(query))),
        "host" => Some(host_page(shared, query)),
        "host.json" => Some(host_json(shared, query)),
        "inventory" => Some(inventory_page(shared, query)),
        "inventory.json" => Some(match inventory(shared, query) {
            Some(page) => json(&page),
            None => not_found(NO_INVENTORY),
        }),
        "chain.pem" => Some(chain(shared, query)),
        "observe.css" => {
            let css = include_str!("../../assets/observe.css");
            Some(response(StatusCode::OK, CSS, css))
        }
        _ => None,
    }
}

#[derive(Template)]
#[template(path = "observe/hosts.html")]
struct HostsPage {
    summary: Summary,
    hosts: Vec<HostRow>,
    matching: usize,
    /// Offset of the next page, if there is one.
    next: Option<usize>,
    page_size: usize,
    show: Show,
    filters: [Show; Show::ALL.len()],
    query: String,
    query_encoded: String,
    has_inventory: bool,
    now: String,
    version: &'static str,
}

fn hosts_page(shared: &Shared, filter: &Filter) -> Response<Bytes> {
    let (hosts, matching, summary) = hosts(shared, filter);
    let next = filter.from.saturating_add(PAGE_SIZE);
    page(&HostsPage {
        summary,
        hosts,
        matching,
        next: (next < matching).then_some(next),
        page_size: PAGE_SIZE,
        show: filter.show,
        filters: Show::ALL,
        query_encoded: encoded(&filter.query),
        query: filter.query.clone(),
        has_inventory: shared.inventory.is_some(),
        now: time(now_ms()),
        version: env!("CARGO_PKG_VERSION"),
    })
}

fn hosts(shared: &Shared, filter: &Filter) -> (Vec<HostRow>, usize, Summary) {
    let memory = shared.memory.lock();
    let (hosts, matching) = view::hosts(&memory, filter, now_ms());
    (hosts, matching, view::summary(shared, &memory))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hosts {
    summary: Summary,
    /// Number of matching hosts; `hosts` begins at `from`.
    matching: usize,
    from: usize,
    hosts: Vec<HostRow>,
}

fn hosts_json(shared: &Shared, filter: &Filter) -> Response<Bytes> {
    let (hosts, matching, summary) = hosts(shared, filter);
    json(&Hosts {
        summary,
        matching,
        from: filter.from,
        hosts,
    })
}

#[derive(Template)]
#[template(path = "observe/host.html")]
struct HostPage {
    host: HostView,
    now: String,
    version: &'static str,
}

fn host_page(shared: &Shared, query: &str) -> Response<Bytes> {
    match host(shared, query) {
        Some(host) => page(&HostPage {
            host,
            now: time(now_ms()),
            version: env!("CARGO_PKG_VERSION"),
        }),
        None => not_found("this host has not been seen, or is no longer remembered\n"),
    }
}

fn host_json(shared: &Shared, query: &str) -> Response<Bytes> {
    match host(shared, query) {
        Some(host) => json(&host),
        None => not_found("this host has not been seen, or is no longer remembered\n"),
    }
}

fn host(shared: &Shared, query: &str) -> Option<HostView> {
    let name = parameter(query, "name")?;
    view::host(&shared.memory.lock(), &name, now_ms())
}

const NO_INVENTORY: &str = "there is no inventory (`observe.database`), or it cannot be read\n";

#[derive(Template)]
#[template(path = "observe/inventory.html")]
struct InventoryPage {
    page: Inventoried,
    next: Option<usize>,
    page_size: usize,
    show: String,
    query: String,
    query_encoded: String,
    now: String,
    version: &'static str,
}

impl InventoryPage {
    fn is_shown(&self, name: &str) -> bool {
        self.show == name
    }
}

fn inventory_page(shared: &Shared, query: &str) -> Response<Bytes> {
    let Some(found) = inventory(shared, query) else {
        return not_found(NO_INVENTORY);
    };
    let filter = Filter::parse(query);
    let next = filter.from.saturating_add(PAGE_SIZE);
    let show = if is_missing(query) {
        MISSING
    } else {
        filter.show.name()
    };
    page(&InventoryPage {
        next: (next < found.matching).then_some(next),
        page: found,
        page_size: PAGE_SIZE,
        show: show.to_owned(),
        query_encoded: encoded(&filter.query),
        query: filter.query,
        now: time(now_ms()),
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Value of `show` for certificates with a missing entry.
const MISSING: &str = "missing";

fn is_missing(query: &str) -> bool {
    parameter(query, "show").as_deref() == Some(MISSING)
}

fn inventory(shared: &Shared, query: &str) -> Option<Inventoried> {
    let inventory = shared.inventory.as_ref()?;
    inventory.page(&Filter::parse(query), is_missing(query))
}

/// Responds with the certificates that the server sent.
fn chain(shared: &Shared, query: &str) -> Response<Bytes> {
    let record = parameter(query, "certificate").and_then(|fingerprint| {
        let fingerprint = hex::decode(fingerprint).ok()?.try_into().ok()?;
        let memory = shared.memory.lock();
        memory
            .record(&lucarne_ct::Fingerprint(fingerprint))
            .cloned()
    });
    let Some(record) = record else {
        return not_found("this certificate has not been seen, or is no longer remembered\n");
    };
    let mut text = pem::encode("CERTIFICATE", &record.leaf);
    for issuer in record.issuers.iter() {
        text.push_str(&pem::encode("CERTIFICATE", &issuer.der));
    }
    response(StatusCode::OK, PEM, text)
}

fn not_found(text: &'static str) -> Response<Bytes> {
    response(StatusCode::NOT_FOUND, TEXT, text)
}

fn json(value: &impl Serialize) -> Response<Bytes> {
    // Serializing our own structures of texts and numbers cannot fail.
    let json = serde_json::to_vec(value).unwrap_or_default();
    response(StatusCode::OK, JSON, json)
}

fn page(template: &impl Template) -> Response<Bytes> {
    // Rendering our own templates of numbers and texts cannot fail.
    let mut response = response(StatusCode::OK, HTML, template.render().unwrap_or_default());
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
