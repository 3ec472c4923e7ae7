//! The handshakes with servers and proxies: TCP, TLS, and either HTTP.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_mint::store::Host;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::Dialer;
use crate::failure::{Failure, Step};
use crate::identity::TlsClient;
use crate::limits::{FIELDS, STREAM_WINDOW};
use crate::pool::{Http1, Http2};
use crate::verify::{Verifier, explain};

/// Makes connections: dials, and shakes hands.
pub(crate) struct Connector {
    pub(crate) dialer: Dialer,
    pub(crate) verifier: Arc<Verifier>,
    /// Shows no certificate.
    pub(crate) nobody: TlsClient,
    pub(crate) patience: Duration,
    pub(crate) answer: Duration,
    pub(crate) head_bytes: usize,
}

impl Connector {
    /// TLS with who must prove to be `host`.
    pub(crate) async fn secure<S>(
        &self,
        connector: &TlsConnector,
        stream: S,
        host: &Host,
    ) -> Result<TlsStream<S>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => ServerName::try_from(host.to_string())
                .map_err(|_| Failure::Tls(format!("{host} is no name of a server.")))?,
        };
        match timeout(self.patience, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.failed(&error, host.as_str())),
            Err(_) => Err(Failure::Timeout(Step::Handshake, self.patience)),
        }
    }

    fn failed(&self, error: &std::io::Error, host: &str) -> Failure {
        let inner = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(wrong)) => {
                Failure::Certificate(explain(wrong), self.verifier.facts(host).map(Box::new))
            }
            Some(rustls::Error::AlertReceived(alert)) => Failure::Tls(format!(
                "The server broke the TLS handshake off: it says {alert:?}."
            )),
            Some(rustls::Error::InvalidMessage(_)) => {
                Failure::Tls("The server does not speak TLS on this port.".to_owned())
            }
            Some(other) => Failure::Tls(format!("The TLS handshake failed: {other}.")),
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
        let handshake = http1::Builder::new()
            .title_case_headers(true)
            .max_header_size(self.head_bytes)
            .max_headers(FIELDS)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(closed)?;
        // Its end is told to whoever waits for an answer.
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    pub(crate) async fn speak_http2<S>(&self, stream: S) -> Result<Http2, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            // Clients share the connection, and a stream that one of them does not read
            // must not use up what the others' need: streams alone bound what is held.
            .initial_connection_window_size(i32::MAX as u32)
            .max_header_list_size(u32::try_from(self.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15))
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(closed)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Returns what to say of an error of HTTP with the server.
pub(crate) fn closed(error: hyper::Error) -> Failure {
    if let Some(alert) = alert(&error) {
        return Failure::Tls(format!(
            "The server broke the connection off: it says {alert:?}."
        ));
    }
    let why = if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "The server closed the connection before it answered.".to_owned()
    } else if error.is_parse() {
        format!("What the server answered is not HTTP: {error}.")
    } else {
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        format!("The exchange with the server broke off: {error}{cause}.")
    };
    Failure::Closed(why)
}

/// Returns what a server says by TLS, after the handshake: that it does not like the
/// certificate that it was shown, say.
fn alert(error: &hyper::Error) -> Option<rustls::AlertDescription> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let inner = match error.downcast_ref::<std::io::Error>() {
            Some(io) => io
                .get_ref()
                .map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
        if let Some(rustls::Error::AlertReceived(alert)) =
            inner.and_then(|inner| inner.downcast_ref())
        {
            return Some(*alert);
        }
        cause = inner;
    }
    None
}
