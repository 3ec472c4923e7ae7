//! Requests to the collector.

use std::time::Duration;

use aws_lc_rs::rand;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use lucarne_net::Client;
use tokio::sync::watch;
use tokio::time::sleep;

use super::protobuf::{Fields, Message, Value, attribute};
use crate::config::OtlpSettings;
use crate::version::VERSION;

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of retries of a request.
const RETRIES: u32 = 3;
/// Maximum pause before the first retry. Each further pause may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause that the collector can request.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of the collector's explanation in a log line.
const MAX_REASON: usize = 200;

/// The collector that receives traces and metrics.
#[derive(Clone)]
pub(super) struct Collector {
    client: Client,
    endpoint: String,
    headers: HeaderMap,
    /// `Resource`: this process.
    resource: Message,
    /// Whether the last request failed, and this was logged.
    failing: bool,
    /// Changes when the exporter stops.
    stopped: watch::Receiver<()>,
}

impl Collector {
    pub(super) fn new(settings: &OtlpSettings, stopped: watch::Receiver<()>) -> Self {
        let mut headers = settings.headers.clone();
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        let mut instance = [0; 16];
        // Without random numbers, all processes have the same instance.
        let _ = rand::fill(&mut instance);
        let instance = hex::encode(instance);
        let resource = [
            ("service.name", settings.service_name.as_str()),
            ("service.version", VERSION),
            ("service.instance.id", instance.as_str()),
        ];
        let resource = resource.map(|(key, value)| attribute(key, value));
        Collector {
            client: Client::of_system(TIMEOUT),
            endpoint: settings.endpoint.clone(),
            headers,
            resource: Message::default().messages(1, resource),
            failing: false,
            stopped,
        }
    }

    /// Sends spans or metrics, which are the second field of their scope. Returns the number of
    /// values that the collector has rejected; `None` if the request failed. Logs only the first of
    /// several failures.
    pub(super) async fn export(&mut self, path: &str, values: &Message) -> Option<u64> {
        let scope = Message::default().text(1, "lucarne").text(2, VERSION);
        let scoped = Message::default().message(1, &scope).append(values);
        let of_resource = Message::default()
            .message(1, &self.resource)
            .message(2, &scoped);
        let body = Message::default().message(1, &of_resource).into_bytes();
        let url = format!("{}{path}", self.endpoint);
        let (rejected, failure) = match self.send(&url, body.into()).await {
            Ok(response) => {
                let rejected = Rejected::of(&response);
                (Some(rejected.count), rejected.in_words())
            }
            Err(failure) => (None, Some(failure)),
        };
        match &failure {
            Some(failure) if !self.failing => tracing::warn!(
                "export to {url} failed: {failure}: traces and metrics are lost until the \
                 collector accepts them"
            ),
            None if self.failing => tracing::info!("export to {url} works again"),
            _ => {}
        }
        self.failing = failure.is_some();
        rejected
    }

    /// Sends a request, and returns the body of the response. Retries while the collector is
    /// overloaded, until the exporter stops.
    ///
    /// # Errors
    /// The reason why the collector has not accepted the request.
    async fn send(&mut self, url: &str, body: Bytes) -> Result<Bytes, String> {
        let mut retries = 0;
        loop {
            let response = self.client.post(url, self.headers.clone(), body.clone());
            let response = response.await.map_err(|error| error.to_string())?;
            if response.status.is_success() {
                return Ok(response.body);
            }
            let requested = response.retry_after.unwrap_or_default();
            let pause = backoff(retries).max(requested);
            let may_retry = is_temporary(response.status) && retries < RETRIES;
            if !may_retry || !self.waited(pause.min(MAX_PAUSE)).await {
                return Err(format!("the status is {}", response.status));
            }
            retries += 1;
        }
    }

    /// Waits before a retry. Returns `false` if the exporter stops.
    async fn waited(&mut self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            _ = self.stopped.changed() => false,
            () = sleep(pause) => true,
        }
    }
}

/// Returns `true` for the statuses that OTLP over HTTP lists as retryable.
fn is_temporary(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns the shortest pause before a retry. A part of the pause is random, so that several
/// servers do not retry at the same time.
fn backoff(retries: u32) -> Duration {
    let half = FIRST_PAUSE * 2_u32.pow(retries) / 2;
    let mut random = [0];
    // Without random numbers, the pause is the shortest one.
    let _ = rand::fill(&mut random);
    half + half * u32::from(random[0]) / u32::from(u8::MAX)
}

/// The values that the collector has rejected in a request that it has accepted
/// (`ExportTracePartialSuccess`, `ExportMetricsPartialSuccess`).
#[derive(Default)]
struct Rejected {
    count: u64,
    reason: String,
}

impl Rejected {
    /// Reads the body of a response. A body without this message rejects nothing.
    fn of(response: &[u8]) -> Self {
        let mut rejected = Rejected::default();
        let partial = Fields(response).find_map(|field| match field {
            (1, Value::Bytes(partial)) => Some(partial),
            _ => None,
        });
        for field in Fields(partial.unwrap_or_default()) {
            match field {
                // A negative number is invalid.
                (1, Value::Number(count)) if i64::try_from(count).is_ok() => {
                    rejected.count = count;
                }
                (2, Value::Bytes(reason)) => {
                    let reason = &reason[..reason.len().min(MAX_REASON)];
                    rejected.reason = String::from_utf8_lossy(reason).into_owned();
                }
                _ => {}
            }
        }
        rejected
    }

    /// Describes the rejection; `None` if the collector has accepted all values.
    fn in_words(&self) -> Option<String> {
        let Rejected { count, reason } = self;
        (*count > 0).then(|| format!("the collector rejected {count} values ({reason:?})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_values_are_read_from_the_response() {
        let response = |count, reason| {
            let partial = Message::default().varint(1, count).text(2, reason);
            Message::default().message(1, &partial).into_bytes()
        };
        let rejected = |response: &[u8]| Rejected::of(response).in_words();
        assert_eq!(
            rejected(&response(3, "quota\n")).unwrap(),
            "the collector rejected 3 values (\"quota\\n\")"
        );
        assert_eq!(rejected(b""), None);
        assert_eq!(rejected(&response(0, "use gzip")), None);
        assert_eq!(rejected(&response(u64::MAX, "")), None);
        assert_eq!(rejected(&[0xff; 20]), None);
    }

    #[test]
    fn pauses_grow() {
        for (retries, longest) in [(0, 1), (1, 2), (2, 4)] {
            let pause = backoff(retries);
            let longest = Duration::from_secs(longest);
            assert!((longest / 2..=longest).contains(&pause), "{pause:?}");
        }
    }
}
