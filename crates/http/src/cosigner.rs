//! The endpoints that a witness and a mirror share. A table has the resources of each.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::HeaderMap;
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use lucarne_cosign::mirror::EntryFormat;
use lucarne_cosign::{Refusal, SignSubtree, Witness};
use lucarne_ct::Fingerprint;
use lucarne_tlog::{NoteSignature, Tile};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::json;

use crate::budget::Client;
use crate::error_response::{ErrorBody, ErrorResponse};
use crate::limits::Limits;
use crate::metrics::Endpoint;
use crate::monitoring::{not_yet, read_only};
use crate::read_limits::Reading;
use crate::reply::{Representation, Response, plain, value};
use crate::route::Roles;
use crate::{error_page, etag, pages, submission};

/// Maximum length of a body in bytes, as in Sunlight: the longest proof, and more than ten
/// signatures with ML-DSA-44.
const MAX_BODY: usize = 128 << 10;

/// The methods of the endpoints that change or cosign.
const POST: &str = "POST, OPTIONS";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OriginLabels {
    pub(crate) origin: String,
}

impl From<&str> for OriginLabels {
    fn from(origin: &str) -> Self {
        let origin = origin.to_owned();
        Self { origin }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CodeLabels {
    code: &'static str,
}

/// A resource of a witness or mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    AddCheckpoint,
    AddEntries,
    SignSubtree,
    /// A file of the log with this hash of its origin.
    File([u8; 32], LogFile),
    /// The list of accepted logs.
    Logs,
    /// Name, URLs and keys, as in Sunlight.
    About,
    Errors,
    Style,
    NotFound,
}

/// A public file about a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    Checkpoint,
    /// A stored contradiction.
    Evidence(usize),
    Hashes(Tile),
    /// The entries of a data tile in this format.
    Entries(EntryFormat, Tile),
    Issuer(Fingerprint),
}

impl Resource {
    /// Returns the kind of read for the read limits.
    pub(crate) fn reading(self) -> Reading {
        match self {
            Self::File(_, LogFile::Checkpoint | LogFile::Evidence(_)) => Reading::Other,
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
            Self::File(_, file) => match file {
                LogFile::Checkpoint | LogFile::Evidence(_) => Endpoint::Witnessed,
                LogFile::Hashes(_) => Endpoint::Tile,
                LogFile::Entries(..) => Endpoint::DataTile,
                LogFile::Issuer(_) => Endpoint::Issuer,
            },
            Self::Logs | Self::About | Self::Errors | Self::Style => Endpoint::Page,
            Self::NotFound => Endpoint::Unknown,
        }
    }
}

/// The resources of a witness or of a mirror.
pub(crate) struct Resources {
    /// "witness" or "mirror".
    pub(crate) noun: &'static str,
    /// Resources below both prefixes, without the common ones.
    pub(crate) pages: &'static [(&'static str, Resource)],
    /// Resources below the submission prefix.
    pub(crate) posts: &'static [(&'static str, Resource)],
    /// Parses a path below the hash of an origin.
    pub(crate) file: fn(&str) -> Option<LogFile>,
    /// Response to other paths.
    pub(crate) not_found: &'static str,
}

/// The resources below each prefix of a witness or mirror.
const COMMON: [(&str, Resource); 3] = [
    ("", Resource::About),
    (error_page::PATH, Resource::Errors),
    ("page.css", Resource::Style),
];

impl Resources {
    /// Parses the rest of a path after a prefix.
    pub(crate) fn parse(&self, rest: &str, roles: Roles) -> Resource {
        let posts = self.posts.iter().filter(|_| roles.submission);
        let mut named = COMMON.iter().chain(self.pages).chain(posts);
        if let Some((_, resource)) = named.find(|(path, _)| *path == rest) {
            return *resource;
        }
        let found = rest.split_once('/').filter(|_| roles.monitoring);
        let found = found.and_then(|(hash, path)| {
            let file = (self.file)(path)?;
            Some(Resource::File(origin_hash(hash)?, file))
        });
        found.unwrap_or(Resource::NotFound)
    }
}

fn origin_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    hex::decode_to_slice(text, &mut hash)
        .ok()
        .filter(|()| is_lower)?;
    Some(hash)
}

/// The resources of a service, its prefixes, and its refusals by code.
pub(crate) struct Served {
    pub(crate) resources: &'static Resources,
    pub(crate) submission_prefix: String,
    pub(crate) monitoring_prefix: String,
    pub(crate) refusals: Family<CodeLabels, Counter>,
}

/// The parts of a request after its resource.
pub(crate) struct Request<'r> {
    pub(crate) headers: HeaderMap,
    pub(crate) client: &'r Arc<Client>,
    pub(crate) limits: &'r Limits,
}

/// A witness or mirror with its endpoints.
#[async_trait]
pub(crate) trait CosignerService: Send + Sync {
    fn served(&self) -> &Served;

    /// Returns the keys, the logs and the records.
    fn signer(&self) -> &Witness;

    async fn add_checkpoint(&self, body: &[u8]) -> Result<Vec<NoteSignature>, Refusal>;

    /// Responds to a refused `add-checkpoint` or `sign-subtree`.
    fn respond_refused(&self, refusal: Refusal) -> Response {
        refused(refusal)
    }

    /// Responds to `add-entries`, which only a mirror has.
    async fn add_entries(&self, _: Request<'_>, _: Incoming) -> Response {
        not_yet(self.served().resources.not_found)
    }

    /// Responds with a file of the log with this hash of its origin.
    async fn file(
        &self,
        hash: [u8; 32],
        file: LogFile,
        method: &Method,
        request: Request<'_>,
    ) -> Response;

    /// Returns the size of the last cosigned checkpoint of a log, and the time of the cosignature
    /// in seconds since 1970; `None` if there is none, or the lock does not respond.
    async fn cosigned(&self, origin: &str) -> Option<(u64, u64)>;

    /// Returns the list of accepted logs, which only a mirror has.
    fn log_list(&self) -> String {
        String::new()
    }
}

impl dyn CosignerService + '_ {
    /// Returns the name in cosignatures.
    pub(crate) fn name(&self) -> &str {
        let mut keys = self.signer().verifiers();
        keys.next().map_or("", |key| key.name())
    }

    pub(crate) async fn respond(
        &self,
        resource: Resource,
        parts: Parts,
        body: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Response {
        let (method, headers) = (parts.method, parts.headers);
        let request = Request {
            headers,
            client,
            limits,
        };
        let mut posts = self.served().resources.posts.iter();
        let posts = posts.any(|(_, post)| *post == resource);
        match method {
            Method::POST if posts => {
                let response = match resource {
                    Resource::AddEntries => self.add_entries(request, body).await,
                    _ => self.cosign(resource, request, body).await,
                };
                if let Some(refused) = response.extensions().get::<ErrorBody>() {
                    let labels = CodeLabels { code: refused.code };
                    self.served().refusals.get_or_create_owned(&labels).inc();
                }
                response
            }
            Method::OPTIONS if posts => submission::options(POST),
            _ if posts => ErrorResponse::method(&method, POST).into_response(),
            Method::GET | Method::HEAD => self.read(resource, &method, request).await,
            Method::OPTIONS => submission::options("GET, HEAD, OPTIONS"),
            _ => read_only(&method),
        }
    }

    /// Responds to `add-checkpoint` and `sign-subtree`.
    async fn cosign(&self, resource: Resource, request: Request<'_>, body: Incoming) -> Response {
        let (limits, client) = (request.limits, request.client);
        let body = submission::body(&request.headers, body, MAX_BODY, limits, client).await;
        let body = match body {
            Ok(body) => body,
            Err(error) => return error.into_response(),
        };
        let lines = match resource {
            Resource::SignSubtree => SignSubtree::parse(&body)
                .map_err(Refusal::from)
                .and_then(|request| self.signer().sign_subtree(&request)),
            _ => self.add_checkpoint(&body).await,
        };
        match lines {
            Ok(lines) => cosigned(&lines),
            Err(refusal) => self.respond_refused(refusal),
        }
    }

    async fn read(&self, resource: Resource, method: &Method, request: Request<'_>) -> Response {
        match resource {
            Resource::File(hash, file) => self.file(hash, file, method, request).await,
            Resource::Logs => {
                let list = self.log_list();
                plain(StatusCode::OK, &value::TEXT, &value::MINUTE, list)
            }
            Resource::About => plain(StatusCode::OK, &value::JSON, &value::MINUTE, self.about()),
            Resource::Errors => error_page::response(),
            Resource::Style => pages::style(),
            _ => not_yet(self.served().resources.not_found),
        }
    }

    /// Returns `witness.v0.json` or `mirror.v0.json`, with Sunlight's fields.
    fn about(&self) -> String {
        let keys: Vec<_> = self.signer().verifiers().map(ToString::to_string).collect();
        let name = self.name();
        let mut about = json!({
            "name": name,
            "submission_url": self.served().submission_prefix,
            "monitoring_url": self.served().monitoring_prefix,
            "verifier_keys": keys,
            "software": {"name": "lucarne", "version": env!("CARGO_PKG_VERSION")},
        });
        // The name of a cosigner of Merkle Tree Certificates is an OID below this arc.
        if let Some(id) = name.strip_prefix("oid/1.3.6.1.4.1.") {
            about["cosigner_id"] = id.into();
        }
        format!("{about:#}\n")
    }
}

/// Responds with signature lines.
pub(crate) fn cosigned(lines: &[NoteSignature]) -> Response {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    plain(StatusCode::OK, &value::TEXT, &value::NO_STORE, lines)
}

/// Responds with a cosigned checkpoint.
pub(crate) fn checkpoint(note: bytes::Bytes, method: &Method, headers: HeaderMap) -> Response {
    let etag = etag::of_bytes(&note);
    let representation = Representation {
        bytes: note,
        file: None,
        content_type: &value::TEXT,
        cache: &value::MOMENT,
        etag: &etag,
        encoding: None,
        varies: false,
    };
    representation.respond(method, headers)
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

pub(crate) fn later(detail: &str) -> ErrorResponse {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ErrorResponse::read(status, "witness_unavailable", detail).and_retry(1)
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
    use crate::mirror::MIRROR;
    use crate::witness::WITNESS;

    /// Verifies the files, the POST resources and unknown paths of a service, by role.
    fn resources_are(
        of: &Resources,
        files: &[(&str, LogFile)],
        posts: &[(&str, Resource)],
        unknown: &str,
    ) {
        let both = Roles::SUBMISSION.or(Roles::MONITORING);
        let hash = "0a".repeat(32);
        for (path, file) in files {
            let path = format!("{hash}/{path}");
            assert_eq!(of.parse(&path, both), Resource::File([10; 32], *file));
            assert_eq!(of.parse(&path, Roles::SUBMISSION), Resource::NotFound);
            for other in [path.replacen('a', "A", 1), path[1..].to_owned()] {
                assert_eq!(of.parse(&other, both), Resource::NotFound, "{other}");
            }
        }
        for (path, post) in posts {
            assert_eq!(of.parse(path, both), *post);
            assert_eq!(of.parse(path, Roles::MONITORING), Resource::NotFound);
        }
        for path in unknown.split(' ') {
            let path = path.replace("HASH", &hash);
            assert_eq!(of.parse(&path, both), Resource::NotFound, "{path}");
        }
    }

    #[test]
    fn resources_of_witness_and_mirror_by_role() {
        let posts = [
            ("add-checkpoint", Resource::AddCheckpoint),
            ("sign-subtree", Resource::SignSubtree),
            ("add-entries", Resource::AddEntries),
        ];
        let files = [
            ("checkpoint", LogFile::Checkpoint),
            ("evidence/7", LogFile::Evidence(7)),
        ];
        let unknown = "HASH/ HASH/checkpoint/ HASH/evidence/-1 HASH/evidence/+7 HASH/evidence/007 \
                       HASH/evidence/1000 HASH/tile/0/000 ../checkpoint add-entries log-list.txt";
        resources_are(&WITNESS, &files, &posts[..2], unknown);

        let tile = |path| Tile::parse(path).unwrap();
        let entries = |format| LogFile::Entries(format, tile("tile/data/x001/000"));
        let issuer = format!("issuer/{}", "ab".repeat(32));
        let files = [
            ("checkpoint", LogFile::Checkpoint),
            ("tile/0/001.p/5", LogFile::Hashes(tile("tile/0/001.p/5"))),
            ("tile/entries/x001/000", entries(EntryFormat::Bundles)),
            ("tile/data/x001/000", entries(EntryFormat::StaticCt)),
            (&issuer, LogFile::Issuer(Fingerprint([0xab; 32]))),
        ];
        let unknown = "HASH/ HASH/tile/entries/../0 HASH/tile/names/000 HASH/tile/6/000 \
                       HASH/evidence/0 HASH/.lucarne/lock";
        resources_are(&MIRROR, &files, &posts, unknown);
    }
}
