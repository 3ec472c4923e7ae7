//! The log that is loaded: its URLs, origin, key and window, from flags or from its
//! `log.v3.json`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64_simd::STANDARD;
use lucarne_ct::{CheckpointError, CheckpointVerifier, given_public_key};
use lucarne_load::PrepareError;
use lucarne_load::http::{
    Client, ClientOptions, Endpoint, EndpointError, Request, Response, Version,
};
use lucarne_settings::values;
use serde::Deserialize;

use super::TemporalInterval;
use super::checks::{self, Finding};
use super::options::AuditLevel;
use super::sct::excerpt;
use super::tree_heads::unverified;
use crate::option_values::HttpVersion;

/// The options of both scenarios that concern logs.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// URLs of the logs, as monitors read them.
    pub log_url: Vec<String>,
    /// URLs to submit to, where they differ.
    pub write_log_url: Vec<String>,
    /// Origins.
    pub origin: Vec<String>,
    /// Public keys: base64 of DER, or PEM files.
    pub log_public_key: Vec<String>,
    /// The part that is read back.
    pub audit: AuditLevel,
    /// Within which an entry must be covered.
    pub mmd: Duration,
    /// Age at which a checkpoint is stale.
    pub max_checkpoint_age: Duration,
    /// Between two looks at the checkpoint.
    pub checkpoint_interval: Duration,
    /// By which clocks may differ.
    pub clock_tolerance: Duration,
    /// The log may be restarted.
    pub expect_restarts: bool,
    /// Token of every request (`Authorization: Bearer …`).
    pub bearer_token: Option<String>,
    /// Token of submissions, if another one.
    pub bearer_token_write: Option<String>,
    /// Version of HTTP.
    pub http: HttpVersion,
    /// Accept any TLS certificate.
    pub insecure: bool,
    /// More certificates to trust, in PEM.
    pub ca: Vec<PathBuf>,
    /// Longest time for a request.
    pub timeout: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        super::write::CtWriteOptions::default().logs()
    }
}

/// One log, known.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was given: for messages and tags.
    pub url: String,
    /// The submission prefix.
    pub submission: Arc<Endpoint>,
    /// The monitoring prefix.
    pub monitoring: Arc<Endpoint>,
    /// The client's options for reading.
    pub client: Arc<ClientOptions>,
    /// The client's options for submitting.
    pub writer: Arc<ClientOptions>,
    /// The log's name in its checkpoints.
    pub origin: String,
    /// Its SubjectPublicKeyInfo, in DER.
    pub spki: Vec<u8>,
    /// The interval of notAfter that it accepts.
    pub temporal_interval: TemporalInterval,
}

/// `log.v3.json`, as far as it matters here.
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
    /// No log given, none that answers, or one that is not what the options say.
    pub async fn targets(&self) -> Result<Vec<Target>, PrepareError> {
        if self.log_url.is_empty() && self.write_log_url.is_empty() {
            return Err(configuration("no log is given: --log-url URL"));
        }
        let count = self.log_url.len().max(self.write_log_url.len());
        for (name, list) in [
            ("origin", &self.origin),
            ("log-public-key", &self.log_public_key),
        ] {
            if list.len() > count {
                let detail = format!("--{name} is given {} times for {count} logs", list.len());
                return Err(configuration(detail));
            }
        }
        let mut targets = Vec::with_capacity(count);
        for number in 0..count {
            targets.push(self.target(number).await?);
        }
        Ok(targets)
    }

    async fn target(&self, number: usize) -> Result<Target, PrepareError> {
        let write = self.write_log_url.get(number);
        let url = self
            .log_url
            .get(number)
            .or(write)
            .map_or("", String::as_str);
        let client = Arc::new(self.client());
        let given = resolve(url, &client).await?;
        let origin = self.origin.get(number);
        let key = self
            .log_public_key
            .get(number)
            .map(|key| given_public_key(key));
        let key = key
            .transpose()
            .map_err(|error| configuration(error.to_string()))?;
        let complete = origin.is_some() && key.is_some();
        let metadata = metadata(url, &given, &client, complete).await?;
        let (reading, writing) = metadata.prefixes(url);
        let writing = write.map_or(writing, String::as_str);
        let lacking = |what: &str| {
            configuration(format!(
                "{url}/log.v3.json says nothing of the log's {what}: give it as a flag"
            ))
        };
        let target = Target {
            monitoring: resolve(reading, &client).await?,
            submission: resolve(writing, &client).await?,
            origin: origin
                .cloned()
                .or_else(|| metadata.origin())
                .ok_or_else(|| lacking("origin"))?,
            spki: match key {
                Some(key) => key,
                None => metadata.spki().ok_or_else(|| lacking("key"))?,
            },
            temporal_interval: metadata.temporal_interval(),
            url: url.trim_end_matches('/').to_owned(),
            writer: Arc::new(self.writer()),
            client,
        };
        let itself = (metadata.spki(), metadata.origin());
        let known = itself == (Some(target.spki.clone()), Some(target.origin.clone()));
        target.prove(known).await?;
        Ok(target)
    }

    fn client(&self) -> ClientOptions {
        ClientOptions {
            version: match self.http {
                HttpVersion::V1 => Version::Http1,
                HttpVersion::V2 => Version::Http2,
            },
            insecure: self.insecure,
            ca: self.ca.clone(),
            timeout: self.timeout,
            bearer_token: self.bearer_token.clone().filter(|token| !token.is_empty()),
            ..ClientOptions::default()
        }
    }

    fn writer(&self) -> ClientOptions {
        let reading = self.client();
        let token = self.bearer_token_write.clone();
        ClientOptions {
            bearer_token: token
                .filter(|token| !token.is_empty())
                .or_else(|| reading.bearer_token.clone()),
            ..reading
        }
    }
}

impl Target {
    /// Reads a checkpoint: whoever answers is this log. If not, that is a mistake in what
    /// was asked for; unless the answer has said itself that it is a log (`known`), or is
    /// signed by the key that was named: then the log is at fault.
    async fn prove(&self, known: bool) -> Result<(), PrepareError> {
        let verifier = CheckpointVerifier::new(&self.origin, &self.spki)
            .map_err(|error| configuration(format!("the key of {}: {error}", self.url)))?;
        let response = self.get("checkpoint").await?;
        if response.status != 200 {
            let said = format!("status {}: {}", response.status, excerpt(&response.body));
            if known || refuses(response.status) {
                let finding = Finding::new(checks::CHECKPOINT_SERVED, said);
                return Err(faulty(&self.url, finding));
            }
            return Err(configuration(format!(
                "{}/checkpoint: {said}; is this the monitoring prefix of a static CT log?",
                self.url
            )));
        }
        verifier.verify(&response.body).map(drop).map_err(|error| {
            if known || matches!(error, CheckpointError::Signature) {
                return faulty(&self.url, unverified(&error));
            }
            let advice = match error {
                CheckpointError::Origin { .. } => "; --origin names the log",
                CheckpointError::Unsigned | CheckpointError::Signature => {
                    "; --log-public-key is another log's, or this is not the log"
                }
                _ => "; is this the monitoring prefix of a static CT log?",
            };
            configuration(format!("{}/checkpoint: {error}{advice}", self.url))
        })
    }

    /// One answer from below the monitoring prefix. A log that is just starting
    /// (503) is waited for.
    async fn get(&self, path: &str) -> Result<Response, PrepareError> {
        let mut client = Client::new(Arc::clone(&self.monitoring), Arc::clone(&self.client));
        let path = format!("{}/{path}", self.monitoring.prefix);
        for _ in 0..20 {
            let response = ask(&mut client, &self.url, &path).await?;
            if response.status != 503 {
                return Ok(response);
            }
            // A log that is just starting: twenty times is five seconds.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        ask(&mut client, &self.url, &path).await
    }

    /// The certificates that the log accepts chains by, in base64; `None` if it
    /// does not say.
    pub(crate) async fn roots(&self) -> Result<Option<Vec<String>>, PrepareError> {
        #[derive(Deserialize)]
        struct Answer {
            certificates: Vec<String>,
        }
        let mut client = Client::new(Arc::clone(&self.submission), Arc::clone(&self.writer));
        let path = format!("{}/ct/v1/get-roots", self.submission.prefix);
        let response = ask(&mut client, &self.url, &path).await?;
        let answer = serde_json::from_slice::<Answer>(&response.body);
        Ok(answer
            .ok()
            .filter(|_| response.status == 200)
            .map(|answer| answer.certificates))
    }
}

async fn ask(client: &mut Client, url: &str, path: &str) -> Result<Response, PrepareError> {
    let response = client.send(&Request::get(path)).await;
    match &response.exchange.outcome {
        Ok(()) => Ok(response),
        Err(failure) => Err(PrepareError::Unreachable(format!(
            "{url}: {}",
            failure.detail
        ))),
    }
}

async fn resolve(url: &str, options: &ClientOptions) -> Result<Arc<Endpoint>, PrepareError> {
    Endpoint::resolve(url, options)
        .await
        .map_err(|error| match error {
            EndpointError::Dns { .. } => PrepareError::Unreachable(error.to_string()),
            _ => configuration(error.to_string()),
        })
}

/// `log.v3.json`. `optional`: everything is known without it.
async fn metadata(
    url: &str,
    endpoint: &Arc<Endpoint>,
    options: &Arc<ClientOptions>,
    optional: bool,
) -> Result<LogMetadata, PrepareError> {
    let mut client = Client::new(Arc::clone(endpoint), Arc::clone(options));
    let path = format!("{}/log.v3.json", endpoint.prefix);
    let response = ask(&mut client, url, &path).await?;
    let parsed = match response.status {
        200 => serde_json::from_slice(&response.body).map_err(|error| error.to_string()),
        status => Err(format!("status {status}")),
    };
    match parsed {
        Ok(metadata) => Ok(metadata),
        Err(_) if optional => Ok(LogMetadata::default()),
        Err(reason) if refuses(response.status) => {
            let finding = Finding::new(checks::METADATA_SERVED, format!("log.v3.json: {reason}"));
            Err(faulty(url, finding))
        }
        Err(reason) => Err(configuration(format!(
            "{}/log.v3.json: {reason}; give --origin and --log-public-key, or the URL of a static CT log",
            url.trim_end_matches('/')
        ))),
    }
}

/// Returns whether a status says that the target does not serve now, whatever was asked for.
fn refuses(status: u16) -> bool {
    matches!(status, 403 | 429 | 500..)
}

impl LogMetadata {
    fn spki(&self) -> Option<Vec<u8>> {
        STANDARD.decode_to_vec(self.key.as_deref()?).ok()
    }

    /// The submission prefix without scheme and trailing slash (static-ct-api,
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

    /// The prefixes to read from and to write to. The URL that was given is used for
    /// both, whatever the log calls itself: it may stand behind a proxy. Only
    /// a log with two different prefixes, of which one was given, has the other
    /// one from here.
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

/// The log is not as it must be.
pub(crate) fn faulty(url: &str, finding: Finding) -> PrepareError {
    PrepareError::Faulty {
        check: finding.check,
        detail: format!("{url}: {}", finding.detail),
    }
}

pub(crate) fn configuration(detail: impl Into<String>) -> PrepareError {
    PrepareError::Configuration(detail.into())
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
