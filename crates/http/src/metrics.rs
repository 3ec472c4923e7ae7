//! Metrics of requests, at minimal cost per request.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::error_response::ErrorBody;
use crate::reply::Response;

/// The kinds of requests that metrics distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    AddChain,
    AddPreChain,
    CheckChain,
    AddCheckpoint,
    AddEntries,
    SignSubtree,
    Witnessed,
    GetRoots,
    Checkpoint,
    Tile,
    DataTile,
    NamesTile,
    Issuer,
    LogJson,
    Feed,
    Rfc6962,
    Page,
    Operations,
    Unknown,
}

impl Endpoint {
    const COUNT: usize = Endpoint::Unknown as usize + 1;

    /// All endpoints in the order of their numbers.
    const ALL: [Endpoint; Endpoint::COUNT] = [
        Endpoint::AddChain,
        Endpoint::AddPreChain,
        Endpoint::CheckChain,
        Endpoint::AddCheckpoint,
        Endpoint::AddEntries,
        Endpoint::SignSubtree,
        Endpoint::Witnessed,
        Endpoint::GetRoots,
        Endpoint::Checkpoint,
        Endpoint::Tile,
        Endpoint::DataTile,
        Endpoint::NamesTile,
        Endpoint::Issuer,
        Endpoint::LogJson,
        Endpoint::Feed,
        Endpoint::Rfc6962,
        Endpoint::Page,
        Endpoint::Operations,
        Endpoint::Unknown,
    ];

    fn label(self) -> &'static str {
        match self {
            Endpoint::AddChain => "add-chain",
            Endpoint::AddPreChain => "add-pre-chain",
            Endpoint::CheckChain => "check-chain",
            Endpoint::AddCheckpoint => "add-checkpoint",
            Endpoint::AddEntries => "add-entries",
            Endpoint::SignSubtree => "sign-subtree",
            Endpoint::Witnessed => "witnessed",
            Endpoint::GetRoots => "get-roots",
            Endpoint::Checkpoint => "checkpoint",
            Endpoint::Tile => "tile",
            Endpoint::DataTile => "tile-data",
            Endpoint::NamesTile => "tile-names",
            Endpoint::Issuer => "issuer",
            Endpoint::LogJson => "log.v3.json",
            Endpoint::Feed => "feed",
            Endpoint::Rfc6962 => "rfc6962",
            Endpoint::Page => "page",
            Endpoint::Operations => "operations",
            Endpoint::Unknown => "unknown",
        }
    }

    /// Returns `true` for requests that count towards the read limits. Requests for the checkpoint
    /// of a log, and requests with separate limits, do not count. Requests to a witness read its
    /// lock, and count.
    pub(crate) fn is_read(self) -> bool {
        !matches!(
            self,
            Endpoint::AddChain
                | Endpoint::AddPreChain
                | Endpoint::AddEntries
                | Endpoint::Checkpoint
                | Endpoint::Feed
        )
    }
}

/// The statuses that this server sends. Any other status counts as 0.
const STATUSES: [u16; 24] = [
    200, 202, 204, 206, 301, 303, 304, 400, 403, 404, 405, 408, 409, 410, 413, 415, 416, 421, 422,
    429, 500, 501, 503, 0,
];

fn slot(status: StatusCode) -> usize {
    let code = status.as_u16();
    let known = STATUSES.iter().position(|&s| s == code);
    known.unwrap_or(STATUSES.len() - 1)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    log: String,
    endpoint: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    log: String,
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    log: String,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

type Seconds = Family<EndpointLabels, Histogram, fn() -> Histogram>;

/// Buckets from 4 µs (a checkpoint) to 16 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(4e-6, 4.0, 12))
}

lucarne_metrics::metrics! {
    /// Metrics of the listeners and of the requests of every log.
    pub(crate) struct Metrics, prefix "lucarne_http" {
        requests: Family<ResponseLabels, Counter> =
            ("requests", "Requests by log, endpoint and status");
        refusals: Family<RefusalLabels, Counter> =
            ("refusals", "Responses with an error in JSON, by log and code");
        seconds: Seconds = (
            "request_duration",
            "Time from the request head to the first byte of the response",
            Unit::Seconds
        ) with durations;
        sent: Family<EndpointLabels, Counter> = ("sent", "Bodies of responses", Unit::Bytes);
        pub(crate) configured: Gauge = (
            "configuration_applied",
            "1 if the process has applied the whole configuration file, otherwise 0"
        );
        pub(crate) open: Gauge = ("connections", "Open connections");
        pub(crate) accepted: Counter = ("connections_accepted", "Connections accepted");
        cut: Family<ReasonLabels, Counter> = (
            "connections_cut",
            "Connections closed by the server before the client was done, by reason"
        );
    }
}

impl Metrics {
    /// Returns the metrics of one log; the empty name stands for no log.
    pub(crate) fn of(&self, log: &str) -> LogMetrics {
        LogMetrics {
            log: log.to_owned(),
            requests: self.requests.clone(),
            refusals: self.refusals.clone(),
            seconds: self.seconds.clone(),
            sent: self.sent.clone(),
            endpoints: std::array::from_fn(|_| EndpointMetrics::default()),
            refused: Mutex::default(),
            removed: AtomicBool::new(false),
        }
    }

    pub(crate) fn cut(&self, reason: &'static str) {
        self.cut.get_or_create_owned(&ReasonLabels { reason }).inc();
    }
}

/// Handles of the metrics of one log, resolved at their first use. After that a request needs no
/// hashing, no lock of a family and no allocation.
pub(crate) struct LogMetrics {
    log: String,
    requests: Family<ResponseLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    seconds: Seconds,
    sent: Family<EndpointLabels, Counter>,
    endpoints: [EndpointMetrics; Endpoint::COUNT],
    /// The codes of errors so far, which are removed with the log.
    refused: Mutex<Vec<&'static str>>,
    /// Whether the log is no longer served.
    removed: AtomicBool,
}

#[derive(Default)]
struct EndpointMetrics {
    timing: OnceLock<(Histogram, Counter)>,
    requests: [OnceLock<Counter>; STATUSES.len()],
}

impl LogMetrics {
    /// Removes the metrics of a log that is no longer served. Later responses are not counted.
    pub(crate) fn remove(&self) {
        self.removed.store(true, Ordering::SeqCst);
        for endpoint in Endpoint::ALL {
            let at = EndpointLabels {
                log: self.log.clone(),
                endpoint: endpoint.label(),
            };
            self.seconds.remove(&at);
            self.sent.remove(&at);
            for code in STATUSES {
                self.requests.remove(&ResponseLabels {
                    log: self.log.clone(),
                    endpoint: endpoint.label(),
                    code,
                });
            }
        }
        let refused = self.refused.lock().clone();
        for code in refused {
            self.refusals.remove(&self.refusal(code));
        }
    }

    /// Counts a response with an error. Errors are rare enough for a lookup in the family.
    fn note_refusal(&self, code: &'static str) {
        if self.removed.load(Ordering::SeqCst) {
            return;
        }
        {
            let mut refused = self.refused.lock();
            if !refused.contains(&code) {
                refused.push(code);
            }
        }
        self.refusals.get_or_create_owned(&self.refusal(code)).inc();
        // The metric may have been created after its removal.
        if self.removed.load(Ordering::SeqCst) {
            self.remove();
        }
    }

    fn refusal(&self, code: &'static str) -> RefusalLabels {
        RefusalLabels {
            log: self.log.clone(),
            code,
        }
    }

    /// Counts the response to a request that began at `start`. A response with an error also counts
    /// as a refusal.
    pub(crate) fn note_response(&self, endpoint: Endpoint, response: &Response, start: Instant) {
        let sent = response.body().len();
        self.note(endpoint, response.status(), start.elapsed(), sent);
        if let Some(refused) = response.extensions().get::<ErrorBody>() {
            self.note_refusal(refused.code);
        }
    }

    /// Counts one response.
    fn note(&self, endpoint: Endpoint, status: StatusCode, took: Duration, sent: usize) {
        if self.removed.load(Ordering::SeqCst) {
            return;
        }
        let metrics = &self.endpoints[endpoint as usize];
        let slot = slot(status);
        let requests = metrics.requests[slot].get_or_init(|| {
            self.requests.get_or_create_owned(&ResponseLabels {
                log: self.log.clone(),
                endpoint: endpoint.label(),
                code: STATUSES[slot],
            })
        });
        let (seconds, bytes) = metrics.timing.get_or_init(|| {
            let at = EndpointLabels {
                log: self.log.clone(),
                endpoint: endpoint.label(),
            };
            let seconds = self.seconds.get_or_create_owned(&at);
            (seconds, self.sent.get_or_create_owned(&at))
        });
        requests.inc();
        seconds.observe(took.as_secs_f64());
        bytes.inc_by(sent as u64);
        // The metrics may have been created after their removal.
        if self.removed.load(Ordering::SeqCst) {
            self.remove();
        }
    }
}

/// Returns all metrics of the process as text (OpenMetrics).
pub(crate) fn render(registry: &Registry) -> String {
    let mut text = String::with_capacity(16 << 10);
    // Writing to a string never fails.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_log_endpoint_and_status() {
        let mut registry = Registry::default();
        let metrics = Metrics::default();
        metrics.describe(&mut registry);
        let log = metrics.of("demo");
        for _ in 0..3 {
            log.note(
                Endpoint::Checkpoint,
                StatusCode::OK,
                Duration::from_micros(5),
                200,
            );
        }
        log.note(Endpoint::DataTile, StatusCode::NOT_FOUND, Duration::ZERO, 7);
        let text = render(&registry);
        for line in [
            r#"lucarne_http_requests_total{log="demo",endpoint="checkpoint",code="200"} 3"#,
            r#"lucarne_http_requests_total{log="demo",endpoint="tile-data",code="404"} 1"#,
            r#"lucarne_http_request_duration_seconds_count{log="demo",endpoint="checkpoint"} 3"#,
            r#"lucarne_http_sent_bytes_total{log="demo",endpoint="checkpoint"} 600"#,
        ] {
            assert!(text.contains(line), "{line}\nnot in\n{text}");
        }
        let other = metrics.of("other");
        other.note(Endpoint::Unknown, StatusCode::OK, Duration::ZERO, 1);
        log.note_refusal("bad_chain");
        let refusals = r#"lucarne_http_refusals_total{log="demo",code="bad_chain"} 1"#;
        assert!(render(&registry).contains(refusals));
        log.remove();
        log.note(Endpoint::Checkpoint, StatusCode::OK, Duration::ZERO, 200);
        log.note_refusal("bad_chain");
        let text = render(&registry);
        assert!(!text.contains(r#"log="demo""#), "{text}");
        assert!(text.contains(r#"log="other""#), "{text}");
    }
}
