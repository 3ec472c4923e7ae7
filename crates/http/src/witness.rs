//! A witness: cosignatures of the checkpoints of other logs (C2SP tlog-witness, main of
//! 2026-07-22).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::header::HeaderMap;
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use lucarne_cosign::evidence::MOST;
use lucarne_cosign::{AddCheckpoint, Refusal, SignSubtree, Witness};
use lucarne_storage::LockError;
use lucarne_tlog::NoteSignature;
use lucarne_tlog::checkpoint::parse_size;
use lucarne_x509::now_ms;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::timeout;

use crate::budget::Client;
use crate::error_response::{ErrorBody, ErrorResponse};
use crate::limits::Limits;
use crate::metrics::Endpoint;
use crate::monitoring::{not_yet, read_only};
use crate::reply::{Representation, Response, plain, value};
use crate::route::Roles;
use crate::{error_page, etag, pages, submission};

/// Maximum length of a body in bytes, as in Sunlight: the longest proof, and more than ten
/// signatures with ML-DSA-44.
pub(crate) const MAX_BODY: usize = 128 << 10;

/// Time limit of the check of the lock.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a check of the lock stays valid.
const FRESH: Duration = Duration::from_secs(1);

/// The methods of the endpoints that cosign.
const POST: &str = "POST, OPTIONS";

/// A witness with its URLs and metrics.
pub struct WitnessService {
    witness: Arc<Witness>,
    pub(crate) submission_prefix: String,
    pub(crate) monitoring_prefix: String,
    metrics: WitnessMetrics,
    /// Whether the logs of all lists were read since the start.
    is_complete: AtomicBool,
    /// Whether the lock had the value of this witness.
    exists: AtomicBool,
    /// The logs that are refused because of the clock, each with the seconds that it is behind.
    behind: Mutex<BTreeMap<String, u64>>,
    /// The lists that could not be read, each with the reason.
    failed_lists: Mutex<BTreeMap<String, String>>,
    /// Time and result of the last check of the lock. Concurrent requests wait for one check.
    checked: tokio::sync::Mutex<Option<(Instant, Option<String>)>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabels {
    origin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListLabels {
    list: String,
}

lucarne_metrics::metrics! {
    /// Metrics of a witness.
    struct WitnessMetrics, prefix "lucarne_witness" {
        logs: Gauge = ("logs", "Logs that the witness knows");
        entries: Family<OriginLabels, Gauge> =
            ("log_entries", "Entries in the last checkpoint that this process cosigned, by origin");
        cosigned: Family<OriginLabels, Counter> =
            ("cosigned", "Requests for a checkpoint that got cosignatures, by origin");
        refusals: Family<CodeLabels, Counter> =
            ("refusals", "Requests for cosignatures that were refused, by code");
        contradictions: Family<OriginLabels, Gauge> =
            ("contradictions", "Stored checkpoints that contradict the cosigned one, by origin");
        list_read: Family<ListLabels, Gauge> =
            ("list_read_timestamp_seconds", "Unix time of the last successful read of a log list");
        list_failures: Family<ListLabels, Counter> =
            ("list_failures", "Failed reads of a log list");
    }
}

/// A resource of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WitnessResource {
    AddCheckpoint,
    SignSubtree,
    /// The recorded checkpoint of the log with this hash of its origin.
    Checkpoint([u8; 32]),
    /// A stored contradiction of the log with this hash of its origin.
    Evidence([u8; 32], usize),
    /// Name, URLs and keys, as in Sunlight.
    About,
    Errors,
    Style,
    NotFound,
}

impl WitnessResource {
    /// Parses the rest of a path after a prefix of the witness.
    pub(crate) fn parse(rest: &str, roles: Roles) -> Self {
        match rest {
            "" | "witness.v0.json" => return Self::About,
            error_page::PATH => return Self::Errors,
            "page.css" => return Self::Style,
            "add-checkpoint" if roles.submission => return Self::AddCheckpoint,
            "sign-subtree" if roles.submission => return Self::SignSubtree,
            _ => {}
        }
        let found = rest.split_once('/').filter(|_| roles.monitoring);
        let found = found.and_then(|(hash, rest)| Some((origin_hash(hash)?, rest)));
        match found {
            Some((hash, "checkpoint")) => Self::Checkpoint(hash),
            Some((hash, rest)) => rest
                .strip_prefix("evidence/")
                .and_then(|number| usize::try_from(parse_size(number)?).ok())
                .filter(|number| *number < MOST)
                .map_or(Self::NotFound, |number| Self::Evidence(hash, number)),
            None => Self::NotFound,
        }
    }

    /// Returns the endpoint of the metrics.
    pub(crate) fn endpoint(self) -> Endpoint {
        match self {
            Self::AddCheckpoint => Endpoint::AddCheckpoint,
            Self::SignSubtree => Endpoint::SignSubtree,
            Self::Checkpoint(_) | Self::Evidence(..) => Endpoint::Witnessed,
            Self::About | Self::Errors | Self::Style => Endpoint::Page,
            Self::NotFound => Endpoint::Unknown,
        }
    }
}

pub(crate) fn origin_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    hex::decode_to_slice(text, &mut hash)
        .ok()
        .filter(|()| is_lower)?;
    Some(hash)
}

/// A log whose checkpoints contradict each other.
pub(crate) struct Contradicted {
    pub(crate) origin: String,
    pub(crate) number: usize,
    /// URL of the last contradiction.
    pub(crate) evidence: String,
}

impl WitnessService {
    /// Creates the service of a witness with these URLs, and registers its metrics.
    pub fn new(
        witness: Arc<Witness>,
        submission_prefix: String,
        monitoring_prefix: String,
        registry: &mut Registry,
    ) -> Arc<Self> {
        let metrics = WitnessMetrics::default();
        metrics.describe(registry);
        let service = Self {
            witness,
            submission_prefix,
            monitoring_prefix,
            metrics,
            is_complete: AtomicBool::new(false),
            exists: AtomicBool::new(false),
            behind: Mutex::default(),
            failed_lists: Mutex::default(),
            checked: tokio::sync::Mutex::default(),
        };
        service.note_logs();
        Arc::new(service)
    }

    /// Returns the witness.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Returns the name of the witness.
    pub fn name(&self) -> &str {
        self.witness.verifiers().next().map_or("", |key| key.name())
    }

    /// Updates the number of known logs in the metrics.
    pub fn note_logs(&self) {
        let logs = self.witness.logs().origins().len();
        self.metrics.logs.set(logs as i64);
    }

    /// Records that all lists were read once, or that they failed. Until then, unknown logs get
    /// 503, because a list may have them.
    pub fn note_complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// Records that a list was read, or the reason why not, for `/health` and the metrics.
    pub fn note_list(&self, list: &str, failure: Option<String>) {
        let labels = ListLabels {
            list: list.to_owned(),
        };
        let read = self.metrics.list_read.get_or_create_owned(&labels);
        let failures = self.metrics.list_failures.get_or_create_owned(&labels);
        let mut failed = self.failed_lists.lock();
        match failure {
            Some(reason) => {
                failures.inc();
                failed.insert(list.to_owned(), reason);
            }
            None => {
                read.set((now_ms() / 1000) as i64);
                failed.remove(list);
            }
        }
    }

    /// Returns a log that was refused last because of the clock, and the seconds that it is behind.
    pub(crate) fn behind(&self) -> Option<(String, u64)> {
        let behind = self.behind.lock();
        let (origin, lag) = behind.first_key_value()?;
        Some((origin.clone(), *lag))
    }

    /// Returns the lists that could not be read, with the reasons; an empty text if there are none.
    pub(crate) fn failed_lists(&self) -> String {
        let failed = self.failed_lists.lock();
        let failed = failed.iter().map(|(list, why)| format!("{list}: {why}"));
        failed.collect::<Vec<_>>().join("; ")
    }

    /// Returns the reason why no record can be stored now, if there is one. A check stays valid for
    /// a second.
    pub(crate) async fn lock_failure(&self) -> Option<String> {
        let mut checked = self.checked.lock().await;
        if let Some((at, failure)) = &*checked
            && at.elapsed() < FRESH
        {
            return failure.clone();
        }
        let check = async {
            self.witness.check().await?;
            self.check_state().await
        };
        let failure = match timeout(CHECK_TIMEOUT, check).await {
            Ok(Ok(())) => None,
            Ok(Err(missing @ Refusal::NoState)) => Some(missing.to_string()),
            Ok(Err(error)) => {
                tracing::warn!("the health check of the witness failed: {error}");
                Some("not writable".to_owned())
            }
            Err(_) => Some(format!("no response within {} s", CHECK_TIMEOUT.as_secs())),
        };
        *checked = Some((Instant::now(), failure.clone()));
        failure
    }

    /// Verifies that the lock has the value of this witness. A lock that lost its records must not
    /// cosign another history.
    async fn check_state(&self) -> Result<(), Refusal> {
        if !self.exists.load(Ordering::Relaxed) {
            if !self.witness.exists().await? {
                return Err(Refusal::NoState);
            }
            self.exists.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads the number of contradictions of each log for `/health` and the metrics.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn count_contradictions(&self) -> Result<(), LockError> {
        for origin in self.witness.logs().origins() {
            if let number @ 1.. = self.witness.recount_contradictions(origin).await? {
                self.note_contradictions(origin, number);
            }
        }
        Ok(())
    }

    /// Returns the logs with known contradictions.
    pub(crate) fn contradicted(&self) -> Vec<Contradicted> {
        let logs = self.witness.logs();
        let mut contradicted = Vec::new();
        for origin in logs.origins() {
            let number = self.witness.known_contradictions(origin);
            if let Some(last) = number.checked_sub(1) {
                let hash = hex::encode(lucarne_ct::sha256(&[origin.as_bytes()]));
                contradicted.push(Contradicted {
                    origin: origin.to_owned(),
                    number,
                    evidence: format!("{}{hash}/evidence/{last}", self.monitoring_prefix),
                });
            }
        }
        contradicted.sort_by(|one, other| one.origin.cmp(&other.origin));
        contradicted
    }

    fn note_contradictions(&self, origin: &str, number: usize) {
        let labels = OriginLabels {
            origin: origin.to_owned(),
        };
        let metric = self.metrics.contradictions.get_or_create_owned(&labels);
        metric.set(number as i64);
    }

    pub(crate) async fn respond(
        &self,
        resource: WitnessResource,
        parts: Parts,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        let (method, headers) = (parts.method, parts.headers);
        let cosigns = matches!(
            resource,
            WitnessResource::AddCheckpoint | WitnessResource::SignSubtree
        );
        match method {
            Method::POST if cosigns => {
                let response = self.cosign(resource, headers, body, client, limits).await;
                if let Some(refused) = response.extensions().get::<ErrorBody>() {
                    let labels = CodeLabels { code: refused.code };
                    self.metrics.refusals.get_or_create_owned(&labels).inc();
                }
                response
            }
            Method::OPTIONS if cosigns => submission::options(POST),
            _ if cosigns => ErrorResponse::method(&method, POST).into_response(),
            Method::GET | Method::HEAD => self.read(resource, &method, headers).await,
            Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ => read_only(&method),
        }
    }

    /// Responds with signature lines, or with a refusal.
    async fn cosign(
        &self,
        resource: WitnessResource,
        headers: HeaderMap,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        let body = match submission::body(&headers, body, MAX_BODY, limits, client).await {
            Ok(body) => body,
            Err(error) => return error.into_response(),
        };
        let cosigned = match resource {
            WitnessResource::SignSubtree => SignSubtree::parse(&body)
                .map_err(Refusal::from)
                .and_then(|request| self.witness.sign_subtree(&request)),
            _ => self.add_checkpoint(&body).await,
        };
        match cosigned {
            Ok(lines) => {
                let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
                plain(StatusCode::OK, &value::TEXT, &value::NO_STORE, lines)
            }
            Err(refusal) => self.refused(refusal),
        }
    }

    async fn add_checkpoint(&self, body: &[u8]) -> Result<Vec<NoteSignature>, Refusal> {
        let request = AddCheckpoint::parse(body)?;
        self.check_state().await?;
        let added = self.witness.add_checkpoint(&request, now_ms() / 1000).await;
        let (origin, size) = (&request.checkpoint.origin, request.checkpoint.size);
        tracing::debug!(origin, size, added = added.is_ok(), "add-checkpoint");
        match &added {
            Ok(_) => {
                self.behind.lock().remove(origin);
                let labels = OriginLabels {
                    origin: origin.clone(),
                };
                let entries = self.metrics.entries.get_or_create_owned(&labels);
                entries.set(i64::try_from(size).unwrap_or(i64::MAX));
                self.metrics.cosigned.get_or_create_owned(&labels).inc();
            }
            Err(Refusal::Clock(lag)) => {
                self.behind.lock().insert(origin.clone(), *lag);
            }
            // The checkpoint may have been stored as evidence.
            Err(Refusal::Stale(_) | Refusal::Contradiction) => {
                if let Ok(number @ 1..) = self.witness.contradictions(origin).await {
                    self.note_contradictions(origin, number);
                }
            }
            Err(_) => {}
        }
        added
    }

    fn refused(&self, refusal: Refusal) -> Response {
        let is_complete = self.is_complete.load(Ordering::Relaxed);
        if matches!(refusal, Refusal::UnknownLog(_)) && !is_complete {
            return later("the witness has not read its log lists yet").into_response();
        }
        refused(refusal)
    }

    async fn read(&self, resource: WitnessResource, method: &Method, asked: HeaderMap) -> Response {
        let logs = self.witness.logs();
        let origin = match &resource {
            WitnessResource::Checkpoint(hash) | WitnessResource::Evidence(hash, _) => {
                logs.hashed(hash)
            }
            _ => None,
        };
        match (resource, origin) {
            (WitnessResource::Checkpoint(_), Some(origin)) => {
                match self.witness.checkpoint(origin).await {
                    Ok(Some(note)) => {
                        let bytes = note.encode().into_bytes();
                        let etag = etag::of_bytes(&bytes);
                        let representation = Representation {
                            bytes: bytes.into(),
                            file: None,
                            content_type: &value::TEXT,
                            cache: &value::MOMENT,
                            etag: &etag,
                            encoding: None,
                            varies: false,
                        };
                        representation.respond(method, asked)
                    }
                    Ok(None) => not_yet("no checkpoint of this log was cosigned yet\n"),
                    Err(refusal) => self.refused(refusal),
                }
            }
            (WitnessResource::Evidence(_, number), Some(origin)) => {
                match self.witness.contradiction(origin, number).await {
                    Ok(Some(found)) => {
                        let notes = format!("{}\n{}", found.recorded, found.submitted);
                        plain(StatusCode::OK, &value::TEXT, &value::MINUTE, notes)
                    }
                    Ok(None) => not_yet("this log has no such evidence\n"),
                    Err(error) => self.refused(error.into()),
                }
            }
            (WitnessResource::About, _) => {
                let about = self.about();
                plain(StatusCode::OK, &value::JSON, &value::MINUTE, about)
            }
            (WitnessResource::Errors, _) => error_page::response(),
            (WitnessResource::Style, _) => pages::style(),
            _ => not_yet(
                "not found: a witness has add-checkpoint and sign-subtree under its submission \
                 prefix, and <SHA-256 of an origin>/checkpoint under its monitoring prefix, for \
                 the logs that it knows\n",
            ),
        }
    }

    /// Returns `witness.v0.json`.
    pub fn about(&self) -> String {
        about(
            &self.witness,
            &self.submission_prefix,
            &self.monitoring_prefix,
        )
    }
}

fn later(detail: &str) -> ErrorResponse {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ErrorResponse::read(status, "witness_unavailable", detail).and_retry(1)
}

/// Responds to a refused request for cosignatures.
pub(crate) fn refused(refusal: Refusal) -> Response {
    let detail = refusal.to_string();
    let refused = match refusal {
        Refusal::Malformed(_) => {
            ErrorResponse::read(StatusCode::BAD_REQUEST, "bad_witness_request", detail)
        }
        Refusal::UnknownLog(_) | Refusal::NoSubtrees => {
            ErrorResponse::read(StatusCode::NOT_FOUND, "unknown_log", detail)
        }
        Refusal::Untrusted(_) => {
            ErrorResponse::read(StatusCode::FORBIDDEN, "untrusted_checkpoint", detail)
        }
        Refusal::Stale(size) => {
            let size = format!("{size}\n");
            let status = StatusCode::CONFLICT;
            return plain(status, &value::TLOG_SIZE, &value::NO_STORE, size);
        }
        Refusal::Contradiction | Refusal::Proof(_) | Refusal::TooLarge(_) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            ErrorResponse::read(status, "inconsistent_checkpoint", detail)
        }
        Refusal::Busy => later(&detail),
        Refusal::Clock(_) => {
            tracing::error!("{detail}");
            later(&detail)
        }
        // The text of these errors has places and data of this machine.
        Refusal::Lock(_) | Refusal::NoState => {
            tracing::error!("the witness has not cosigned: {detail}");
            later("the lock of the witness does not respond")
        }
        Refusal::Record(..) | Refusal::Signing(_) => return failed(&detail),
    };
    refused.into_response()
}

/// Returns the description of a witness or mirror, with Sunlight's fields.
pub(crate) fn about(witness: &Witness, submission_prefix: &str, monitoring_prefix: &str) -> String {
    let keys: Vec<_> = witness.verifiers().map(ToString::to_string).collect();
    let name = witness.verifiers().next().map_or("", |key| key.name());
    let mut about = json!({
        "name": name,
        "submission_url": submission_prefix,
        "monitoring_url": monitoring_prefix,
        "verifier_keys": keys,
        "software": {"name": "lucarne", "version": env!("CARGO_PKG_VERSION")},
    });
    // The name of a cosigner of Merkle Tree Certificates is an OID below this arc.
    if let Some(id) = name.strip_prefix("oid/1.3.6.1.4.1.") {
        about["cosigner_id"] = id.into();
    }
    format!("{about:#}\n")
}

/// Returns 500 for a failure that the operator must examine.
fn failed(detail: &str) -> Response {
    tracing::error!("the witness has not cosigned: {detail}");
    let detail = "the witness cannot cosign; the operator has been informed";
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ErrorResponse::read(status, "witness_failed", detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_by_role() {
        let both = Roles::SUBMISSION.or(Roles::MONITORING);
        let hash = "0a".repeat(32);
        let parse = |rest: &str| WitnessResource::parse(rest, both);
        let checkpoint = WitnessResource::Checkpoint([10; 32]);
        assert_eq!(parse(&format!("{hash}/checkpoint")), checkpoint);
        let evidence = WitnessResource::Evidence([10; 32], 7);
        assert_eq!(parse(&format!("{hash}/evidence/7")), evidence);
        assert_eq!(parse("add-checkpoint"), WitnessResource::AddCheckpoint);
        let submission = WitnessResource::parse("add-checkpoint", Roles::MONITORING);
        assert_eq!(submission, WitnessResource::NotFound);
        let path = format!("{hash}/checkpoint");
        let monitoring = WitnessResource::parse(&path, Roles::SUBMISSION);
        assert_eq!(monitoring, WitnessResource::NotFound);
        for unknown in [
            format!("{}/checkpoint", hash.to_uppercase()),
            format!("{}/checkpoint", &hash[1..]),
            format!("{hash}/checkpoint/"),
            format!("{hash}/evidence/-1"),
            format!("{hash}/evidence/+7"),
            format!("{hash}/evidence/007"),
            format!("{hash}/evidence/1000"),
            format!("{hash}/"),
            "../checkpoint".to_owned(),
            "add-entries".to_owned(),
        ] {
            assert_eq!(parse(&unknown), WitnessResource::NotFound, "{unknown}");
        }
    }
}
