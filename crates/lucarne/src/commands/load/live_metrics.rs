//! Metrics of a run in progress, served for Prometheus and exported to a collector.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_load::Running;
use lucarne_net::{exposition, without_secrets};
use tokio::task::JoinSet;

use super::output;
use crate::config::OtlpSettings;
use crate::config::values::{ListenError, listen};
use crate::otlp::Exporting;

/// Limit of concurrent connections.
const CONNECTIONS: usize = 16;
/// Time limit of a connection, which has one request: a client that sends or reads nothing must not
/// take the place of other clients.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Reasons why metrics cannot be served or exported. The message names the flag.
#[derive(Debug, thiserror::Error)]
pub(super) enum MetricsError {
    #[error("{flag}: `{address}` {source}")]
    Address {
        flag: &'static str,
        address: String,
        source: ListenError,
    },
    #[error("{flag}: cannot listen on {address}: {source}; write another address")]
    Listen {
        flag: &'static str,
        address: String,
        source: io::Error,
    },
    #[error("--otlp: `{0}` {1}")]
    Otlp(String, &'static str),
}

/// Receivers of the metrics of a run in progress.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) listener: Option<TcpListener>,
    pub(super) otlp: Option<OtlpSettings>,
}

impl Live {
    pub(super) fn is_some(&self) -> bool {
        self.listener.is_some() || self.otlp.is_some()
    }

    /// Starts the export to the collector, if there is one.
    pub(super) fn export(&self, running: &Running) -> Option<Exporting> {
        let snapshots = running.snapshots();
        let render = move || snapshots.borrow().metrics.clone().unwrap_or_default();
        let settings = self.otlp.as_ref();
        settings.map(|settings| Exporting::metrics(settings, render))
    }
}

impl output::Live {
    /// Opens the listener and checks the URL of the flags.
    pub(super) fn open(&self) -> Result<Live, MetricsError> {
        let address = self.metrics.as_deref();
        let listener = address
            .map(|address| open("--metrics", address))
            .transpose()?;
        let settings = self.otlp.as_deref().map(|url| {
            let settings = OtlpSettings::of_load(url);
            settings.map_err(|why| MetricsError::Otlp(without_secrets(url), why))
        });
        Ok(Live {
            listener,
            otlp: settings.transpose()?,
        })
    }
}

/// Opens the listener for a flag.
pub(super) fn open(flag: &'static str, address: &str) -> Result<TcpListener, MetricsError> {
    let places = listen(address).map_err(|source| MetricsError::Address {
        flag,
        address: address.to_owned(),
        source,
    })?;
    let listener = TcpListener::bind(places.addresses.as_slice());
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| MetricsError::Listen {
        flag,
        address: address.to_owned(),
        source,
    })
}

/// Serves the metrics of the run until it ends.
pub(super) async fn serve(listener: TcpListener, running: &Running) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let snapshots = running.snapshots();
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        let (stream, _) = lucarne_net::accept(&listener).await;
        let snapshots = snapshots.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let metrics = snapshots.borrow().metrics.clone();
            async move { Ok::<_, Infallible>(respond(&request, metrics)) }
        });
        connections.spawn(async move {
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that closed the connection early needs no report.
            let _ = tokio::time::timeout(TIMEOUT, connection).await;
        });
    }
}

fn respond<B>(request: &Request<B>, metrics: Option<String>) -> Response<Full<Bytes>> {
    let text = |status, text: &'static str| (status, "text/plain", text.to_owned());
    let (status, content_type, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            // Before the load, there are no samples.
            let metrics = metrics.unwrap_or_else(|| "# EOF\n".to_owned());
            let (content_type, body) = exposition(request.headers(), metrics);
            (StatusCode::OK, content_type, body)
        }
        (&Method::GET | &Method::HEAD, _) => text(StatusCode::NOT_FOUND, "see /metrics\n"),
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content_type = http::HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
