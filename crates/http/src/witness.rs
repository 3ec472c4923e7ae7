//! A witness: cosignatures of the checkpoints of other logs (C2SP tlog-witness, main of
//! 2026-07-22).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::{Method, StatusCode};
use lucarne_cosign::evidence::MOST;
use lucarne_cosign::{AddCheckpoint, Refusal, Witness};
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
use tokio::time::timeout;

use crate::cosigner::{
    self, CodeLabels, CosignerService, LogFile, OriginLabels, Request, Resource, Resources, Served,
};
use crate::monitoring::not_yet;
use crate::reply::{Response, plain, value};

/// Time limit of the check of the lock.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a check of the lock stays valid.
const FRESH: Duration = Duration::from_secs(1);

/// The resources of a witness.
pub(crate) static WITNESS: Resources = Resources {
    noun: "witness",
    pages: &[("witness.v0.json", Resource::About)],
    posts: &[
        ("add-checkpoint", Resource::AddCheckpoint),
        ("sign-subtree", Resource::SignSubtree),
    ],
    file,
    not_found: "not found: a witness has add-checkpoint and sign-subtree under its submission \
                prefix, and <SHA-256 of an origin>/checkpoint under its monitoring prefix, for \
                the logs that it knows\n",
};

/// Parses a path below the hash of an origin.
fn file(path: &str) -> Option<LogFile> {
    if path == "checkpoint" {
        return Some(LogFile::Checkpoint);
    }
    let number = path.strip_prefix("evidence/").and_then(parse_size)?;
    let number = usize::try_from(number).ok()?;
    (number < MOST).then_some(LogFile::Evidence(number))
}

/// A witness with its URLs and metrics.
pub struct WitnessService {
    witness: Arc<Witness>,
    served: Served,
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
            served: Served {
                resources: &WITNESS,
                submission_prefix,
                monitoring_prefix,
                refusals: metrics.refusals.clone(),
            },
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
                    evidence: format!("{}{hash}/evidence/{last}", self.served.monitoring_prefix),
                });
            }
        }
        contradicted.sort_by(|one, other| one.origin.cmp(&other.origin));
        contradicted
    }

    fn note_contradictions(&self, origin: &str, number: usize) {
        let metrics = &self.metrics.contradictions;
        metrics
            .get_or_create_owned(&origin.into())
            .set(number as i64);
    }
}

#[async_trait]
impl CosignerService for WitnessService {
    fn served(&self) -> &Served {
        &self.served
    }

    fn signer(&self) -> &Witness {
        &self.witness
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
                let labels = OriginLabels::from(&**origin);
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

    fn respond_refused(&self, refusal: Refusal) -> Response {
        let is_complete = self.is_complete.load(Ordering::Relaxed);
        if matches!(refusal, Refusal::UnknownLog(_)) && !is_complete {
            let detail = "the witness has not read its log lists yet";
            return cosigner::later(detail).into_response();
        }
        cosigner::refused(refusal)
    }

    async fn cosigned(&self, origin: &str) -> Option<(u64, u64)> {
        let cosigned = timeout(CHECK_TIMEOUT, self.witness.cosigned(origin)).await;
        cosigned.ok()?.ok()?
    }

    async fn file(
        &self,
        hash: [u8; 32],
        file: LogFile,
        method: &Method,
        request: Request<'_>,
    ) -> Response {
        let logs = self.witness.logs();
        match (logs.hashed(&hash), file) {
            (Some(origin), LogFile::Checkpoint) => match self.witness.checkpoint(origin).await {
                Ok(Some(note)) => {
                    cosigner::checkpoint(note.encode().into(), method, request.headers)
                }
                Ok(None) => not_yet("no checkpoint of this log was cosigned yet\n"),
                Err(refusal) => self.respond_refused(refusal),
            },
            (Some(origin), LogFile::Evidence(number)) => {
                match self.witness.contradiction(origin, number).await {
                    Ok(Some(found)) => {
                        let notes = format!("{}\n{}", found.recorded, found.submitted);
                        plain(StatusCode::OK, &value::TEXT, &value::MINUTE, notes)
                    }
                    Ok(None) => not_yet("this log has no such evidence\n"),
                    Err(error) => self.respond_refused(error.into()),
                }
            }
            _ => not_yet(WITNESS.not_found),
        }
    }
}
