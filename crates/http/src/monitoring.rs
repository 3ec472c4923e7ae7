//! The monitoring API (static-ct-api, "Monitoring APIs").

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, HeaderMap, HeaderName, RANGE,
};
use http::{HeaderValue, Method, StatusCode};
use lucarne_ct::Fingerprint;
use lucarne_log::{Encoding, Log, Published, ReadError, State, StoredFile};
use lucarne_tlog::Tile;
use tokio::sync::Semaphore;

use crate::budget::{Client, Reservation};
use crate::encoding::{AcceptedCodings, ContentCoding};
use crate::error_response::ErrorResponse;
use crate::etag;
use crate::health::state_name;
use crate::reply::{Representation, Response, plain, value};
use crate::route::Resource;

/// The state of one log's readers, in addition to the log.
pub(crate) struct Monitoring {
    /// The newest checkpoint that was requested, with its entity tag.
    head: ArcSwapOption<Head>,
    /// Limits concurrent decompressions of tiles for readers without gzip.
    decompressing: Semaphore,
}

struct Head {
    published: Arc<Published>,
    etag: HeaderValue,
}

/// A file that is stored in gzip.
struct Packed<'l> {
    stored: StoredFile,
    content_type: &'static HeaderValue,
    /// The log and the data tile, if it may also exist in zstd.
    zstd: Option<(&'l Log, Tile)>,
}

/// Maximum number of concurrent decompressions for one log. Few readers need decompressed tiles.
const DECOMPRESSING: usize = 2;

impl Monitoring {
    pub(crate) fn new() -> Self {
        Monitoring {
            head: ArcSwapOption::empty(),
            decompressing: Semaphore::new(DECOMPRESSING),
        }
    }

    /// Responds to `checkpoint` with the signed note (C2SP tlog-checkpoint). A header reports a log
    /// that does not run, because the note does not show whether another checkpoint will follow.
    pub(crate) async fn checkpoint(
        &self,
        log: &Log,
        method: &Method,
        asked: HeaderMap,
    ) -> Response {
        let newest = log.newest_published().await;
        let mut response = self.newest(newest, method, asked);
        say_state(log, &mut response);
        response
    }

    fn newest(
        &self,
        newest: Option<Arc<Published>>,
        method: &Method,
        asked: HeaderMap,
    ) -> Response {
        let Some(published) = newest else {
            let words = "this log has not published a checkpoint yet; retry in a moment\n";
            return unavailable(words);
        };
        let cached = self.head.load();
        match &*cached {
            Some(head) if Arc::ptr_eq(&head.published, &published) => head.respond(method, asked),
            _ => {
                let etag = etag::of_bytes(&published.checkpoint);
                let head = Arc::new(Head { published, etag });
                self.head.store(Some(head.clone()));
                head.respond(method, asked)
            }
        }
    }

    /// Responds to `tile/<L>/<N>[.p/<W>]` and `tile/data/<N>[.p/<W>]`.
    pub(crate) async fn tile(
        &self,
        log: &Log,
        tile: Tile,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let stored = match log.tile(tile).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return not_yet(&beyond(log, tile)),
            Err(error) => return unread(&error),
        };
        // Hash tiles are not compressible.
        if Resource::is_data(tile) {
            let packed = Packed {
                stored,
                content_type: &value::OCTETS,
                zstd: Some((log, tile)),
            };
            return self.packed(packed, method, asked, client).await;
        }
        Self::unencoded(stored, &value::OCTETS, method, asked)
    }

    /// Responds with a file of a mirror that has entries.
    pub(crate) async fn entries(
        &self,
        stored: StoredFile,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let packed = Packed {
            stored,
            content_type: &value::OCTETS,
            zstd: None,
        };
        self.packed(packed, method, asked, client).await
    }

    /// Responds with an immutable file that is not compressible.
    pub(crate) fn unencoded(
        stored: StoredFile,
        content_type: &'static HeaderValue,
        method: &Method,
        asked: HeaderMap,
    ) -> Response {
        let etag = etag::of(&stored, ContentCoding::Identity);
        let mut representation = immutable(stored.bytes, ContentCoding::Identity, &etag);
        representation.content_type = content_type;
        representation.respond(method, asked)
    }

    /// Responds to `tile/names/<N>[.p/<W>]`: the names of a data tile's entries (the names tiles
    /// extension).
    pub(crate) async fn names(
        &self,
        log: &Log,
        data: Tile,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let stored = match log.names_tile(data).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return not_yet(&beyond(log, data)),
            Err(error) => return unread(&error),
        };
        let packed = Packed {
            stored,
            content_type: &value::JSON_LINES,
            zstd: None,
        };
        self.packed(packed, method, asked, client).await
    }

    async fn packed(
        &self,
        packed: Packed<'_>,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let Packed {
            stored,
            content_type,
            zstd,
        } = packed;
        let accepted =
            AcceptedCodings::parse(asked.get(ACCEPT_ENCODING).map(HeaderValue::as_bytes));
        let ranged = asked.contains_key(RANGE) && method == Method::GET && accepted.identity();
        // A range always refers to the unencoded bytes.
        let order = if ranged {
            [Some(ContentCoding::Identity), None, None]
        } else {
            accepted.order()
        };
        for coding in order.into_iter().flatten() {
            let etag = etag::of(&stored, coding);
            let (bytes, file) = match coding {
                ContentCoding::Gzip if stored.encoding == Encoding::Gzip => {
                    (stored.bytes, stored.file)
                }
                ContentCoding::Gzip => continue,
                ContentCoding::Zstd => match zstd.and_then(|(log, tile)| log.tile_zstd(tile)) {
                    Some(bytes) => (bytes, None),
                    None => continue,
                },
                ContentCoding::Identity => {
                    let plain = self.plain(stored, content_type, method, asked, client);
                    return plain.await;
                }
            };
            let mut representation = varying(bytes, coding, &etag);
            representation.file = file;
            representation.content_type = content_type;
            return representation.respond(method, asked);
        }
        // No acceptable coding is available. Any response is better than none (RFC 9110, section
        // 12.5.3), and every client can read unencoded bytes.
        self.plain(stored, content_type, method, asked, client)
            .await
    }

    async fn plain(
        &self,
        stored: StoredFile,
        content_type: &'static HeaderValue,
        method: &Method,
        asked: HeaderMap,
        client: &Arc<Client>,
    ) -> Response {
        let etag = etag::of(&stored, ContentCoding::Identity);
        let varying = |bytes| Representation {
            content_type,
            ..varying(bytes, ContentCoding::Identity, &etag)
        };
        let known = etag::already_there(&asked, &etag);
        if stored.encoding == Encoding::Identity || known {
            let mut representation = varying(stored.bytes);
            representation.file = stored.file;
            return representation.respond(method, asked);
        }
        if let Some(plain) = stored.plain {
            return varying(plain).respond(method, asked);
        }
        // The semaphore is never closed.
        let _permit = self.decompressing.acquire().await;
        let unpacked = tokio::task::spawn_blocking(move || stored.unpacked()).await;
        match unpacked {
            Ok(Ok(bytes)) => match Reservation::of_response(client, bytes) {
                Ok(bytes) => varying(bytes).respond(method, asked),
                Err(exhausted) => ErrorResponse::from(exhausted).into_response(),
            },
            Ok(Err(error)) => failed(&error),
            Err(error) => failed(&error),
        }
    }

    /// Responds to `issuer/<fingerprint>` with one DER certificate.
    pub(crate) async fn issuer(
        &self,
        log: &Log,
        fingerprint: Fingerprint,
        method: &Method,
        asked: HeaderMap,
    ) -> Response {
        match log.issuer(&fingerprint).await {
            Ok(Some(stored)) => Self::unencoded(stored, &value::PKIX, method, asked),
            Ok(None) => not_yet("no entry of this log refers to this issuer\n"),
            Err(error) => unread(&error),
        }
    }
}

/// Header of a checkpoint that reports the state of a log; absent if the log runs or follows.
const LOG_STATE: HeaderName = HeaderName::from_static("log-state");

/// Adds the header for a log that does not run.
pub(crate) fn say_state(log: &Log, response: &mut Response) {
    if let Some(state) = state(&log.state()) {
        let headers = response.headers_mut();
        headers.insert(LOG_STATE, state);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, value::LOG_STATE.clone());
    }
}

/// Returns the state as an item of RFC 9651, with the time of the stop as a parameter; `None` if
/// the log runs or follows. The reason of the stop is not public.
fn state(state: &State) -> Option<HeaderValue> {
    match state {
        State::Running | State::Following { .. } => None,
        State::Stopped { since_ms, .. } => {
            let since = since_ms / 1000;
            HeaderValue::try_from(format!("stopped; since=@{since}")).ok()
        }
        state => Some(HeaderValue::from_static(state_name(state))),
    }
}

/// Describes a response that never changes.
fn immutable(bytes: Bytes, coding: ContentCoding, etag: &HeaderValue) -> Representation<'_> {
    Representation {
        bytes,
        file: None,
        content_type: &value::OCTETS,
        cache: &value::FOREVER,
        etag,
        encoding: match coding {
            ContentCoding::Identity => None,
            ContentCoding::Gzip => Some(&value::GZIP),
            ContentCoding::Zstd => Some(&value::ZSTD),
        },
        varies: false,
    }
}

/// Describes an immutable response that depends on `Accept-Encoding`.
fn varying(bytes: Bytes, coding: ContentCoding, etag: &HeaderValue) -> Representation<'_> {
    let mut representation = immutable(bytes, coding, etag);
    representation.varies = true;
    representation
}

impl Head {
    fn respond(&self, method: &Method, asked: HeaderMap) -> Response {
        let representation = Representation {
            bytes: self.published.checkpoint.clone(),
            file: None,
            content_type: &value::TEXT,
            cache: &value::MOMENT,
            etag: &self.etag,
            encoding: None,
            varies: false,
        };
        representation.respond(method, asked)
    }
}

fn beyond(log: &Log, tile: Tile) -> String {
    match log.published() {
        Some(published) => format!(
            "{} ends at entry {}, the tree has {} entries\n",
            tile.path(),
            tile.end_leaf(),
            published.size
        ),
        None => "this log has not published a checkpoint yet\n".to_owned(),
    }
}

/// Returns 404 for a resource that may exist soon. Caches must not store this response.
pub(crate) fn not_yet(words: &str) -> Response {
    plain(
        StatusCode::NOT_FOUND,
        &value::TEXT,
        &value::NO_STORE,
        words.to_owned(),
    )
}

/// Returns 405 for resources that can only be read.
pub(crate) fn read_only(method: &Method) -> Response {
    let words = format!("{method} is not allowed here; allowed: GET, HEAD, OPTIONS\n");
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = plain(status, &value::TEXT, &value::NO_STORE, words);
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    response
}

fn unavailable(words: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut response = plain(status, &value::TEXT, &value::NO_STORE, words.to_owned());
    let retry = http::header::RETRY_AFTER;
    response
        .headers_mut()
        .insert(retry, HeaderValue::from_static("1"));
    response
}

/// Responds to a failed read. The response to a temporary failure has a Retry-After.
fn unread(error: &ReadError) -> Response {
    match error {
        ReadError::Unavailable(reason) => {
            tracing::warn!("a read failed: {reason}");
            unavailable("the log's storage does not respond; retry in a moment\n")
        }
        // Caches must not store this response: the operator may repair the file.
        ReadError::Damaged { .. } => {
            tracing::error!("a read failed: {error}");
            unavailable("the stored file is damaged; the operator has been informed\n")
        }
        error => failed(error),
    }
}

/// Returns 500 for a failure that the operator must examine; the response names no path.
pub(crate) fn failed(error: &dyn std::fmt::Display) -> Response {
    tracing::error!("a read failed: {error}");
    let words = "the log cannot read its storage; the operator has been informed\n";
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    plain(status, &value::TEXT, &value::NO_STORE, words.to_owned())
}
