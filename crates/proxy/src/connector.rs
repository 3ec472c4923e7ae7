//! Handshakes with servers and upstream proxies: TCP, TLS, HTTP/1.1 and HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use lucarne_mint::store::Host;
use lucarne_net::{alert_name, explain, tls_error};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::Dialer;
use crate::ending::Ending;
use crate::failure::{Failure, Step};
use crate::identity::TlsClient;
use crate::limits::{FIELDS, STREAM_WINDOW, http2_head};
use crate::pool::{Http1, Http2};
use crate::stalled::StreamExecutor;
use crate::streams::{self, UNKNOWN};
use crate::timed_body::BodyError;
use crate::verify::{ByHost, Verification};

/// Opens connections and performs their handshakes.
pub(crate) struct Connector {
    pub(crate) dialer: Dialer,
    pub(crate) verification: Arc<Verification>,
    /// TLS client without a certificate.
    pub(crate) nobody: TlsClient,
    pub(crate) patience: Duration,
    pub(crate) response: Duration,
    /// Time without a byte after which a body is given up.
    pub(crate) idle: Duration,
    pub(crate) head_bytes: usize,
}

impl Connector {
    /// Starts TLS with a peer that must prove to be `host`.
    pub(crate) async fn secure<S>(
        &self,
        tls: &ByHost<TlsConnector>,
        stream: S,
        host: &Host,
    ) -> Result<TlsStream<S>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => ServerName::try_from(host.to_string())
                .map_err(|_| Failure::Tls(format!("{host} is not a valid server name.")))?,
        };
        let connector = tls.of(host, &self.verification);
        match timeout(self.patience, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.failed(&error, host.as_str())),
            Err(_) => Err(Failure::Timeout(Step::Handshake, self.patience)),
        }
    }

    fn failed(&self, error: &std::io::Error, host: &str) -> Failure {
        match tls_error(error) {
            Some(wrong @ rustls::Error::InvalidCertificate(_)) => {
                Failure::Certificate(sentence(wrong), self.verification.facts(host).map(Box::new))
            }
            Some(other) => Failure::Tls(sentence(other)),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Failure::Tls("The server closed the connection in the TLS handshake.".to_owned())
            }
            None => Failure::Tls(format!("The TLS handshake failed: {error}.")),
        }
    }

    pub(crate) async fn speak_http1<S>(&self, stream: S) -> Result<Http1, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (stream, end) = Ending::new(stream);
        let handshake = http1::Builder::new()
            .preserve_header_case(true)
            .title_case_headers(true)
            .max_header_size(self.head_bytes)
            .max_headers(FIELDS)
            // A proxy removes spaces before the colon, and replaces folded lines by a space (RFC
            // 9112, sections 5.1 and 5.2).
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| closed(error, false))?;
        // The sender of a request gets the error that ends the connection.
        tokio::spawn(connection.with_upgrades());
        Ok(Http1 { sender, end })
    }

    /// Starts HTTP/2, and waits for the server's limit of streams.
    pub(crate) async fn speak_http2<S>(&self, stream: S) -> Result<Http2, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (stream, end) = Ending::new(stream);
        let executor = StreamExecutor::new(self.idle);
        let handshake = http2::Builder::new(executor.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            // A stream that its client does not read must not use up the window of the other
            // streams. Only the windows of the streams bound the memory.
            .initial_connection_window_size(i32::MAX as u32)
            .initial_max_send_streams(UNKNOWN)
            .max_header_list_size(http2_head(self.head_bytes))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15))
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| closed(error, false))?;
        let opening = timeout(self.patience, streams::open(connection, &executor));
        let opened = opening.await.map_err(|_| {
            let patience = self.patience.as_secs_f64();
            let why = format!("The server sent no HTTP/2 SETTINGS within {patience:.1} s.");
            Failure::Closed(why)
        })?;
        match (opened, end.alert()) {
            (Ok(Some(streams)), _) => Ok(Http2 {
                sender,
                end,
                streams,
            }),
            (Err(_) | Ok(None), Some(alert)) => Err(ended_by(alert)),
            (Err(error), None) => Err(closed(error, false)),
            (Ok(None), None) => Err(Failure::Closed(CLOSED.to_owned())),
        }
    }
}

/// Describes the failure of a TLS handshake as a sentence.
fn sentence(error: &rustls::Error) -> String {
    let clause = explain(error);
    let (first, rest) = clause.split_at(clause.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

/// Reason for a request without a response on a closed connection.
const CLOSED: &str = "The server closed the connection before it responded.";

/// Converts a hyper error on a connection with a server into a failure. `begun` is `true` if a part
/// of a response has arrived.
pub(crate) fn closed(error: hyper::Error, begun: bool) -> Failure {
    if let Some(rustls::Error::AlertReceived(alert)) = tls_error(&error) {
        return ended_by(*alert);
    }
    let why = if error.is_incomplete_message() && begun {
        let why = "The server closed the connection before the end of the response's head.";
        return Failure::Response(why.to_owned());
    } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        CLOSED.to_owned()
    } else if error.is_parse_too_large() {
        return Failure::Response(format!(
            "The head of the response is larger than limits.maxheader, or has more than {FIELDS} \
             fields."
        ));
    } else if error.is_parse() {
        return Failure::Response(format!("The server's response is not valid HTTP: {error}."));
    } else {
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        format!("The exchange with the server was interrupted: {error}{cause}.")
    };
    Failure::Closed(why)
}

/// Returns the failure if the connection with the server ended because the client did not send a
/// complete and valid body.
pub(crate) fn body_failed(error: &hyper::Error) -> Option<Failure> {
    let cause = std::error::Error::source(error)?;
    let why = match cause.downcast_ref::<BodyError>()? {
        BodyError::Unwanted => return None,
        why => why.reason(),
    };
    Some(Failure::Body(format!(
        "The proxy cannot read the body of the request: {why}."
    )))
}

/// Returns the failure for a TLS alert that a server sends after the handshake, for example because
/// it rejects the client certificate.
pub(crate) fn ended_by(alert: rustls::AlertDescription) -> Failure {
    Failure::Tls(format!(
        "The server closed the connection with the TLS alert {}.",
        alert_name(alert)
    ))
}
