//! Target log of the load: its URLs, origin, key and temporal interval, from flags or from its
//! `log.v3.json`.

use std::sync::Arc;

use base64_simd::STANDARD;
use lucarne_ct::{CheckpointError, CheckpointVerifier, given_public_key};
use lucarne_load::PrepareError;
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request, Response};
use lucarne_settings::values;
use serde::Deserialize;

use super::TemporalInterval;
use super::checks::{self, Finding};
use super::fetch;
use super::options::{LogOptions, SubmissionOptions};
use super::sct::excerpt;
use super::tree_heads::unverified;
use crate::connection_options::wrong;
use crate::preparing::{self, Retries};

/// A log whose parameters are known.
#[derive(Clone, Debug)]
pub struct Target {
    /// The configured URL, for messages and tags.
    pub url: String,
    /// Submission prefix.
    pub submission: Arc<Endpoint>,
    /// Monitoring prefix.
    pub monitoring: Arc<Endpoint>,
    /// Client options for reading.
    pub client: Arc<ClientOptions>,
    /// Client options for submissions.
    pub writer: Arc<ClientOptions>,
    /// Name of the log in its checkpoints.
    pub origin: String,
    /// SubjectPublicKeyInfo of the log in DER.
    pub spki: Vec<u8>,
    /// Interval of notAfter that the log accepts.
    pub temporal_interval: TemporalInterval,
    /// The retries of requests before the load begins.
    pub(crate) retries: Retries,
}

/// The used fields of `log.v3.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LogMetadata {
    key: Option<String>,
    submission_url: Option<String>,
    monitoring_url: Option<String>,
    temporal_interval: Option<LogInterval>,
}

#[derive(Debug, Deserialize)]
struct LogInterval {
    start_inclusive: String,
    end_exclusive: String,
}

impl LogOptions {
    /// Finds all logs and reads a checkpoint of each.
    ///
    /// # Errors
    /// If no log is configured, a log does not respond, or it contradicts the options.
    pub async fn targets(&self, to: &SubmissionOptions) -> Result<Vec<Target>, PrepareError> {
        if self.log_url.is_empty() && to.write_log_url.is_empty() {
            return Err(wrong("no log is configured: use --log-url URL"));
        }
        let count = self.log_url.len().max(to.write_log_url.len());
        for (name, list) in [
            ("origin", &self.origin),
            ("log-public-key", &self.log_public_key),
        ] {
            if list.len() > count {
                let detail = format!("--{name} is given {} times for {count} logs", list.len());
                return Err(wrong(detail));
            }
        }
        let retries = Retries::over_restarts(self.expect_restarts);
        let mut targets = Vec::with_capacity(count);
        for number in 0..count {
            targets.push(self.target(number, to, retries).await?);
        }
        Ok(targets)
    }

    /// Finds the first log for a monitor, and reads its checkpoint. A log that limits requests, or
    /// that is being restarted, is unreachable, and not faulty.
    ///
    /// # Errors
    /// If the log does not respond, or contradicts the options.
    pub async fn monitored(&self) -> Result<Target, PrepareError> {
        let to = SubmissionOptions::default();
        self.target(0, &to, Retries::OfMonitor).await
    }

    async fn target(
        &self,
        number: usize,
        to: &SubmissionOptions,
        retries: Retries,
    ) -> Result<Target, PrepareError> {
        let write = to.write_log_url.get(number);
        let url = self
            .log_url
            .get(number)
            .or(write)
            .map_or("", String::as_str);
        let client = Arc::new(self.client());
        let given = Endpoint::resolve(url, &client).await?;
        let origin = self.origin.get(number);
        let key = self
            .log_public_key
            .get(number)
            .map(|key| given_public_key(key));
        let key = key.transpose().map_err(wrong)?;
        let complete = origin.is_some() && key.is_some();
        let mut reader = Client::new(given, Arc::clone(&client));
        let metadata = metadata(url, &mut reader, retries, complete).await?;
        let (reading, writing) = metadata.prefixes(url);
        let writing = write.map_or(writing, String::as_str);
        let lacking = |what: &str| {
            wrong(format!(
                "{url}/log.v3.json has no {what} of the log: use --origin or --log-public-key"
            ))
        };
        let target = Target {
            monitoring: Endpoint::resolve(reading, &client).await?,
            submission: Endpoint::resolve(writing, &client).await?,
            origin: origin
                .cloned()
                .or_else(|| metadata.origin())
                .ok_or_else(|| lacking("origin"))?,
            spki: match key {
                Some(key) => key,
                None => metadata.spki().ok_or_else(|| lacking("key"))?,
            },
            temporal_interval: metadata.temporal_interval(),
            retries,
            url: url.trim_end_matches('/').to_owned(),
            writer: Arc::new(self.writer(to)),
            client,
        };
        let itself = (metadata.spki(), metadata.origin());
        let known = itself == (Some(target.spki.clone()), Some(target.origin.clone()));
        target.prove(known).await?;
        Ok(target)
    }
}

impl Target {
    /// Reads a checkpoint to prove that the server is this log. A failure is usually an error of
    /// the configuration. A failure is a fault of the log if the server has identified itself as a
    /// log (`known`), or if the checkpoint has the configured key's signature.
    async fn prove(&self, known: bool) -> Result<(), PrepareError> {
        let verifier = CheckpointVerifier::new(&self.origin, &self.spki)
            .map_err(|error| wrong(format!("the key of {}: {error}", self.url)))?;
        let response = self.get("checkpoint").await?;
        if response.status != 200 {
            let said = format!("status {}: {}", response.status, excerpt(&response.body));
            if self.retries.counts_as_away(response.status) {
                let why = format!("{}/checkpoint: {said}", self.url);
                return Err(PrepareError::Unreachable(why));
            }
            if known || refuses(response.status) {
                let finding = Finding::new(checks::CHECKPOINT_SERVED, said);
                return Err(faulty(&self.url, finding));
            }
            return Err(wrong(format!(
                "{}/checkpoint: {said}; is this the monitoring prefix of a static CT log?",
                self.url
            )));
        }
        if let Err(failure) = &response.exchange.outcome {
            if known {
                let finding = fetch::too_long("checkpoint", &failure.detail);
                return Err(faulty(&self.url, finding));
            }
            return Err(wrong(format!(
                "{}/checkpoint: {}; is this the monitoring prefix of a static CT log?",
                self.url, failure.detail
            )));
        }
        verifier.verify(&response.body).map(drop).map_err(|error| {
            if known
                || matches!(
                    error,
                    CheckpointError::Signature | CheckpointError::NoTimestamp(_)
                )
            {
                return faulty(&self.url, unverified(&error));
            }
            let advice = match error {
                CheckpointError::Origin { .. } => "; correct --origin, which names the log",
                CheckpointError::Unsigned => {
                    "; --log-public-key belongs to another log, or --log-url is wrong"
                }
                _ => "; is this the monitoring prefix of a static CT log?",
            };
            wrong(format!("{}/checkpoint: {error}{advice}", self.url))
        })
    }

    /// Requests `path` below the monitoring prefix.
    async fn get(&self, path: &str) -> Result<Response, PrepareError> {
        let mut client = Client::new(Arc::clone(&self.monitoring), Arc::clone(&self.client));
        let target = format!("{}/{path}", self.monitoring.prefix);
        let request = fetch::limited(Request::get(&target), path);
        ask(&mut client, &self.url, &request, self.retries).await
    }

    /// Returns the roots that the log accepts, in base64; `None` if the log does not publish roots.
    pub(crate) async fn roots(&self) -> Result<Option<Vec<String>>, PrepareError> {
        #[derive(Deserialize)]
        struct Answer {
            certificates: Vec<String>,
        }
        let mut client = Client::new(Arc::clone(&self.submission), Arc::clone(&self.writer));
        let path = format!("{}/ct/v1/get-roots", self.submission.prefix);
        let request = Request::get(&path);
        let response = ask(&mut client, &self.url, &request, self.retries).await?;
        if let Err(failure) = &response.exchange.outcome {
            return Err(PrepareError::of_request(&self.url, failure));
        }
        let answer = serde_json::from_slice::<Answer>(&response.body);
        Ok(answer
            .ok()
            .filter(|_| response.status == 200)
            .map(|answer| answer.certificates))
    }
}

/// Sends a request. The body of the response is incomplete if it exceeds the limit of the request.
async fn ask(
    client: &mut Client,
    url: &str,
    request: &Request<'_>,
    retries: Retries,
) -> Result<Response, PrepareError> {
    let response = preparing::send(client, request, retries).await;
    match &response.exchange.outcome {
        Err(failure) if !response.is_too_long => Err(PrepareError::of_request(url, failure)),
        _ => Ok(response),
    }
}

/// The reasons why a log has no usable `log.v3.json`.
#[derive(Debug, thiserror::Error)]
enum MetadataError {
    #[error("expected status 200, found {0}")]
    Status(u16),
    #[error("{0}")]
    TooLong(String),
    #[error("the description of the log cannot be parsed: {0}")]
    Json(#[source] serde_json::Error),
}

/// Reads `log.v3.json`. If `optional`, the other options are sufficient without this file.
async fn metadata(
    url: &str,
    client: &mut Client,
    retries: Retries,
    optional: bool,
) -> Result<LogMetadata, PrepareError> {
    let path = format!("{}/log.v3.json", client.endpoint().prefix);
    let request = fetch::limited(Request::get(&path), "log.v3.json");
    let response = ask(client, url, &request, retries).await?;
    let parsed = match (&response.exchange.outcome, response.status) {
        (Err(failure), 200) => Err(MetadataError::TooLong(failure.detail.clone())),
        (_, 200) => serde_json::from_slice(&response.body).map_err(MetadataError::Json),
        (_, status) => Err(MetadataError::Status(status)),
    };
    match parsed {
        Ok(metadata) => Ok(metadata),
        Err(_) if optional => Ok(LogMetadata::default()),
        Err(error) if retries.counts_as_away(response.status) => {
            let why = format!("{}/log.v3.json: {error}", url.trim_end_matches('/'));
            Err(PrepareError::Unreachable(why))
        }
        Err(error) if refuses(response.status) => {
            let finding = Finding::new(checks::METADATA_SERVED, format!("log.v3.json: {error}"));
            Err(faulty(url, finding))
        }
        Err(error) => Err(wrong(format!(
            "{}/log.v3.json: {error}; give --origin and --log-public-key, or the URL of a static CT log",
            url.trim_end_matches('/')
        ))),
    }
}

/// Returns whether the status means that the server refuses all requests now.
fn refuses(status: u16) -> bool {
    matches!(status, 403 | 429 | 500..)
}

impl LogMetadata {
    fn spki(&self) -> Option<Vec<u8>> {
        STANDARD.decode_to_vec(self.key.as_deref()?).ok()
    }

    /// Returns the submission prefix without scheme and trailing slash (static-ct-api,
    /// "Checkpoints").
    fn origin(&self) -> Option<String> {
        let (_, rest) = self.submission_url.as_deref()?.split_once("://")?;
        Some(rest.trim_end_matches('/').to_owned())
    }

    fn temporal_interval(&self) -> TemporalInterval {
        let interval = self.temporal_interval.as_ref();
        let seconds = |text: &String| values::time(text).ok().map(|ms| (ms / 1000) as i64);
        TemporalInterval {
            start: interval.and_then(|interval| seconds(&interval.start_inclusive)),
            end: interval.and_then(|interval| seconds(&interval.end_exclusive)),
        }
    }

    /// Returns the prefixes for reading and for writing. The configured URL is used for both, even
    /// if the log publishes other URLs, because it may be a proxy. If the log publishes two
    /// different prefixes and the configured URL is one of them, both published prefixes are used.
    fn prefixes<'a>(&'a self, given: &'a str) -> (&'a str, &'a str) {
        let bare = |url: &'a str| url.trim_end_matches('/');
        match (&self.monitoring_url, &self.submission_url) {
            (Some(reading), Some(writing))
                if bare(reading) == bare(given) || bare(writing) == bare(given) =>
            {
                (reading, writing)
            }
            _ => (given, given),
        }
    }
}

/// Returns the error for a log that fails a check.
pub(crate) fn faulty(url: &str, finding: Finding) -> PrepareError {
    PrepareError::Faulty {
        check: finding.check,
        detail: format!("{url}: {}", finding.detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> LogMetadata {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_log_says_what_it_is() {
        let metadata = parse(
            r#"{"key":"AAEC","submission_url":"https://log.example/2026h2/",
                "monitoring_url":"https://mon.example/2026h2/","description":"more",
                "temporal_interval":{"start_inclusive":"2026-07-01T00:00:00Z",
                "end_exclusive":"2027-01-01T00:00:00Z"}}"#,
        );
        assert_eq!(metadata.origin().unwrap(), "log.example/2026h2");
        assert_eq!(metadata.spki().unwrap(), [0, 1, 2]);
        assert_eq!(metadata.temporal_interval().start, Some(1_782_864_000));
        let both = ("https://mon.example/2026h2/", "https://log.example/2026h2/");
        assert_eq!(metadata.prefixes("https://mon.example/2026h2"), both);
        let proxy = "http://127.0.0.1:7";
        assert_eq!(metadata.prefixes(proxy), (proxy, proxy));
        assert_eq!(parse("{}").origin(), None);
    }
}
