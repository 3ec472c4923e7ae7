//! The certificates of servers: checked, remembered where they were wrong,
//! and shown to whoever observes.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::certificate_summary::CertificateSummary;
use crate::observe::Observer;

/// Certificates that were wrong, and are remembered.
const REMEMBERED: usize = 64;

/// Checks certificates of servers.
pub(crate) struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    /// Takes every certificate. The handshake must still be signed by its key.
    insecure: bool,
    observer: Option<Arc<Observer>>,
    /// The handshake tells that a certificate is wrong, but not what stands in
    /// it: name and certificate of the last ones.
    wrong: Mutex<VecDeque<(String, Option<CertificateSummary>)>>,
}

impl Verifier {
    pub(crate) fn new(
        roots: Arc<RootCertStore>,
        insecure: bool,
        observer: Option<Arc<Observer>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        Ok(Verifier {
            webpki: WebPkiServerVerifier::builder_with_provider(roots, provider).build()?,
            insecure,
            observer,
            wrong: Mutex::default(),
        })
    }

    /// Returns what stood in the certificate that was wrong for this name.
    pub(crate) fn facts(&self, name: &str) -> Option<CertificateSummary> {
        let wrong = self.wrong.lock();
        let latest = wrong.iter().rev().find(|(host, _)| host == name);
        latest.and_then(|(_, facts)| facts.clone())
    }

    fn remember(&self, name: &ServerName<'_>, leaf: &CertificateDer<'_>) {
        let mut wrong = self.wrong.lock();
        if wrong.len() == REMEMBERED {
            wrong.pop_front();
        }
        wrong.push_back((name.to_str().into_owned(), CertificateSummary::of(leaf)));
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("insecure", &self.insecure)
            .finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(observer) = &self.observer {
            let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf)
                .chain(intermediates)
                .map(|der| CertificateDer::from(der.as_ref()))
                .collect();
            // rustls does not ask for SCTs in TLS: hardly a server has them there.
            observer.seen(&name.to_str(), &chain, ocsp, &[]);
        }
        let verified = self
            .webpki
            .verify_server_cert(leaf, intermediates, name, ocsp, now);
        match verified {
            Err(_) if self.insecure => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                self.remember(name, leaf);
                Err(error)
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// The problem with a certificate, for people.
pub(crate) fn explain(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "The certificate has expired.".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "The certificate is not valid yet: look at the clocks of the server and the proxy."
                .to_owned()
        }
        CertificateError::NotValidForName => {
            "The certificate is for other names than the one asked for.".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "The certificate is for other names than the one asked for: {}.",
            names(presented)
        ),
        CertificateError::UnknownIssuer => {
            "The certificate was issued by a CA that the proxy does not trust, or intermediate \
             certificates are missing."
                .to_owned()
        }
        CertificateError::Revoked => "The certificate has been revoked.".to_owned(),
        CertificateError::BadSignature => {
            "The certificate was not signed by the CA that it names.".to_owned()
        }
        CertificateError::BadEncoding => "The certificate cannot be read.".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "The certificate is not meant for servers.".to_owned()
        }
        other => format!("The certificate is not valid: {other}."),
    }
}

fn names(presented: &[String]) -> String {
    const SHOWN: usize = 8;
    if presented.is_empty() {
        return "it names none".to_owned();
    }
    let shown: Vec<&str> = presented
        .iter()
        .take(SHOWN)
        .map(|name| {
            name.trim_start_matches("DnsName(\"")
                .trim_end_matches("\")")
        })
        .collect();
    match presented.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}
