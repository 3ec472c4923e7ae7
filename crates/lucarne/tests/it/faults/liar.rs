//! The log behind the proxy, with one fault.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body_util::Full;
use lucarne_ct::{LogId, Sct};
use lucarne_testkit::Client;
use lucarne_tlog::{Checkpoint, Hash, SignedNote};

use super::{Fault, Forger, Upstream, entries, upstream};

/// Submissions before the fault begins. A load test checks a log before the run, and would not
/// start.
const HONEST: usize = 3;
const SUBMISSIONS: [&str; 2] = ["ct/v1/add-chain", "ct/v1/add-pre-chain"];

/// A request to the proxy.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    fn is_submission(&self) -> bool {
        SUBMISSIONS.contains(&self.path.as_str())
    }
}

/// Counters of the proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Wrong responses.
    pub(crate) lies: usize,
    /// Retried submissions after the time of Retry-After.
    pub(crate) patient: usize,
    /// Retried submissions before the time of Retry-After.
    pub(crate) impatient: usize,
}

#[derive(Default)]
struct State {
    submissions: usize,
    /// Responses so far that could have been wrong.
    chances: usize,
    observed: Observed,
    /// The first checkpoint with entries.
    first: Option<Bytes>,
    /// The checkpoint in all responses of `StaleCheckpoint`.
    frozen: Option<Bytes>,
    /// The last checkpoint that was forwarded unchanged.
    told: Option<Bytes>,
    /// The index in the last SCT.
    promised: Option<u64>,
    /// The submissions with an SCT.
    answered: HashSet<Bytes>,
    /// The time before which a rejected submission must not be retried.
    not_before: HashMap<Bytes, Instant>,
}

/// Responds like the log, with one fault.
pub(crate) struct Liar {
    fault: Fault,
    client: Client,
    forger: Forger,
    state: Mutex<State>,
}

type Answer = Result<Response<Full<Bytes>>, io::Error>;

impl Liar {
    pub(crate) fn new(fault: Fault, client: Client, forger: Forger) -> Self {
        Liar {
            fault,
            client,
            forger,
            state: Mutex::default(),
        }
    }

    pub(crate) fn observed(&self) -> Observed {
        self.state.lock().unwrap().observed.clone()
    }

    pub(crate) async fn answer(&self, asked: Asked) -> Answer {
        if self.fault == Fault::GoesAway && self.has_gone() {
            // The fault itself: the response is pending until the connection ends.
            std::future::pending::<()>().await;
        }
        match asked.path.as_str() {
            _ if asked.is_submission() => self.submission(asked).await,
            "checkpoint" => self.checkpoint(asked).await,
            _ => self.file(asked).await,
        }
    }

    /// Returns whether the log is permanently unavailable, after enough requests for a started load
    /// test.
    fn has_gone(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.chances += 1;
        state.chances > 30
    }

    /// Returns whether this response must be wrong: every third is.
    fn now_and_then(&self) -> bool {
        self.one_in(3)
    }

    fn always(&self) -> bool {
        self.one_in(1)
    }

    fn one_in(&self, chances: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        if state.submissions < HONEST {
            return false;
        }
        state.chances += 1;
        let lie = state.chances.is_multiple_of(chances);
        state.observed.lies += usize::from(lie);
        lie
    }

    async fn submission(&self, asked: Asked) -> Answer {
        use Fault::*;
        self.state.lock().unwrap().submissions += 1;
        self.watch_patience(&asked.body);
        let lie = match self.fault {
            Delayed => self.always(),
            DuplicateChanged => self.came_before(&asked.body) && self.always(),
            // Early concurrent submissions may come before the first SCT.
            SctIndexTwice if self.state.lock().unwrap().promised.is_none() => false,
            Dropped | Reset | SctSignature | SctLogId | SctIndex | SctIndexTwice | SctTimestamp
            | SctTomorrow | Forgotten | NeverMerged | Html | Refused | Unavailable | RetryAfter => {
                self.now_and_then()
            }
            PutsOff => self.always(),
            _ => false,
        };
        if !lie {
            let truth = self.truth(&asked).await;
            if let Some(taken) = self.not_refused(&truth) {
                return pass(taken);
            }
            if let Ok(sct) = Sct::parse(&truth.body) {
                self.state.lock().unwrap().promised = sct.index();
            }
            return pass(truth);
        }
        let (path, body) = (asked.path.as_str(), &asked.body[..]);
        match self.fault {
            Refused => return pass(refused()),
            Unavailable => return pass(unavailable(Option::None)),
            RetryAfter | PutsOff => return pass(self.turn_away(asked.body)),
            Forgotten | NeverMerged => {
                let entry = self.another_entry().await;
                let index = entry.index().unwrap();
                let index = match self.fault {
                    Forgotten => index,
                    _ => (1 << 30) + index,
                };
                let sct = self.forger.sct(path, body, entry.timestamp, index);
                return pass(promise(&sct));
            }
            _ => (),
        }
        let before = match self.fault {
            SctIndex => self.another_entry().await.index(),
            SctIndexTwice => self.state.lock().unwrap().promised,
            _ => Option::None,
        };
        let truth = self.truth(&asked).await;
        if truth.status != StatusCode::OK {
            return pass(truth);
        }
        let mut sct = Sct::parse(&truth.body).unwrap();
        match self.fault {
            // The fault itself: the response is late by at least this time.
            Delayed => tokio::time::sleep(Duration::from_millis(400)).await,
            Dropped => std::future::pending().await,
            Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            Html => return pass(page()),
            // A bit after the algorithms, the length and the heads of two DER integers.
            SctSignature => sct.signature[20] ^= 1,
            SctLogId => sct.log_id = LogId([7; 32]),
            SctIndex | SctIndexTwice => {
                sct = self.forger.sct(path, body, sct.timestamp, before.unwrap());
            }
            SctTimestamp | SctTomorrow | DuplicateChanged => {
                let other = match self.fault {
                    SctTomorrow => sct.timestamp + 86_400_000,
                    _ => sct.timestamp - 1,
                };
                sct = self.forger.sct(path, body, other, sct.index().unwrap());
            }
            _ => (),
        }
        pass(promise(&sct))
    }

    /// Returns an SCT instead of a refusal, if that is the fault.
    fn not_refused(&self, truth: &Upstream) -> Option<Upstream> {
        use Fault::*;
        let codes: &[&str] = match self.fault {
            TakesOutsideWindow => &["outside_window"],
            TakesUnknownRoot => &["unknown_root"],
            TakesBadSignature => &["invalid_signature"],
            TakesWrongEndpoint => &[
                "precertificate_on_add_chain",
                "certificate_on_add_pre_chain",
            ],
            FailsOnNonsense => &["invalid_json", "missing_chain", "empty_chain"],
            _ => return Option::None,
        };
        let body = String::from_utf8_lossy(&truth.body);
        if !truth.status.is_client_error() || !codes.iter().any(|code| body.contains(code)) {
            return Option::None;
        }
        self.lied();
        Some(match self.fault {
            FailsOnNonsense => Upstream {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                headers: json(),
                body: Bytes::from_static(b"{}"),
            },
            _ => promise(&self.forger.any_sct()),
        })
    }

    fn lied(&self) {
        self.state.lock().unwrap().observed.lies += 1;
    }

    /// Adds an entry to the log that the load test does not know.
    async fn another_entry(&self) -> Sct {
        let body = self.forger.submission();
        let answer = self.client.post(SUBMISSIONS[0], body).await.unwrap();
        Sct::parse(&answer.ok().unwrap()).unwrap()
    }

    fn came_before(&self, body: &Bytes) -> bool {
        !self.state.lock().unwrap().answered.insert(body.clone())
    }

    fn turn_away(&self, body: Bytes) -> Upstream {
        let again = Instant::now() + Duration::from_secs(1);
        self.state.lock().unwrap().not_before.insert(body, again);
        unavailable(Some("1"))
    }

    fn watch_patience(&self, body: &Bytes) {
        let mut state = self.state.lock().unwrap();
        match state.not_before.remove(body) {
            Some(again) if Instant::now() >= again => state.observed.patient += 1,
            Some(_) => state.observed.impatient += 1,
            None => (),
        }
    }

    async fn checkpoint(&self, asked: Asked) -> Answer {
        let truth = self.truth(&asked).await;
        if truth.status != StatusCode::OK {
            return pass(truth);
        }
        let body = self.lie_about(&truth.body);
        pass(self.headed(&asked.path, Upstream { body, ..truth }))
    }

    /// Returns the response with the headers of the fault.
    fn headed(&self, path: &str, mut answer: Upstream) -> Upstream {
        use Fault::*;
        let (checkpoint, data) = (path == "checkpoint", path.starts_with("tile/data/"));
        let headers = &mut answer.headers;
        let mut set = |name, value| {
            headers.insert(name, header::HeaderValue::from_static(value));
        };
        match self.fault {
            ContentType if data && self.always() => set(header::CONTENT_TYPE, "text/plain"),
            CheckpointCached if checkpoint && self.always() => {
                set(header::CACHE_CONTROL, "public, max-age=31536000, immutable")
            }
            TileUncached if path.starts_with("tile/0/") && self.always() => {
                set(header::CACHE_CONTROL, "no-store");
            }
            RootsAsText if path == "ct/v1/get-roots" && self.always() => {
                set(header::CONTENT_TYPE, "text/plain; charset=utf-8");
            }
            NoCors if self.always() => {
                headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
            }
            _ => (),
        }
        answer
    }

    fn lie_about(&self, truth: &Bytes) -> Bytes {
        let (first, told) = self.first_and_told(truth);
        let before = told.as_ref().unwrap_or(truth);
        let size = parse(truth).size;
        let root = Hash([7; 32]);
        match self.fault {
            Fault::StaleCheckpoint if self.always() => self.frozen(before),
            Fault::ShrunkenCheckpoint if self.now_and_then() => first,
            // The size has another root in other responses.
            Fault::ForkedCheckpoint if told.is_some() && self.now_and_then() => {
                self.forger.checkpoint(before, &root).into()
            }
            Fault::InconsistentCheckpoint if size > parse(before).size && self.now_and_then() => {
                self.forger.checkpoint(truth, &root).into()
            }
            Fault::CheckpointOrigin if self.now_and_then() => {
                self.forger.checkpoint_of_another(truth).into()
            }
            Fault::CheckpointSignature if self.now_and_then() => spoil(truth),
            Fault::SignatureAtStart => {
                self.lied();
                spoil(truth)
            }
            Fault::OldClock => {
                self.lied();
                self.forger
                    .checkpoint_at(truth, |time| time - 10_000)
                    .into()
            }
            Fault::FrozenClock if self.always() => {
                let frozen = self.frozen(before);
                let frozen = self.forger.time_of(&frozen);
                self.forger.checkpoint_at(truth, |_| frozen).into()
            }
            _ => {
                self.state.lock().unwrap().told = Some(truth.clone());
                truth.clone()
            }
        }
    }

    /// Returns the checkpoint that stays the same: `before` of the first call.
    fn frozen(&self, before: &Bytes) -> Bytes {
        let mut state = self.state.lock().unwrap();
        state.frozen.get_or_insert_with(|| before.clone()).clone()
    }

    /// Returns the first checkpoint with entries, and the last one that was forwarded unchanged.
    fn first_and_told(&self, truth: &Bytes) -> (Bytes, Option<Bytes>) {
        let mut state = self.state.lock().unwrap();
        let empty = |note: &Bytes| parse(note).size == 0;
        if state.first.as_ref().is_none_or(empty) {
            state.first = Some(truth.clone());
        }
        (state.first.clone().unwrap(), state.told.clone())
    }

    async fn file(&self, asked: Asked) -> Answer {
        use Fault::*;
        let path = asked.path.as_str();
        let (data, hashes) = (path.starts_with("tile/data/"), path.starts_with("tile/0/"));
        let issuer = path.starts_with("issuer/");
        let lie = match self.fault {
            HashTile | HashTileCut | HashTileMissing => hashes && self.always(),
            DataTile | Gzip | Precertificate | ChainShuffled | ChainCut => data && self.always(),
            RootsMissing => path == "ct/v1/get-roots" && self.always(),
            UnknownPath => path == "no-such-file" && self.always(),
            IssuerMissing | IssuerWrong => issuer && self.always(),
            _ => false,
        };
        if !lie {
            let truth = self.truth(&asked).await;
            return pass(self.headed(path, truth));
        }
        // The bytes to change must not be compressed.
        let plain = [("accept-encoding", "identity")];
        let mut answer = upstream(&self.client, &asked, &plain).await;
        match self.fault {
            HashTile => answer.body = flip(&answer.body, 5),
            // The timestamp, the type and the length come before; here is the TBS or certificate.
            DataTile => answer.body = flip(&answer.body, 200),
            IssuerWrong => answer.body = flip(&answer.body, 100),
            Precertificate => answer.body = entries::other_precertificates(&answer.body),
            ChainShuffled => answer.body = entries::shuffled(&answer.body),
            ChainCut => answer.body = entries::without_roots(&answer.body),
            RootsMissing => answer.body = Bytes::from_static(b"{\"certificates\":[]}"),
            UnknownPath => answer = page(),
            HashTileCut => answer.body.truncate(answer.body.len().saturating_sub(1)),
            IssuerMissing | HashTileMissing => answer.status = StatusCode::NOT_FOUND,
            Gzip => {
                let gzip = header::HeaderValue::from_static("gzip");
                answer.headers.insert(header::CONTENT_ENCODING, gzip);
                answer.body = Bytes::from_static(b"\x1f\x8b\x08\0\0\0\0\0\0\x03 not deflated");
            }
            _ => (),
        }
        pass(answer)
    }

    /// Returns the log's own response to this request.
    async fn truth(&self, asked: &Asked) -> Upstream {
        let passed_on = [
            header::CONTENT_TYPE,
            header::ACCEPT_ENCODING,
            header::IF_NONE_MATCH,
        ];
        let headers: Vec<(&str, &str)> = passed_on
            .iter()
            .filter_map(|name| Some((name.as_str(), asked.headers.get(name)?.to_str().ok()?)))
            .collect();
        upstream(&self.client, asked, &headers).await
    }
}

fn pass(answer: Upstream) -> Answer {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    for theirs in [
        header::CONTENT_LENGTH,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
    ] {
        response.headers_mut().remove(theirs);
    }
    Ok(response)
}

fn unavailable(retry_after: Option<&'static str>) -> Upstream {
    let mut headers = HeaderMap::new();
    if let Some(seconds) = retry_after {
        let seconds = header::HeaderValue::from_static(seconds);
        headers.insert(header::RETRY_AFTER, seconds);
    }
    Upstream {
        status: StatusCode::SERVICE_UNAVAILABLE,
        headers,
        body: Bytes::from_static(b"{\"code\":\"pool_full\"}"),
    }
}

fn page() -> Upstream {
    let mut headers = HeaderMap::new();
    let html = header::HeaderValue::from_static("text/html");
    headers.insert(header::CONTENT_TYPE, html);
    Upstream {
        status: StatusCode::OK,
        headers,
        body: Bytes::from_static(b"<html><body>It works!</body></html>"),
    }
}

fn refused() -> Upstream {
    Upstream {
        status: StatusCode::BAD_REQUEST,
        headers: json(),
        body: Bytes::from_static(b"{\"code\":\"unknown_root\"}"),
    }
}

fn promise(sct: &Sct) -> Upstream {
    Upstream {
        status: StatusCode::OK,
        headers: json(),
        body: sct.to_json().into(),
    }
}

fn json() -> HeaderMap {
    let json = header::HeaderValue::from_static("application/json");
    HeaderMap::from_iter([(header::CONTENT_TYPE, json)])
}

fn parse(note: &[u8]) -> Checkpoint {
    Checkpoint::parse(&SignedNote::parse(note).unwrap().text).unwrap()
}

fn flip(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1;
    }
    bytes.into()
}

/// Flips a bit of the signature, after the key ID, the timestamp and the head of the DER.
fn spoil(note: &[u8]) -> Bytes {
    let mut note = SignedNote::parse(note).unwrap();
    note.signatures[0].signature[30] ^= 1;
    note.encode().into()
}
