//! A record in progress.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::header::{CONTENT_LOCATION, LOCATION, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, Request, StatusCode, Version};
use jiff::Timestamp;
use lucarne_net::{HIDDEN, RequestId, is_secret, url_without_secrets, without_secrets};
use rustls::{CommonState, ProtocolVersion};

use super::{ClientTls, Record, RecordAction, Recorder, Tap};
use crate::core::Core;
use crate::failure::Failure;
use crate::session::Session;
use crate::target::Target;

/// Headers and bodies of an exchange, for HAR.
#[derive(Debug, Default)]
pub struct Details {
    /// The request of the client.
    pub request: Content,
    /// The response to the client.
    pub response: Content,
}

/// Headers and body of a message.
#[derive(Debug, Default)]
pub struct Content {
    /// Header fields in order.
    pub headers: Vec<(String, String)>,
    /// The body or its start, and whether the body is complete; `None` if bodies are not recorded.
    pub body: Option<(Vec<u8>, bool)>,
}

impl Content {
    /// Returns the value of the first field with this name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Name of the user of a request, as an extension of the request.
#[derive(Clone)]
pub(crate) struct ProxyUser(pub(crate) Arc<str>);

/// The record of an exchange that has not ended. Ends when it is dropped.
pub(crate) struct Recording {
    /// Receiver of the record; `None` drops it.
    recorder: Option<Arc<Recorder>>,
    record: Record,
    begun: Instant,
    /// Bytes from the client.
    pub(crate) request: Arc<Tap>,
    /// Bytes to the client.
    pub(crate) response: Arc<Tap>,
    details: Option<Details>,
}

/// Returns the taps of a recording, or taps whose counts are ignored.
pub(crate) fn taps(recording: Option<&Recording>) -> (Arc<Tap>, Arc<Tap>) {
    recording.map_or_else(Default::default, |recording| {
        (recording.request.clone(), recording.response.clone())
    })
}

impl Recording {
    /// Starts the record of a request. Returns `None` if the proxy records nothing.
    pub(crate) fn of_request<B>(
        session: &Session,
        request: &Request<B>,
        id: RequestId,
    ) -> Option<Box<Self>> {
        let recorder = session.core.recorder.as_ref()?;
        let action = match &session.fixed {
            Some(_) => RecordAction::Intercept,
            None => RecordAction::Forward,
        };
        let (url, target) = url(session, request);
        let mut recording = Recording::new(recorder, session.client, action, id);
        let record = &mut recording.record;
        match &session.fixed {
            Some(fixed) => {
                record.user = fixed.client.user.clone();
                record.tls = fixed.client.tls;
            }
            None => record.user = user(request),
        }
        recording.describe(request, url);
        if target.is_some_and(|target| recorder.details(&target)) {
            let headers = recording.fields(request.headers());
            let mut details = Details::default();
            details.request.headers = headers;
            recording.details = Some(details);
            if recorder.options.bodies {
                recording.request = Arc::new(Tap::copying(&recorder.captured));
                recording.response = Arc::new(Tap::copying(&recorder.captured));
            }
        }
        Some(recording)
    }

    /// Starts the record of a CONNECT request.
    pub(crate) fn of_connect<B>(
        core: &Core,
        client: SocketAddr,
        request: &Request<B>,
        id: RequestId,
    ) -> Option<Box<Self>> {
        let recorder = core.recorder.as_ref()?;
        let mut recording = Recording::new(recorder, client, RecordAction::Tunnel, id);
        recording.record.user = user(request);
        recording.describe(request, request.uri().to_string());
        Some(recording)
    }

    /// Records a request with an invalid head.
    pub(crate) fn invalid(core: &Core, client: SocketAddr, status: StatusCode, reason: String) {
        if let Some(recorder) = &core.recorder {
            let mut recording =
                Recording::new(recorder, client, RecordAction::Refuse, RequestId::new());
            recording.record.status = Some(status.as_u16());
            recording.broke("http_request_error", reason);
        }
    }

    fn new(
        recorder: &Arc<Recorder>,
        client: SocketAddr,
        action: RecordAction,
        id: RequestId,
    ) -> Box<Self> {
        Box::new(Recording {
            recorder: Some(recorder.clone()),
            record: Record {
                time: Timestamp::now(),
                id,
                client,
                user: None,
                action,
                method: "-".to_owned(),
                url: "-".to_owned(),
                protocol: "HTTP/1.1",
                status: None,
                request_bytes: 0,
                response_bytes: 0,
                wait_ms: None,
                duration_ms: 0.0,
                tls: None,
                referer: None,
                user_agent: None,
                error: None,
                reason: None,
            },
            begun: Instant::now(),
            request: Arc::default(),
            response: Arc::default(),
            details: None,
        })
    }

    fn describe<B>(&mut self, request: &Request<B>, url: String) {
        let keeps = self.keeps_secrets();
        let shown = |url: String| {
            if keeps || !url.contains(['?', '@']) {
                return url;
            }
            url_without_secrets(&url)
        };
        let header = |name: HeaderName| request.headers().get(name).map(text);
        let record = &mut self.record;
        record.method = request.method().to_string();
        record.url = shown(url);
        record.protocol = protocol(request.version());
        record.referer = header(REFERER).map(shown);
        record.user_agent = header(USER_AGENT);
    }

    fn keeps_secrets(&self) -> bool {
        let recorder = self.recorder.as_ref();
        recorder.is_some_and(|recorder| recorder.options.secrets)
    }

    /// Returns header fields for the details, without secrets.
    fn fields(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let keeps = self.keeps_secrets();
        let shown = |(name, value): (&HeaderName, &http::HeaderValue)| {
            let value = match (keeps, is_secret(name.as_str())) {
                (true, _) => text(value),
                (false, true) => HIDDEN.to_owned(),
                // These URLs may be relative.
                _ if [LOCATION, CONTENT_LOCATION, REFERER].contains(name) => {
                    url_without_secrets(&text(value))
                }
                (false, false) => without_secrets(&text(value)),
            };
            (name.to_string(), value)
        };
        headers.iter().map(shown).collect()
    }

    /// Sets the action after the rules have decided.
    pub(crate) fn act(&mut self, action: RecordAction) {
        self.record.action = action;
    }

    /// Returns the user of the proxy.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.record.user.clone()
    }

    /// Sets the response, when its head is sent.
    pub(crate) fn responded(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.record.status = Some(status.as_u16());
        self.record.wait_ms = Some(self.elapsed());
        if self.details.is_some() {
            let headers = self.fields(headers);
            if let Some(details) = &mut self.details {
                details.response.headers = headers;
            }
        }
    }

    /// Sets the failure of the request.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        if let Failure::Refused(_) | Failure::Authentication | Failure::Checks(_) = failure {
            self.record.action = RecordAction::Refuse;
        }
        self.broke(failure.kind(), failure.to_string());
    }

    /// Sets the kind and the text of a failure.
    pub(crate) fn broke(&mut self, error: &'static str, reason: String) {
        self.record.error = Some(error);
        self.record.reason = Some(reason);
    }

    /// Records that the client ended the connection before the end of the response.
    pub(crate) fn aborted(&mut self) {
        self.record.error.get_or_insert("client_aborted");
    }

    /// Drops the record, because other records replace it.
    pub(crate) fn discard(mut self: Box<Self>) {
        self.recorder = None;
    }

    fn elapsed(&self) -> f64 {
        let us = self.begun.elapsed().as_micros();
        us as f64 / 1e3
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        if self.record.status.is_none() {
            self.aborted();
        }
        self.record.duration_ms = self.elapsed();
        self.record.request_bytes = self.request.bytes();
        self.record.response_bytes = self.response.bytes();
        if let Some(details) = &mut self.details {
            details.request.body = self.request.copied();
            details.response.body = self.response.copied();
        }
        recorder.finished(self.record.clone(), self.details.as_ref());
    }
}

/// Returns the URL of a request, and its server if it is known.
fn url<B>(session: &Session, request: &Request<B>) -> (String, Option<Target>) {
    let uri = request.uri();
    let Some(fixed) = &session.fixed else {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let port = if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        return (uri.to_string(), Target::parse(authority, port).ok());
    };
    let route = &fixed.route;
    let target = Target {
        host: route.tls.as_ref().unwrap_or(&route.target.host).clone(),
        port: route.target.port,
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // The target of `OPTIONS *` is not a path.
    let slash = if path.starts_with('/') { "" } else { "/" };
    let authority = target.authority(route.port());
    (
        format!("{}://{authority}{slash}{path}", route.scheme()),
        Some(target),
    )
}

fn user<B>(request: &Request<B>) -> Option<Arc<str>> {
    let user = request.extensions().get::<ProxyUser>();
    user.map(|ProxyUser(name)| name.clone())
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

impl ClientTls {
    /// Returns the parameters of a finished handshake.
    pub(crate) fn of(connection: &CommonState) -> Option<Self> {
        Some(ClientTls {
            version: match connection.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLSv1.2",
                ProtocolVersion::TLSv1_3 => "TLSv1.3",
                _ => return None,
            },
            cipher: connection.negotiated_cipher_suite()?.suite().as_str()?,
        })
    }
}
