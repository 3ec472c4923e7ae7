//! State that all users of the scenario share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use lucarne_load::PrepareError;
use lucarne_load::http::{Client, ClientOptions, Endpoint, Handshake};
use parking_lot::Mutex;

use super::certificate::Examiner;
use super::options::TlsScenarioOptions;
use crate::connection_options::{StatusRange, expected, wrong};
use crate::url_characters;

/// State that all users share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) seed: u64,
    pub(super) jitter: Duration,
    /// Request to send after the handshake.
    pub(super) request: Option<Request>,
    pub(super) options: TlsScenarioOptions,
    pub(super) client: Arc<ClientOptions>,
    pub(super) ready: OnceLock<(Arc<Endpoint>, Examiner)>,
    /// Number of handshakes of each kind.
    pub(super) handshakes: Mutex<BTreeMap<String, u64>>,
}

/// The request after the handshake.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) expect: Vec<StatusRange>,
    pub(super) headers: Vec<(String, String)>,
}

impl SharedState {
    pub(super) fn new(options: TlsScenarioOptions, seed: u64) -> Result<Self, PrepareError> {
        match options.url.as_str() {
            "" => return Err(wrong("`--url` (`url` in a plan) is missing")),
            url if !url.starts_with("https://") => {
                return Err(wrong(format!("`{url}` must begin with https://")));
            }
            _ => {}
        }
        Ok(Self {
            seed,
            jitter: options.jitter.0,
            request: request(&options)?,
            client: Arc::new(ClientOptions {
                // The certificate is checked afterwards, with more checks.
                insecure: true,
                ca: Vec::new(),
                keepalive: false,
                ..options.handshake.clone().client(&options.connection)?
            }),
            options,
            ready: OnceLock::new(),
            handshakes: Mutex::default(),
        })
    }

    /// Returns a new client; `None` before the server has been resolved.
    pub(super) fn client(&self) -> Option<Client> {
        let (endpoint, _) = self.ready.get()?;
        Some(Client::new(endpoint.clone(), self.client.clone()))
    }

    pub(super) fn examiner(&self) -> Option<&Examiner> {
        self.ready.get().map(|(_, examiner)| examiner)
    }

    /// Counts a handshake, for the note at the end.
    pub(super) fn count(&self, handshake: &Handshake) {
        let kind = if handshake.resumed { "resumed" } else { "full" };
        let group = handshake.group.as_deref().unwrap_or("no key exchange");
        let how = format!(
            "{kind}: {}, {}, {group}",
            handshake.version, handshake.suite
        );
        *self.handshakes.lock().entry(how).or_default() += 1;
    }
}

pub(super) fn request(options: &TlsScenarioOptions) -> Result<Option<Request>, PrepareError> {
    let Some(path) = &options.path else {
        return if options.headers.is_empty() && options.expect.is_empty() {
            Ok(None)
        } else {
            Err(wrong(
                "`headers` and `expect` apply to a request: set `path`",
            ))
        };
    };
    if !path.starts_with('/') {
        return Err(wrong(format!("the path `{path}` must begin with a slash")));
    }
    url_characters::check(path).map_err(|error| wrong(format!("path: {error}")))?;
    let method = Method::from_bytes(options.method.to_uppercase().as_bytes());
    let headers = options.headers.iter();
    Ok(Some(Request {
        method: method.map_err(|_| wrong(format!("`{}` is not an HTTP method", options.method)))?,
        path: path.clone(),
        expect: expected(&options.expect),
        headers: headers
            .map(|header| (header.0.clone(), header.1.clone()))
            .collect(),
    }))
}
