//! A mirror: uploads, checkpoints and tiles of other logs (C2SP tlog-mirror, main of 2026-07-22).

mod upload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use lucarne_cosign::mirror::{EntryFormat, MirroredLog, Puller, UploadRefusal};
use lucarne_cosign::{AddCheckpoint, Mirror, Refusal, TrustedKey, Witness};
use lucarne_ctread::{Bucket, Problem, ReadError, is_gzip};
use lucarne_log::{Encoding, StoredFile};
use lucarne_tlog::{Level, NoteSignature, Tile};
use lucarne_x509::now_ms;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::budget::Client;
use crate::cosigner::{
    self, CodeLabels, CosignerService, LogFile, OriginLabels, Request, Resource, Resources, Served,
};
use crate::error_response::ErrorResponse;
use crate::monitoring::{Monitoring, failed, not_yet};
use crate::reply::{Response, value};
use crate::route::fingerprint;

/// The resources of a mirror.
pub(crate) static MIRROR: Resources = Resources {
    noun: "mirror",
    pages: &[
        ("mirror.v0.json", Resource::About),
        ("log-list.txt", Resource::Logs),
    ],
    posts: &[
        ("add-checkpoint", Resource::AddCheckpoint),
        ("add-entries", Resource::AddEntries),
        ("sign-subtree", Resource::SignSubtree),
    ],
    file,
    not_found: "not found: a mirror has add-checkpoint, add-entries and sign-subtree under its \
                submission prefix, log-list.txt, and <SHA-256 of an origin>/checkpoint and tile/… \
                under its monitoring prefix\n",
};

/// Parses a path below the hash of an origin.
fn file(path: &str) -> Option<LogFile> {
    if path == "checkpoint" {
        return Some(LogFile::Checkpoint);
    }
    if let Some(hex) = path.strip_prefix("issuer/") {
        return fingerprint(hex).map(LogFile::Issuer);
    }
    if path.starts_with("tile/entries/") {
        let tile = Tile::parse_entries(path).ok()?;
        return Some(LogFile::Entries(EntryFormat::Bundles, tile));
    }
    let tile = Tile::parse(path).ok()?;
    Some(match tile.level() {
        Level::Data => LogFile::Entries(EntryFormat::StaticCt, tile),
        Level::Hashes(_) => LogFile::Hashes(tile),
    })
}

/// A mirror with its URLs and metrics.
pub struct MirrorService {
    mirror: Arc<Mirror>,
    served: Served,
    metrics: MirrorMetrics,
    monitoring: Monitoring,
    /// The logs whose last operation failed, each with the reason.
    failures: Mutex<BTreeMap<String, String>>,
}

lucarne_metrics::metrics! {
    /// Metrics of a mirror.
    struct MirrorMetrics, prefix "lucarne_mirror" {
        entries: Family<OriginLabels, Gauge> =
            ("entries", "Entries of the mirror checkpoint, by origin");
        lag: Family<OriginLabels, Gauge> =
            ("lag_entries", "Entries that the log has and the mirror checkpoint lacks, by origin");
        cosigned: Family<OriginLabels, Gauge> =
            ("cosigned_timestamp_seconds", "Unix time of the last cosignature, by origin");
        damaged: Family<OriginLabels, Gauge> =
            ("damaged_files", "Damaged files of the last pass of the scrubber, at most 20, by origin");
        refusals: Family<CodeLabels, Counter> =
            ("refusals", "Requests of clients that were refused, by code");
        failures: Family<OriginLabels, Counter> =
            ("failures", "Failures to store or to read a log, by origin");
    }
}

impl MirrorService {
    /// Creates the service of a mirror with these URLs, and registers its metrics.
    pub fn new(
        mirror: Arc<Mirror>,
        submission_prefix: String,
        monitoring_prefix: String,
        registry: &mut Registry,
    ) -> Arc<Self> {
        let metrics = MirrorMetrics::default();
        metrics.describe(registry);
        Arc::new(Self {
            mirror,
            served: Served {
                resources: &MIRROR,
                submission_prefix,
                monitoring_prefix,
                refusals: metrics.refusals.clone(),
            },
            metrics,
            monitoring: Monitoring::new(),
            failures: Mutex::default(),
        })
    }

    /// Returns the mirror.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Loads a log, and records the result. Returns whether the log is loaded.
    pub async fn load(&self, log: &MirroredLog) -> bool {
        let failure = self.mirror.open(log).await.err();
        let is_loaded = failure.is_none();
        self.note(log, failure.map(|error| error.to_string()));
        is_loaded
    }

    /// Copies a log up to its present checkpoint, and records the result.
    pub async fn pull(&self, log: &MirroredLog, puller: &mut Puller) {
        let pulled = puller.pull(&self.mirror, log, now_ms() / 1000).await;
        self.note(log, pulled.err().map(|error| error.to_string()));
    }

    /// Verifies all files of a copy, and records the damaged ones.
    pub async fn scrub(&self, log: &MirroredLog, pause: fn(usize) -> Duration) {
        log.scrub(pause).await;
        self.measure(log);
    }

    /// Records the result of an operation of a log, for `/health` and the metrics.
    pub fn note(&self, log: &MirroredLog, failure: Option<String>) {
        let labels = self.measure(log);
        let mut failures = self.failures.lock();
        match failure {
            Some(reason) => {
                self.metrics.failures.get_or_create_owned(&labels).inc();
                if failures.get(&labels.origin) != Some(&reason) {
                    tracing::error!(log = labels.origin, "mirror: {reason}");
                }
                failures.insert(labels.origin, reason);
            }
            None => drop(failures.remove(&labels.origin)),
        }
    }

    /// Sets the gauges of a log, and returns its labels.
    fn measure(&self, log: &MirroredLog) -> OriginLabels {
        let labels = OriginLabels::from(log.origin());
        let published = log.published();
        let (size, time) = published.map_or((0, 0), |it| (it.size, it.time));
        let set = |metric: &Family<OriginLabels, Gauge>, number: u64| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            metric.get_or_create_owned(&labels).set(number);
        };
        set(&self.metrics.entries, size);
        set(&self.metrics.lag, log.seen().saturating_sub(size));
        set(&self.metrics.cosigned, time);
        set(&self.metrics.damaged, log.damage().len() as u64);
        labels
    }

    /// Returns the reason why the last operation of a log failed, or a damaged file.
    pub(crate) fn failure(&self, log: &MirroredLog) -> Option<String> {
        let failed = self.failures.lock().get(log.origin()).cloned();
        failed.or_else(|| log.damage().into_iter().next())
    }

    /// Responds to a refused upload.
    fn refused(&self, refusal: UploadRefusal) -> Response {
        let detail = refusal.to_string();
        let refused = |status, code| ErrorResponse::read(status, code, detail.clone());
        let refused = match refusal {
            UploadRefusal::Malformed(_) | UploadRefusal::Empty => {
                refused(StatusCode::BAD_REQUEST, "bad_upload")
            }
            UploadRefusal::UnknownLog(_) => refused(StatusCode::NOT_FOUND, "unknown_log"),
            UploadRefusal::NoPending | UploadRefusal::Proof { .. } => {
                refused(StatusCode::UNPROCESSABLE_ENTITY, "unproven_entries")
            }
            UploadRefusal::Conflict(info) => return upload::info(StatusCode::CONFLICT, &info),
            UploadRefusal::Checkpoint(refusal) => return cosigner::refused(refusal),
            // The text of these errors has places of this machine.
            UploadRefusal::Tree(_) => {
                unavailable("the store of the mirror does not respond, or is damaged")
            }
        };
        // The rest of the body is not worth reading.
        refused.and_close().into_response()
    }
}

#[async_trait]
impl CosignerService for MirrorService {
    fn served(&self) -> &Served {
        &self.served
    }

    fn signer(&self) -> &Witness {
        self.mirror.witness()
    }

    async fn add_checkpoint(&self, body: &[u8]) -> Result<Vec<NoteSignature>, Refusal> {
        let request = AddCheckpoint::parse(body)?;
        self.mirror.add_checkpoint(&request).await?;
        let hash = lucarne_ct::sha256(&[request.checkpoint.origin.as_bytes()]);
        if let Some(log) = self.mirror.logs().get(&hash) {
            self.measure(log);
        }
        Ok(Vec::new())
    }

    async fn add_entries(&self, request: Request<'_>, body: Incoming) -> Response {
        upload::respond(self, request, body).await
    }

    async fn cosigned(&self, origin: &str) -> Option<(u64, u64)> {
        let hash = lucarne_ct::sha256(&[origin.as_bytes()]);
        let published = self.mirror.logs().get(&hash)?.published()?;
        Some((published.size, published.time))
    }

    async fn file(
        &self,
        hash: [u8; 32],
        file: LogFile,
        method: &Method,
        request: Request<'_>,
    ) -> Response {
        let Some(log) = self.mirror.logs().get(&hash) else {
            return not_yet("this mirror has no log with this hash of its origin\n");
        };
        let Some(published) = log.published() else {
            if !log.was_loaded() {
                return unavailable("the mirror has not opened this log yet").into_response();
            }
            return not_yet("this mirror has no checkpoint of this log yet\n");
        };
        let tile = match file {
            LogFile::Hashes(tile) | LogFile::Entries(_, tile) => Some(tile),
            _ => None,
        };
        if let Some(tile) = tile.filter(|tile| !tile.covered_by(published.size)) {
            let (path, end, size) = (tile.path(), tile.end_leaf(), published.size);
            return not_yet(&format!(
                "{path} ends at entry {end}, the mirror has {size}\n"
            ));
        }
        let asked = request.headers;
        let files = Bucket(Arc::clone(log.assets()));
        let stored = |bytes| StoredFile::new(bytes, Encoding::Identity);
        let read = match file {
            LogFile::Checkpoint => {
                return cosigner::checkpoint(published.note.clone(), method, asked);
            }
            LogFile::Evidence(_) => return not_yet(MIRROR.not_found),
            LogFile::Hashes(tile) => lucarne_ctread::tile(&files, tile).await.map(stored),
            LogFile::Issuer(of) => lucarne_ctread::issuer(&files, of).await.map(stored),
            LogFile::Entries(format, tile) => entries(log, &files, format, tile).await,
        };
        match (read, file) {
            (Ok(stored), LogFile::Entries(..)) => {
                let client = request.client;
                self.monitoring.entries(stored, method, asked, client).await
            }
            (Ok(stored), LogFile::Issuer(_)) => {
                Monitoring::unencoded(stored, &value::PKIX, method, asked)
            }
            (Ok(stored), _) => Monitoring::unencoded(stored, &value::OCTETS, method, asked),
            (Err(error), _) => unread(&error),
        }
    }

    /// Returns the accepted logs whose keys are verifier keys, in the format of witness networks.
    fn log_list(&self) -> String {
        let keys = self.mirror.witness().logs();
        let mut logs: Vec<_> = self
            .mirror
            .logs()
            .values()
            .map(MirroredLog::origin)
            .collect();
        logs.sort_unstable();
        let mut list = "logs/v0\n".to_owned();
        for origin in logs {
            for key in keys.of(origin).into_iter().flatten() {
                if let TrustedKey::Note(key) = &**key {
                    list += &format!("\nvkey {key}\norigin {origin}\n");
                }
            }
        }
        list
    }
}

/// Reads a file with entries. If only the full tile exists, its first entries are returned.
async fn entries(
    log: &MirroredLog,
    files: &Bucket,
    format: EntryFormat,
    tile: Tile,
) -> Result<StoredFile, ReadError> {
    if log.format() != format {
        return Err(ReadError::new(format.path(&tile), Problem::Missing));
    }
    match log.assets().get(&format.path(&tile)).await {
        Ok(Some(bytes)) if is_gzip(&bytes) => Ok(StoredFile::new(bytes, Encoding::Gzip)),
        Ok(_) => {
            let entries = format.entries(files, tile).await?;
            Ok(StoredFile::new(entries, Encoding::Identity))
        }
        Err(error) => {
            let problem = lucarne_ctread::SourceError::unavailable(error);
            Err(ReadError::new(format.path(&tile), problem))
        }
    }
}

fn unavailable(detail: &str) -> ErrorResponse {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ErrorResponse::read(status, "mirror_unavailable", detail).and_retry(1)
}

fn unread(error: &ReadError) -> Response {
    match error.problem {
        Problem::Missing => not_yet("not found\n"),
        _ => failed(error),
    }
}

/// Checks the type of the body of `add-entries`.
fn is_octets(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) == Some(b"application/octet-stream")
}
