//! The TLS handshake with a client, in place of the server, and its failures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use lucarne_mint::store::{Host, Minted};
use lucarne_net::{alert_name, explain_client, tls_error};
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::StartHandshake;
use tokio_rustls::server::TlsStream;

use crate::core::Core;
use crate::records::Recording;
use crate::stream::Rewind;

/// Performs the handshake with a client. Offers HTTP/2 if `http2` is `true`.
pub(crate) async fn handshake(
    core: &Core,
    client: SocketAddr,
    host: &Host,
    start: StartHandshake<Rewind>,
    minted: &Minted,
    http2: bool,
) -> Result<TlsStream<Rewind>, HandshakeFailure> {
    let mut config = if http2 {
        minted.server_config.clone()
    } else {
        http1_only(start.client_hello().alpn().is_some(), minted)
    };
    if let Some(key_log) = &core.key_log {
        Arc::make_mut(&mut config).key_log = key_log.clone();
    }
    match timeout(core.limits.handshake, start.into_stream(config)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(failed(core, client, host, &error)),
        Err(_) => {
            core.stats.stalled.inc();
            let why = "the client did not finish its TLS handshake in time";
            tracing::info!(%client, %host, "{why}");
            Err(HandshakeFailure::of("connection_timeout", why.to_owned()))
        }
    }
}

/// Returns TLS settings that do not offer HTTP/2, with the same certificate. `matters` is `true` if
/// the client offers protocols by ALPN.
fn http1_only(matters: bool, minted: &Minted) -> Arc<ServerConfig> {
    if !matters {
        return minted.server_config.clone();
    }
    let mut config = ServerConfig::clone(&minted.server_config);
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    Arc::new(config)
}

/// A handshake with a client that failed.
pub(crate) struct HandshakeFailure {
    pub(crate) kind: &'static str,
    pub(crate) why: String,
    /// Whether the client may have rejected the certificate.
    pub(crate) rejects: bool,
}

impl HandshakeFailure {
    pub(crate) fn of(kind: &'static str, why: String) -> Self {
        HandshakeFailure {
            kind,
            why,
            rejects: false,
        }
    }

    fn rejecting(kind: &'static str, why: String) -> Self {
        HandshakeFailure {
            rejects: true,
            ..Self::of(kind, why)
        }
    }

    /// Ends the record of the connection.
    pub(crate) fn record(self, recording: Option<Box<Recording>>) {
        if let Some(mut recording) = recording {
            recording.broke(self.kind, self.why);
        }
    }
}

/// Logs a handshake that failed on the client's side, and returns the failure. Most clients fail
/// because they do not trust the CA.
pub(crate) fn failed(
    core: &Core,
    client: SocketAddr,
    host: &Host,
    error: &io::Error,
) -> HandshakeFailure {
    use rustls::AlertDescription::{
        BadCertificate, CertificateExpired, CertificateRevoked, CertificateUnknown, UnknownCA,
        UnsupportedCertificate,
    };
    use rustls::PeerIncompatible::{
        SignatureAlgorithmsExtensionRequired, SupportedVersionsExtensionRequired, Tls12NotOffered,
        Tls12NotOfferedOrEnabled,
    };
    match tls_error(error) {
        Some(rustls::Error::AlertReceived(
            alert @ (BadCertificate | CertificateUnknown | UnknownCA),
        )) => {
            core.stats.distrusted.inc();
            tracing::info!(
                %client,
                %host,
                "the client does not trust the proxy's CA (alert {}): install the certificate \
                 that GET /ca.pem gives, or forward the host by a rule (action: tunnel)",
                alert_name(*alert)
            );
            let why = format!(
                "The client ended the handshake (alert {}).",
                alert_name(*alert)
            );
            HandshakeFailure::rejecting("tls_alert_received", why)
        }
        Some(rustls::Error::PeerIncompatible(
            SignatureAlgorithmsExtensionRequired
            | SupportedVersionsExtensionRequired
            | Tls12NotOffered
            | Tls12NotOfferedOrEnabled,
        )) => {
            let why = "the client speaks neither TLS 1.2 nor TLS 1.3";
            tracing::info!(%client, %host, "{why}: forward the host by a rule (action: tunnel)");
            HandshakeFailure::of("tls_protocol_error", why.to_owned())
        }
        Some(other) => {
            let why = explain_client(other);
            tracing::info!(%client, %host, "the TLS handshake with the client failed: {why}");
            match other {
                rustls::Error::AlertReceived(
                    UnsupportedCertificate | CertificateRevoked | CertificateExpired,
                ) => HandshakeFailure::rejecting("tls_alert_received", why.to_string()),
                rustls::Error::AlertReceived(_) => {
                    HandshakeFailure::of("tls_alert_received", why.to_string())
                }
                _ => HandshakeFailure::of("tls_protocol_error", why.to_string()),
            }
        }
        // Browsers open connections that they do not use.
        None => {
            core.stats.aborted.inc();
            tracing::debug!(%client, %host, "the client broke off the TLS handshake: {error}");
            HandshakeFailure::rejecting("connection_terminated", error.to_string())
        }
    }
}
