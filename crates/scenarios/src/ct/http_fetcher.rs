//! Access to a log over HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError};
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request, Response};
use tokio::sync::{Mutex, Semaphore};

use super::checks::TaggedRecorder;
use super::fetch::{self, FetchError, Unreachable};
use super::headers;
use super::outage::Outage;
use crate::preparing::{self, Retries};

/// Concurrent connections for reading tiles.
const CONNECTIONS: usize = 4;

/// Reader of a log's monitoring prefix. The requests of this reader do not count as load.
///
/// A read that is not polled keeps one of the connections. A caller must not wait for another read
/// in that time.
pub struct HttpFetcher {
    clients: Vec<Mutex<Client>>,
    /// Permits, one for each client.
    idle: Semaphore,
    reading: Reading,
}

/// Parts of a reader that all its connections share.
struct Reading {
    prefix: Arc<str>,
    outage: Arc<Outage>,
    /// Recorder of the checks of headers; `None` before the load.
    told: Option<TaggedRecorder>,
    /// The retries before the load begins.
    retries: Option<Retries>,
    /// Whether the status 429 postpones a request, and is not a finding.
    is_patient: bool,
}

/// Content coding that the monitor requests: logs usually store data tiles in gzip.
const ACCEPT: &str = "gzip";

impl HttpFetcher {
    /// Creates a reader of `endpoint`, whose path is the log's monitoring prefix. Reports failed
    /// and successful requests to `outage`.
    pub fn new(
        endpoint: &Arc<Endpoint>,
        options: &Arc<ClientOptions>,
        outage: Arc<Outage>,
    ) -> Self {
        let client = || Mutex::new(Client::new(Arc::clone(endpoint), Arc::clone(options)));
        Self {
            clients: (0..CONNECTIONS).map(|_| client()).collect(),
            idle: Semaphore::new(CONNECTIONS),
            reading: Reading {
                prefix: endpoint.prefix.as_str().into(),
                outage,
                told: None,
                retries: None,
                is_patient: false,
            },
        }
    }

    /// Reports a response with the status 429 as [`Unreachable::Status`], for a monitor that waits.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.reading.is_patient = true;
        self
    }

    /// Enables retries, because the load has not started.
    pub(crate) fn preparing(mut self, retries: Retries) -> Self {
        self.reading.retries = Some(retries);
        self
    }

    /// Records the checks of response headers.
    pub(crate) fn telling(mut self, tagged: TaggedRecorder) -> Self {
        self.reading.told = Some(tagged);
        self
    }
}

impl Reading {
    async fn get(&self, client: &mut Client, path: &str) -> Result<Bytes, FetchError> {
        let target = format!("{}/{path}", self.prefix);
        let headers = [("accept-encoding", ACCEPT), headers::ORIGIN];
        let request = fetch::limited(Request::get(&target).headers(&headers), path);
        let response = match self.retries {
            Some(retries) => preparing::send(client, &request, retries).await,
            None => client.send(&request).await,
        };
        if let Some(tagged) = self.told.as_ref().filter(|_| response.is(&[200])) {
            for (check, outcome) in headers::examine(path, &response.headers, true) {
                let outcome = outcome.map_err(|error| format!("{path}: {error}"));
                tagged.check(check, outcome);
            }
        }
        if self.is_patient && response.status == 429 {
            return Err(Unreachable::of_status(path, &response).into());
        }
        judge(path, ACCEPT, &self.outage, response)
    }
}

/// Returns the decoded file in a response, or the reason why there is no file.
pub(crate) fn judge(
    path: &str,
    accept: &str,
    outage: &Outage,
    response: Response,
) -> Result<Bytes, FetchError> {
    match &response.exchange.outcome {
        Err(failure) if response.is_too_long && response.status == 200 => {
            outage.answered();
            return Err(fetch::too_long(path, &failure.detail).into());
        }
        // The status decides, and the body is only part of a message.
        Err(_) if response.is_too_long => {}
        Err(failure) => {
            outage.request_failed(response.exchange.started);
            let (path, source) = (path.to_owned(), failure.clone());
            return Err(Unreachable::NoResponse { path, source }.into());
        }
        Ok(()) => {}
    }
    if outage.expected() && matches!(response.status, 502..=504) {
        outage.request_failed(response.exchange.started);
        return Err(Unreachable::of_status(path, &response).into());
    }
    outage.answered();
    if response.status != 200 {
        return Err(fetch::not_served(path, response.status, &response.body).into());
    }
    let coding = response.headers.get("content-encoding");
    Ok(fetch::decoded(path, coding, accept, response.body.clone())?)
}

#[async_trait]
impl Source for HttpFetcher {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let _permit = self.idle.acquire().await;
        // With a permit, at least one client is not in use.
        let client = self
            .clients
            .iter()
            .find_map(|client| client.try_lock().ok());
        let no_client = || SourceError::unavailable("there is no connection to the log");
        let mut client = client.ok_or_else(no_client)?;
        Ok(Some(self.reading.get(&mut client, path).await?))
    }
}
