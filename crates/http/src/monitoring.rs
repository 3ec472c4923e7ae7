//! The monitoring API (static-ct-api, "Monitoring APIs"): what readers get.

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

/// The state that readers of one log need beside the log.
pub(crate) struct Monitoring {
    /// The newest checkpoint that was asked for, with its entity tag.
    head: ArcSwapOption<Head>,
    /// Bounds the tiles being decompressed for readers who refuse gzip.
    decompressing: Semaphore,
}

struct Head {
    published: Arc<Published>,
    etag: HeaderValue,
}

/// A file that is stored in gzip.
struct Packed {
    stored: StoredFile,
    content_type: &'static HeaderValue,
    /// The data tile that it is, of which there may be zstd.
    zstd: Option<Tile>,
}

/// Tiles of one log decompressed at once. It is rare that somebody asks.
const DECOMPRESSING: usize = 2;

impl Monitoring {
    pub(crate) fn new() -> Self {
        Monitoring {
            head: ArcSwapOption::empty(),
            decompressing: Semaphore::new(DECOMPRESSING),
        }
    }

    /// `checkpoint`: the signed note (C2SP tlog-checkpoint). A log that does not
    /// run says so beside it, for nothing in the note tells whether another will
    /// come.
    pub(crate) fn checkpoint(&self, log: &Log, method: &Method, asked: HeaderMap) -> Response {
        let mut response = self.newest(log, method, asked);
        say_state(log, &mut response);
        response
    }

    fn newest(&self, log: &Log, method: &Method, asked: HeaderMap) -> Response {
        let Some(published) = log.published() else {
            let words = "this log has not published a checkpoint yet; come back in a moment\n";
            return unavailable(words);
        };
        let cached = self.head.load();
        match &*cached {
            Some(head) if Arc::ptr_eq(&head.published, &published) => head.answer(method, asked),
            _ => {
                let etag = etag::of_bytes(&published.checkpoint);
                let head = Arc::new(Head { published, etag });
                self.head.store(Some(head.clone()));
                head.answer(method, asked)
            }
        }
    }

    /// `tile/<L>/<N>[.p/<W>]` and `tile/data/<N>[.p/<W>]`.
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
        // Hashes do not compress.
        if Resource::is_data(tile) {
            let packed = Packed {
                stored,
                content_type: &value::OCTETS,
                zstd: Some(tile),
            };
            return self.packed(log, packed, method, asked, client).await;
        }
        let etag = etag::of(&stored, ContentCoding::Identity);
        immutable(stored.bytes, ContentCoding::Identity, &etag).answer(method, asked)
    }

    /// `tile/names/<N>[.p/<W>]`: the names of a data tile's entries (the names tiles extension).
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
        self.packed(log, packed, method, asked, client).await
    }

    async fn packed(
        &self,
        log: &Log,
        packed: Packed,
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
        // A range is one of the plain bytes.
        let order = match ranged {
            true => [Some(ContentCoding::Identity), None, None],
            false => accepted.order(),
        };
        for coding in order.into_iter().flatten() {
            let etag = etag::of(&stored, coding);
            let (bytes, file) = match coding {
                ContentCoding::Gzip if stored.encoding == Encoding::Gzip => {
                    (stored.bytes, stored.file)
                }
                ContentCoding::Gzip => continue,
                ContentCoding::Zstd => match zstd.and_then(|tile| log.tile_zstd(tile)) {
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
            return representation.answer(method, asked);
        }
        // Nothing acceptable is at hand: any answer is better than none
        // (RFC 9110, 12.5.3), and plain bytes are what everybody can read.
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
            return representation.answer(method, asked);
        }
        if let Some(plain) = stored.plain {
            return varying(plain).answer(method, asked);
        }
        // The semaphore is never closed.
        let _permit = self.decompressing.acquire().await;
        let unpacked = tokio::task::spawn_blocking(move || stored.unpacked()).await;
        match unpacked {
            Ok(Ok(bytes)) => match Reservation::answer(client, bytes) {
                Ok(bytes) => varying(bytes).answer(method, asked),
                Err(exhausted) => ErrorResponse::from(exhausted).into_response(),
            },
            Ok(Err(error)) => failed(&error),
            Err(error) => failed(&error),
        }
    }

    /// `issuer/<fingerprint>`: one DER certificate.
    pub(crate) async fn issuer(
        &self,
        log: &Log,
        fingerprint: Fingerprint,
        method: &Method,
        asked: HeaderMap,
    ) -> Response {
        match log.issuer(&fingerprint).await {
            Ok(Some(stored)) => {
                let etag = etag::of(&stored, ContentCoding::Identity);
                let mut representation = immutable(stored.bytes, ContentCoding::Identity, &etag);
                representation.content_type = &value::PKIX;
                representation.answer(method, asked)
            }
            Ok(None) => not_yet("no entry of this log refers to such an issuer\n"),
            Err(error) => unread(&error),
        }
    }
}

/// The header that says of a checkpoint whether its log runs; absent if it does.
const LOG_STATE: HeaderName = HeaderName::from_static("log-state");

/// Says of a log that does not run that it does not.
pub(crate) fn say_state(log: &Log, response: &mut Response) {
    if let Some(state) = state(&log.state()) {
        let headers = response.headers_mut();
        headers.insert(LOG_STATE, state);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, value::LOG_STATE.clone());
    }
}

/// The state as an item of RFC 9651, and since when a log is stopped as its date.
/// Why is not for everybody.
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

/// Returns what never changes.
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

/// The same, where another `Accept-Encoding` gets other bytes.
fn varying(bytes: Bytes, coding: ContentCoding, etag: &HeaderValue) -> Representation<'_> {
    let mut representation = immutable(bytes, coding, etag);
    representation.varies = true;
    representation
}

impl Head {
    fn answer(&self, method: &Method, asked: HeaderMap) -> Response {
        let representation = Representation {
            bytes: self.published.checkpoint.clone(),
            file: None,
            content_type: &value::TEXT,
            cache: &value::MOMENT,
            etag: &self.etag,
            encoding: None,
            varies: false,
        };
        representation.answer(method, asked)
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

/// 404 for what may be there in a moment: cached for as long as that.
pub(crate) fn not_yet(words: &str) -> Response {
    plain(
        StatusCode::NOT_FOUND,
        &value::TEXT,
        &value::NOT_YET,
        words.to_owned(),
    )
}

/// 405 of everything that is only read.
pub(crate) fn read_only(method: &Method) -> Response {
    let words = format!("{method} makes no sense here; allowed: GET, HEAD, OPTIONS\n");
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

/// A read that failed: one that may succeed in a moment is told to come back.
fn unread(error: &ReadError) -> Response {
    match error {
        ReadError::Unavailable(reason) => {
            tracing::warn!("a read failed: {reason}");
            unavailable("the log's storage does not answer; come back in a moment\n")
        }
        // Nothing that a cache may keep: it is put right, by an operator if need be.
        ReadError::Damaged { .. } => {
            tracing::error!("a read failed: {error}");
            unavailable("what the log's storage has here is damaged; its operator has been told\n")
        }
        error => failed(error),
    }
}

/// 500: what the operator has to look at; readers are not told of paths.
fn failed(error: &dyn std::fmt::Display) -> Response {
    tracing::error!("a read failed: {error}");
    let words = "the log cannot read what it has stored; its operator has been told\n";
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    plain(status, &value::TEXT, &value::NO_STORE, words.to_owned())
}
