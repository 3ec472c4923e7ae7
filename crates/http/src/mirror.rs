//! A mirror: uploads, checkpoints and tiles of other logs (C2SP tlog-mirror, main of 2026-07-22).

mod upload;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use lucarne_cosign::mirror::{EntryFormat, MirroredLog, Puller, UploadRefusal};
use lucarne_cosign::{AddCheckpoint, Mirror, Refusal, SignSubtree, TrustedKey};
use lucarne_ct::Fingerprint;
use lucarne_ctread::{Bucket, Problem, ReadError, is_gzip};
use lucarne_log::{Encoding, StoredFile};
use lucarne_tlog::{NoteSignature, Tile};
use lucarne_x509::now_ms;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::budget::Client;
use crate::error_response::{ErrorBody, ErrorResponse};
use crate::limits::Limits;
use crate::metrics::Endpoint;
use crate::monitoring::{Monitoring, failed, not_yet, read_only};
use crate::read_limits::Reading;
use crate::reply::{Representation, Response, plain, value};
use crate::route::{Roles, fingerprint};
use crate::witness::{self, MAX_BODY, origin_hash};
use crate::{error_page, etag, pages, submission};

/// The methods of the endpoints that change or cosign.
const POST: &str = "POST, OPTIONS";

/// A mirror with its URLs and metrics.
pub struct MirrorService {
    mirror: Arc<Mirror>,
    pub(crate) submission_prefix: String,
    pub(crate) monitoring_prefix: String,
    metrics: MirrorMetrics,
    monitoring: Monitoring,
    /// The logs whose last operation failed, each with the reason.
    failures: Mutex<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabels {
    origin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: &'static str,
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
        refusals: Family<CodeLabels, Counter> =
            ("refusals", "Requests of clients that were refused, by code");
        failures: Family<OriginLabels, Counter> =
            ("failures", "Failures to store or to read a log, by origin");
    }
}

/// A resource of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorResource {
    AddCheckpoint,
    AddEntries,
    SignSubtree,
    /// A file of the log with this hash of its origin.
    File([u8; 32], MirrorFile),
    /// The list of accepted logs.
    Logs,
    /// Name, URLs and keys, as in Sunlight.
    About,
    Errors,
    Style,
    NotFound,
}

/// A public file of a mirrored log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorFile {
    Checkpoint,
    Hashes(Tile),
    /// The entries of a data tile in this format.
    Entries(EntryFormat, Tile),
    Issuer(Fingerprint),
}

impl MirrorResource {
    /// Parses the rest of a path after a prefix of the mirror.
    pub(crate) fn parse(rest: &str, roles: Roles) -> Self {
        match rest {
            "" | "mirror.v0.json" => return Self::About,
            "log-list.txt" => return Self::Logs,
            error_page::PATH => return Self::Errors,
            "page.css" => return Self::Style,
            "add-checkpoint" if roles.submission => return Self::AddCheckpoint,
            "add-entries" if roles.submission => return Self::AddEntries,
            "sign-subtree" if roles.submission => return Self::SignSubtree,
            _ => {}
        }
        let found = rest.split_once('/').filter(|_| roles.monitoring);
        let found = found.and_then(|(hash, rest)| {
            Some(Self::File(origin_hash(hash)?, MirrorFile::parse(rest)?))
        });
        found.unwrap_or(Self::NotFound)
    }

    /// Returns the kind of read for the read limits.
    pub(crate) fn reading(self) -> Reading {
        match self {
            Self::File(_, MirrorFile::Checkpoint) => Reading::Other,
            Self::File(..) => Reading::Tree(None),
            _ => Reading::Other,
        }
    }

    /// Returns the endpoint of the metrics.
    pub(crate) fn endpoint(self) -> Endpoint {
        match self {
            Self::AddCheckpoint => Endpoint::AddCheckpoint,
            Self::AddEntries => Endpoint::AddEntries,
            Self::SignSubtree => Endpoint::SignSubtree,
            Self::File(_, MirrorFile::Checkpoint) => Endpoint::Witnessed,
            Self::File(_, MirrorFile::Hashes(_)) => Endpoint::Tile,
            Self::File(_, MirrorFile::Entries(..)) => Endpoint::DataTile,
            Self::File(_, MirrorFile::Issuer(_)) => Endpoint::Issuer,
            Self::Logs | Self::About | Self::Errors | Self::Style => Endpoint::Page,
            Self::NotFound => Endpoint::Unknown,
        }
    }
}

impl MirrorFile {
    fn parse(path: &str) -> Option<Self> {
        if path == "checkpoint" {
            return Some(Self::Checkpoint);
        }
        if let Some(hex) = path.strip_prefix("issuer/") {
            return fingerprint(hex).map(Self::Issuer);
        }
        if path.starts_with("tile/entries/") {
            let tile = Tile::parse_entries(path).ok()?;
            return Some(Self::Entries(EntryFormat::Bundles, tile));
        }
        let tile = Tile::parse(path).ok()?;
        Some(match tile.level() {
            lucarne_tlog::Level::Data => Self::Entries(EntryFormat::StaticCt, tile),
            lucarne_tlog::Level::Hashes(_) => Self::Hashes(tile),
        })
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
            submission_prefix,
            monitoring_prefix,
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
        let origin = log.origin().to_owned();
        let labels = OriginLabels { origin };
        let published = log.published();
        let (size, time) = published.map_or((0, 0), |it| (it.size, it.time));
        let set = |metric: &Family<OriginLabels, Gauge>, number: u64| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            metric.get_or_create_owned(&labels).set(number);
        };
        set(&self.metrics.entries, size);
        set(&self.metrics.lag, log.seen().saturating_sub(size));
        set(&self.metrics.cosigned, time);
        labels
    }

    /// Returns the reason why the last operation of a log failed.
    pub(crate) fn failure(&self, log: &MirroredLog) -> Option<String> {
        self.failures.lock().get(log.origin()).cloned()
    }

    pub(crate) async fn respond(
        &self,
        resource: MirrorResource,
        parts: Parts,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        use MirrorResource::{AddCheckpoint, AddEntries, SignSubtree};
        let (method, headers) = (parts.method, parts.headers);
        let posts = matches!(resource, AddCheckpoint | AddEntries | SignSubtree);
        match method {
            Method::POST if posts => {
                let response = match resource {
                    AddEntries => self.add_entries(headers, body, client, limits).await,
                    _ => self.add(resource, headers, body, client, limits).await,
                };
                if let Some(refused) = response.extensions().get::<ErrorBody>() {
                    let labels = CodeLabels { code: refused.code };
                    self.metrics.refusals.get_or_create_owned(&labels).inc();
                }
                response
            }
            Method::OPTIONS if posts => submission::options(POST),
            _ if posts => ErrorResponse::method(&method, POST).into_response(),
            Method::GET | Method::HEAD => self.read(resource, &method, headers, client).await,
            Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ => read_only(&method),
        }
    }

    /// Responds to `add-checkpoint` and `sign-subtree`.
    async fn add(
        &self,
        resource: MirrorResource,
        headers: HeaderMap,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        let body = match submission::body(&headers, body, MAX_BODY, limits, client).await {
            Ok(body) => body,
            Err(error) => return error.into_response(),
        };
        let added = match resource {
            MirrorResource::SignSubtree => SignSubtree::parse(&body)
                .map_err(Refusal::from)
                .and_then(|request| self.mirror.sign_subtree(&request)),
            _ => self.add_checkpoint(&body).await.map(|()| Vec::new()),
        };
        match added {
            Ok(lines) => cosigned(&lines),
            Err(refusal) => witness::refused(refusal),
        }
    }

    async fn add_checkpoint(&self, body: &[u8]) -> Result<(), Refusal> {
        let request = AddCheckpoint::parse(body)?;
        self.mirror.add_checkpoint(&request).await?;
        let hash = lucarne_ct::sha256(&[request.checkpoint.origin.as_bytes()]);
        if let Some(log) = self.mirror.logs().get(&hash) {
            self.measure(log);
        }
        Ok(())
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
            UploadRefusal::Checkpoint(refusal) => return witness::refused(refusal),
            // The text of these errors has places of this machine.
            UploadRefusal::Tree(_) => {
                unavailable("the store of the mirror does not respond, or is damaged")
            }
        };
        // The rest of the body is not worth reading.
        refused.and_close().into_response()
    }

    async fn read(
        &self,
        resource: MirrorResource,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        match resource {
            MirrorResource::File(hash, file) => match self.mirror.logs().get(&hash) {
                Some(log) => self.file(log, file, method, asked, client).await,
                None => not_yet("this mirror has no log with this hash of its origin\n"),
            },
            MirrorResource::Logs => {
                let list = self.log_list();
                plain(StatusCode::OK, &value::TEXT, &value::MINUTE, list)
            }
            MirrorResource::About => {
                let (submission, monitoring) = (&self.submission_prefix, &self.monitoring_prefix);
                let about = witness::about(self.mirror.witness(), submission, monitoring);
                plain(StatusCode::OK, &value::JSON, &value::MINUTE, about)
            }
            MirrorResource::Errors => error_page::response(),
            MirrorResource::Style => pages::style(),
            _ => not_yet(
                "not found: a mirror has add-checkpoint, add-entries and sign-subtree under its \
                 submission prefix, log-list.txt, and <SHA-256 of an origin>/checkpoint and tile/… \
                 under its monitoring prefix\n",
            ),
        }
    }

    async fn file(
        &self,
        log: &MirroredLog,
        file: MirrorFile,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let Some(published) = log.published() else {
            if !log.was_loaded() {
                return unavailable("the mirror has not opened this log yet").into_response();
            }
            return not_yet("this mirror has no checkpoint of this log yet\n");
        };
        let tile = match file {
            MirrorFile::Hashes(tile) | MirrorFile::Entries(_, tile) => Some(tile),
            MirrorFile::Checkpoint | MirrorFile::Issuer(_) => None,
        };
        if let Some(tile) = tile.filter(|tile| !tile.covered_by(published.size)) {
            let (path, end, size) = (tile.path(), tile.end_leaf(), published.size);
            return not_yet(&format!(
                "{path} ends at entry {end}, the mirror has {size}\n"
            ));
        }
        let files = Bucket(Arc::clone(log.assets()));
        let stored = |bytes| StoredFile::new(bytes, Encoding::Identity);
        let read = match file {
            MirrorFile::Checkpoint => {
                let etag = etag::of_bytes(&published.note);
                return Representation {
                    bytes: published.note.clone(),
                    file: None,
                    content_type: &value::TEXT,
                    cache: &value::MOMENT,
                    etag: &etag,
                    encoding: None,
                    varies: false,
                }
                .respond(method, asked);
            }
            MirrorFile::Hashes(tile) => lucarne_ctread::tile(&files, tile).await.map(stored),
            MirrorFile::Issuer(of) => lucarne_ctread::issuer(&files, of).await.map(stored),
            MirrorFile::Entries(format, tile) => entries(log, &files, format, tile).await,
        };
        match (read, file) {
            (Ok(stored), MirrorFile::Entries(..)) => {
                self.monitoring.entries(stored, method, asked, client).await
            }
            (Ok(stored), MirrorFile::Issuer(_)) => {
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

/// Responds with signature lines.
fn cosigned(lines: &[NoteSignature]) -> Response {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    plain(StatusCode::OK, &value::TEXT, &value::NO_STORE, lines)
}

/// Checks the type of the body of `add-entries`.
fn is_octets(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) == Some(b"application/octet-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_by_role() {
        let both = Roles::SUBMISSION.or(Roles::MONITORING);
        let hash = "0a".repeat(32);
        let file = |path: &str| MirrorResource::parse(&format!("{hash}/{path}"), both);
        let of = |file| MirrorResource::File([10; 32], file);
        assert_eq!(file("checkpoint"), of(MirrorFile::Checkpoint));
        let tile = |path| Tile::parse(path).unwrap();
        assert_eq!(
            file("tile/0/001.p/5"),
            of(MirrorFile::Hashes(tile("tile/0/001.p/5")))
        );
        let data = tile("tile/data/x001/000");
        for (path, format) in [
            ("tile/entries/x001/000", EntryFormat::Bundles),
            ("tile/data/x001/000", EntryFormat::StaticCt),
        ] {
            assert_eq!(file(path), of(MirrorFile::Entries(format, data)));
        }
        let issuer = format!("issuer/{}", "ab".repeat(32));
        assert_eq!(
            file(&issuer),
            of(MirrorFile::Issuer(Fingerprint([0xab; 32])))
        );
        for unknown in [
            "",
            "tile/entries/../0",
            "tile/names/000",
            "tile/6/000",
            ".lucarne/lock",
        ] {
            assert_eq!(file(unknown), MirrorResource::NotFound, "{unknown}");
        }
        for (rest, resource) in [
            ("add-checkpoint", MirrorResource::AddCheckpoint),
            ("add-entries", MirrorResource::AddEntries),
            ("sign-subtree", MirrorResource::SignSubtree),
        ] {
            assert_eq!(MirrorResource::parse(rest, both), resource);
            let monitoring = MirrorResource::parse(rest, Roles::MONITORING);
            assert_eq!(monitoring, MirrorResource::NotFound);
        }
    }
}
