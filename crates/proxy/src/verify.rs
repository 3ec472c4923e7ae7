//! Verification of servers' certificates. Failed certificates are remembered for error pages, and
//! all certificates are passed to the observer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use lucarne_ct::Fingerprint;
use lucarne_mint::store::Host;
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::certificate_summary::CertificateSummary;
use crate::observe::Observer;
use crate::pattern::HostPattern;

/// Limit of remembered certificates that failed.
const REMEMBERED: usize = 64;

type Verified = Result<ServerCertVerified, Error>;

/// Servers that the proxy trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Trusted certificates of CAs and servers.
    pub trusted: lucarne_net::Trust,
    /// Any certificate of these hosts is accepted. Clients of the proxy cannot detect that another
    /// server responds.
    pub insecure: Vec<HostPattern>,
    /// Certificates of these hosts are accepted only with these fingerprints. The rest of the
    /// certificate is ignored.
    pub fingerprints: Vec<(HostPattern, Fingerprint)>,
}

/// Verifies the certificates of servers.
pub(crate) struct Verifier {
    trusting: lucarne_net::Verifier,
    any: lucarne_net::Verifier,
    trust: Trust,
    observer: Option<Arc<Observer>>,
    /// Names and certificates of the last failures, because the error of the handshake does not
    /// contain the certificate.
    wrong: Mutex<VecDeque<(String, Option<CertificateSummary>)>>,
}

/// The certificate's fingerprint is not among the configured fingerprints of the host.
#[derive(Debug, thiserror::Error)]
#[error("the certificate's fingerprint is not configured for this host: found {0}")]
struct OtherFingerprint(Fingerprint);

impl From<OtherFingerprint> for Error {
    fn from(error: OtherFingerprint) -> Self {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}

impl Verifier {
    pub(crate) fn new(trust: Trust, observer: Option<Arc<Observer>>) -> Self {
        Verifier {
            trusting: lucarne_net::Verifier::trusting(trust.trusted.clone()),
            any: lucarne_net::Verifier::accepting_any(),
            trust,
            observer,
            wrong: Mutex::default(),
        }
    }

    /// Checks the certificate by fingerprint if fingerprints are configured for the host. Otherwise
    /// accepts any certificate of an insecure host. Returns `None` if only trusted certificates are
    /// accepted.
    fn exception(&self, name: &ServerName<'_>, leaf: &CertificateDer<'_>) -> Option<Verified> {
        let host = match name {
            ServerName::IpAddress(ip) => Some(Host::from(IpAddr::from(*ip))),
            name => Host::parse(&name.to_str()).ok(),
        }?;
        let pinned = self.trust.fingerprints.iter();
        let pinned = pinned.filter(|(hosts, _)| hosts.matches_host(&host));
        let pinned: Vec<_> = pinned.map(|(_, fingerprint)| *fingerprint).collect();
        if pinned.is_empty() {
            let mut insecure = self.trust.insecure.iter();
            let any = insecure.any(|hosts| hosts.matches_host(&host));
            return any.then(|| Ok(ServerCertVerified::assertion()));
        }
        let found = Fingerprint::of(leaf);
        Some(if pinned.contains(&found) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(OtherFingerprint(found).into())
        })
    }

    /// Returns the verifier for the signature of a handshake. If there are insecure hosts, a key of
    /// an unsupported kind is accepted, except in a certificate with a configured fingerprint. For
    /// the other hosts, [`Self::trusting`] has already refused certificates with these keys.
    fn of_signature(&self, leaf: &CertificateDer<'_>) -> &lucarne_net::Verifier {
        let pinned = || {
            let found = Fingerprint::of(leaf);
            let mut all = self.trust.fingerprints.iter();
            all.any(|(_, fingerprint)| *fingerprint == found)
        };
        if self.trust.insecure.is_empty() || pinned() {
            &self.trusting
        } else {
            &self.any
        }
    }

    /// Returns the summary of the last certificate that failed for this name.
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
            .field("trust", &self.trust)
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
            // rustls does not request SCTs in the TLS extension, and hardly any server sends them.
            observer.seen(&name.to_str(), &chain, ocsp, &[]);
        }
        let verified = self.exception(name, leaf).unwrap_or_else(|| {
            self.trusting
                .verify_server_cert(leaf, intermediates, name, ocsp, now)
        });
        if verified.is_err() {
            self.remember(name, leaf);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_signature(certificate)
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_signature(certificate)
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusting.supported_verify_schemes()
    }
}
