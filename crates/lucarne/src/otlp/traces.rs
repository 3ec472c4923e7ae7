//! Traces of submissions: the parent of a request, sampling, and spans.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use http::HeaderMap;
use lucarne_http::{Trace, TracedSubmission, Tracer};
use lucarne_log::StepTime;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc::Sender;

use super::protobuf::{Message, attribute, number};

/// Header field with the parent of a trace (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";
/// Length of version, trace, span and flags in `traceparent`.
const LENGTH: usize = 55;
/// `Span.SpanKind`.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
/// `Status.StatusCode` of a failure.
const ERROR: u64 = 2;

/// The spans of a finished submission.
pub(super) struct FinishedTrace {
    /// A part of `ScopeSpans`.
    pub(super) spans: Message,
    /// Number of spans.
    pub(super) count: u64,
}

/// Traces submissions. If the queue is full, traces are dropped and counted.
pub(super) struct Traces {
    /// Random trace identifiers below this number are sampled.
    threshold: u64,
    queue: Sender<FinishedTrace>,
    dropped: Counter,
}

impl Traces {
    /// Creates a tracer that samples this part, from 0 to 1, of the submissions without a parent.
    pub(super) fn new(ratio: f64, queue: Sender<FinishedTrace>, dropped: Counter) -> Self {
        Traces {
            threshold: (ratio * (1_u64 << 63) as f64) as u64,
            queue,
            dropped,
        }
    }

    /// Returns a new trace identifier, if its trace is sampled.
    fn sampled(&self) -> Option<[u8; 16]> {
        if self.threshold == 0 {
            // Random numbers cost time.
            return None;
        }
        let mut id = [0; 16];
        rand::fill(&mut id).ok()?;
        let low = id[8..]
            .iter()
            .fold(0, |low, byte| low << 8 | u64::from(*byte));
        (low >> 1 < self.threshold).then_some(id)
    }
}

impl Tracer for Traces {
    fn begin(&self, headers: &HeaderMap) -> Option<Box<dyn Trace>> {
        let (trace, parent) = match Parent::of(headers) {
            Some(parent) if parent.sampled => (parent.trace, Some(parent.span)),
            Some(_) => return None,
            None => (self.sampled()?, None),
        };
        Some(Box::new(Submission {
            trace,
            parent,
            begun: Instant::now(),
            begun_unix_ns: unix_ns(SystemTime::now()),
            queue: self.queue.clone(),
            dropped: self.dropped.clone(),
        }))
    }
}

/// Returns a time in nanoseconds since 1970.
pub(super) fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The span of the client, from `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Parent {
    /// Returns the parent of a request. A request with an invalid parent has none, as the
    /// specification requires.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?.as_bytes();
        if values.next().is_some() {
            return None;
        }
        Self::parse(value)
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] =
            [&known[..2], &known[3..35], &known[36..52], &known[53..]];
        let is_separated = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        // Later versions may have more fields.
        let is_complete = more.is_empty() || (version != b"00" && more[0] == b'-');
        let [version] = hexadecimal(version)?;
        let (trace, span) = (hexadecimal(trace)?, hexadecimal(span)?);
        let [flags] = hexadecimal(flags)?;
        let is_valid = version != 0xff && trace != [0; 16] && span != [0; 8];
        (is_separated && is_complete && is_valid).then_some(Parent {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

/// Parses lower-case hexadecimal digits; upper case is not allowed.
fn hexadecimal<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.iter().any(u8::is_ascii_uppercase);
    hex::decode_to_slice(text, &mut bytes).ok()?;
    is_lower.then_some(bytes)
}

/// A submission in progress.
struct Submission {
    trace: [u8; 16],
    parent: Option<[u8; 8]>,
    begun: Instant,
    begun_unix_ns: u64,
    queue: Sender<FinishedTrace>,
    dropped: Counter,
}

impl Trace for Submission {
    fn end(self: Box<Self>, submission: TracedSubmission<'_>) {
        let count = submission.steps.len() as u64 + 1;
        let sent = self.spans(&submission).is_some_and(|spans| {
            let finished = FinishedTrace { spans, count };
            self.queue.try_send(finished).is_ok()
        });
        if !sent {
            self.dropped.inc_by(count);
        }
    }
}

impl Submission {
    /// Returns the span of the submission and the spans of its steps; `None` without random
    /// identifiers.
    fn spans(&self, submission: &TracedSubmission<'_>) -> Option<Message> {
        let mut ids = vec![0; 8 * (submission.steps.len() + 1)];
        rand::fill(&mut ids).ok()?;
        let (own, of_steps) = ids.split_at(8);
        let status = submission.status;
        let mut root = self.span(own, self.parent.as_ref().map(|span| &span[..]));
        root = root
            .text(5, submission.name)
            .varint(6, SERVER)
            .fixed(7, self.begun_unix_ns)
            .fixed(8, self.unix_ns(Instant::now()))
            .message(9, &attribute("lucarne.log", submission.log))
            .message(
                9,
                &attribute("lucarne.request_id", &submission.id.to_string()),
            )
            .message(9, &attribute("http.request.method", "POST"))
            .message(
                9,
                &number("http.response.status_code", status.as_u16().into()),
            );
        if status.is_server_error() {
            root = root.message(15, &Message::default().varint(3, ERROR));
        }
        let steps = submission.steps.iter().zip(of_steps.chunks(8));
        let steps = steps.map(|(step, id)| self.step(step, id, own));
        Some(Message::default().message(2, &root).messages(2, steps))
    }

    fn step(&self, step: &StepTime, id: &[u8], root: &[u8]) -> Message {
        self.span(id, Some(root))
            .text(5, step.name)
            .varint(6, INTERNAL)
            .fixed(7, self.unix_ns(step.start))
            .fixed(8, self.unix_ns(step.end))
    }

    fn span(&self, id: &[u8], parent: Option<&[u8]>) -> Message {
        let span = Message::default().bytes(1, &self.trace).bytes(2, id);
        match parent {
            Some(parent) => span.bytes(4, parent),
            None => span,
        }
    }

    fn unix_ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.begun).as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.begun_unix_ns.saturating_add(since)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_as_w3c_specifies() {
        let parent = Parent::parse(VALID.as_bytes()).unwrap();
        assert_eq!(hex::encode(parent.trace), VALID[3..35]);
        assert_eq!(hex::encode(parent.span), VALID[36..52]);
        assert!(parent.sampled);
        let unsampled = VALID.replace("-01", "-00");
        assert!(!Parent::parse(unsampled.as_bytes()).unwrap().sampled);
        let later = VALID.replacen("00-", "cc-", 1) + "-more";
        assert_eq!(Parent::parse(later.as_bytes()), Some(parent));
        for invalid in [
            VALID.replacen("00-", "ff-", 1),
            VALID.replace("af7", "AF7"),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            VALID.replace("-b7", "_b7"),
            format!("{VALID}-more"),
            VALID[..54].to_owned(),
            String::new(),
        ] {
            assert_eq!(Parent::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn the_ratio_decides_only_without_a_parent() {
        let traced = |ratio, headers: &HeaderMap| {
            let (queue, _finished) = mpsc::channel(1);
            Traces::new(ratio, queue, Counter::default())
                .begin(headers)
                .is_some()
        };
        let (none, mut sampled, mut unsampled) =
            (HeaderMap::new(), HeaderMap::new(), HeaderMap::new());
        sampled.insert(TRACEPARENT, VALID.parse().unwrap());
        unsampled.insert(TRACEPARENT, VALID.replace("-01", "-00").parse().unwrap());
        assert!(traced(1.0, &none) && !traced(0.0, &none));
        assert!(traced(0.0, &sampled) && !traced(1.0, &unsampled));
    }

    #[test]
    fn a_full_queue_drops_spans_and_counts_them() {
        let (queue, mut finished) = mpsc::channel(1);
        let dropped = Counter::default();
        let traces = Traces::new(1.0, queue, dropped.clone());
        for _ in 0..3 {
            let trace = traces.begin(&HeaderMap::new()).unwrap();
            trace.end(TracedSubmission {
                name: "add-chain",
                log: "test",
                id: lucarne_net::RequestId::new(),
                status: http::StatusCode::OK,
                steps: Vec::new(),
            });
        }
        assert_eq!(dropped.get(), 2);
        assert_eq!(finished.try_recv().unwrap().count, 1);
    }
}
