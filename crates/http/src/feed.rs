//! The feed: the entries of a log as server-sent events (HTML, section 9.2), from any index.
//!
//! The server keeps no queue for a reader. Each reader takes the events of one data tile at a time,
//! and all readers share the bytes of these events. When the socket has sent the events, the reader
//! takes the next tile. The bytes in use count towards the budget of the client. A reader that was
//! up to date and falls far behind is disconnected; the last event has the index at which to
//! continue.

use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{HeaderMap, HeaderName};
use http::{Method, StatusCode};
use lucarne_log::Log;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::body::Body;
use crate::budget::{Client, Reservation, Waiting};
use crate::error_response::ErrorResponse;
use crate::long_poll::parameter;
use crate::reply::{Response, plain, value};
use crate::signal::Signal;

/// The server sends a comment after this time without entries. Comments detect clients that have
/// disappeared without closing, and keep proxies from closing idle connections.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Maximum number of unread entries of a reader that was up to date before.
const MAX_BEHIND: u64 = 1 << 16;

/// Reconnection delay of a reader, in milliseconds.
const RETRY: &str = "retry: 5000\n\n";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Responds to a request for the feed.
pub(crate) async fn respond(
    log: &Arc<Log>,
    method: &Method,
    query: Option<&str>,
    asked: &HeaderMap,
    client: &Arc<Client>,
    closing: &Arc<Signal>,
) -> Response {
    let size = log
        .newest_published()
        .await
        .map_or(0, |published| published.size);
    let next = match first(query, asked, size) {
        Ok(next) => next,
        Err(error) => {
            let status = StatusCode::BAD_REQUEST;
            return ErrorResponse::read(status, "bad_index", error.to_string()).into_response();
        }
    };
    let mut response = plain(StatusCode::OK, &value::EVENT_STREAM, &value::NO_STORE, "");
    response.headers_mut().insert(BUFFERING, value::NO.clone());
    if method == Method::HEAD {
        return response;
    }
    let waiting = match Waiting::enter(client) {
        Ok(waiting) => waiting,
        Err(exhausted) => return ErrorResponse::waiting(exhausted).into_response(),
    };
    let reader = FeedReader {
        grown: log.grown(),
        log: log.clone(),
        client: client.clone(),
        closing: closing.clone(),
        next,
        is_live: false,
        _waiting: waiting,
    };
    let opening = Bytes::from(format!(": from entry {next} of {size}\n{RETRY}"));
    let entries = stream::unfold(Some(reader), |reader| async move { reader?.step().await });
    let opening = stream::iter([opening]);
    *response.body_mut() = Body::streamed(opening.chain(entries).boxed());
    response
}

/// Header that disables the buffering of events by nginx.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Returns the first requested index: after the last event of the reader, or `from=INDEX`, or the
/// next entry.
fn first(query: Option<&str>, asked: &HeaderMap, size: u64) -> Result<u64, BadIndex> {
    let number = |text: &str, field| {
        let number = text.parse::<u64>();
        number.map_err(|why| BadIndex::Number { field, why })
    };
    let next = match (asked.get(LAST_EVENT_ID), parameter(query, "from")) {
        (Some(last), _) => {
            let last = number(last.to_str().unwrap_or_default(), "Last-Event-ID")?;
            last.saturating_add(1)
        }
        (None, Some(from)) => number(from, "`from`")?,
        (None, None) => size,
    };
    if next <= size {
        Ok(next)
    } else {
        Err(BadIndex::Beyond { next, size })
    }
}

/// The reasons why a feed cannot begin where the reader requests. The client is at fault.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum BadIndex {
    #[error("{field} must be an index of the log: a whole number")]
    Number {
        field: &'static str,
        #[source]
        why: ParseIntError,
    },
    #[error(
        "entry {next} is beyond the {size} entries of the tree: check that the index is from \
         this log"
    )]
    Beyond { next: u64, size: u64 },
}

/// A reader of the feed.
struct FeedReader {
    log: Arc<Log>,
    grown: watch::Receiver<u64>,
    client: Arc<Client>,
    closing: Arc<Signal>,
    /// Index of the next entry.
    next: u64,
    /// Whether the reader has been up to date.
    is_live: bool,
    _waiting: Waiting,
}

/// The reason why a feed ends, as the name of its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The reader is too slow.
    Behind,
    /// The memory budget of the client, or of all clients, is exhausted.
    Busy,
    /// The entries cannot be read.
    Unavailable,
}

impl FeedReader {
    /// Returns the next bytes, and the state of the reader after them.
    async fn step(mut self) -> Option<(Bytes, Option<Self>)> {
        loop {
            if self.closing.is_raised() || self.client.activity.is_unattended() {
                return None;
            }
            let size = *self.grown.borrow_and_update();
            if self.is_live && size.saturating_sub(self.next) > MAX_BEHIND {
                return Some(self.end(End::Behind));
            }
            match self.log.feed(self.next).await {
                Ok(Some((events, next))) => return Some(self.send(events, next)),
                Ok(None) => {
                    self.is_live = true;
                    if let Some(comment) = self.wait().await {
                        return Some((comment, Some(self)));
                    }
                }
                Err(error) => {
                    tracing::warn!(log = self.log.config().shortname, "a feed ends: {error}");
                    return Some(self.end(End::Unavailable));
                }
            }
        }
    }

    fn send(mut self, events: Bytes, next: u64) -> (Bytes, Option<Self>) {
        match Reservation::of_response(&self.client, events) {
            Ok(events) => {
                self.next = next;
                (events, Some(self))
            }
            Err(_) => self.end(End::Busy),
        }
    }

    /// Waits for the log to grow, or returns bytes to send in the meantime.
    async fn wait(&mut self) -> Option<Bytes> {
        let (closing, client) = (self.closing.clone(), self.client.clone());
        tokio::select! {
            changed = self.grown.changed() => match changed {
                Ok(()) => None,
                // The log was dropped; the server raises `closing` next.
                Err(_) => {
                    closing.raised().await;
                    None
                }
            },
            () = closing.raised() => None,
            () = client.activity.unattended() => None,
            () = sleep(HEARTBEAT) => Some(Bytes::from(format!(": {} entries\n\n", self.next))),
        }
    }

    /// Returns the last event, with the index at which to continue.
    fn end(self, why: End) -> (Bytes, Option<Self>) {
        let (name, next) = (why.name(), self.next);
        let event = format!("event: {name}\ndata: {{\"next\":{next}}}\n\n");
        (event.into(), None)
    }
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Behind => "behind",
            End::Busy => "busy",
            End::Unavailable => "unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn where_a_reader_begins() {
        let header = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, HeaderValue::from_static(value));
            headers
        };
        let none = HeaderMap::new();
        assert_eq!(first(None, &none, 7), Ok(7));
        assert_eq!(first(Some("from=0"), &none, 7), Ok(0));
        assert_eq!(first(Some("from=7"), &none, 7), Ok(7));
        // The last event of the reader has precedence over its first index.
        assert_eq!(first(Some("from=0"), &header("4"), 7), Ok(5));
        assert_eq!(first(None, &header("6"), 7), Ok(7));
        let beyond = |next| Err(BadIndex::Beyond { next, size: 7 });
        assert_eq!(first(None, &header("7"), 7), beyond(8));
        assert_eq!(first(Some("from=8"), &none, 7), beyond(8));
        let max = header("18446744073709551615");
        assert_eq!(first(None, &max, 7), beyond(u64::MAX));
        for (query, headers) in [(None, header("x")), (Some("from="), none)] {
            let bad = first(query, &headers, 7);
            assert!(matches!(bad, Err(BadIndex::Number { .. })), "{query:?}");
        }
    }
}
