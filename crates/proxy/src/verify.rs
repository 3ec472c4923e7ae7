//! Verification of servers' certificates. Failed certificates are remembered for error pages, and
//! all certificates are passed to the observer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use lucarne_ct::Fingerprint;
use lucarne_mint::store::{Host, Likeness};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::certificate_summary::CertificateSummary;
use crate::likeness::likeness;
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

/// State that the verifiers of a proxy share.
pub(crate) struct Verification {
    trusting: Arc<lucarne_net::Verifier>,
    trust: Trust,
    observer: Option<Arc<Observer>>,
    /// Names and certificates of the last failures, because the error of the handshake does not
    /// contain the certificate.
    wrong: Mutex<VecDeque<(String, Option<CertificateSummary>)>>,
    /// Properties of the last certificate of each host, if minted certificates resemble them.
    likenesses: Option<Mutex<LruCache<Host, Arc<Likeness>>>>,
}

/// Verifies the certificates of all hosts that are not insecure, or accepts any certificate of an
/// insecure host. That server must prove that it has the key, unless the kind of key is not
/// supported.
#[derive(Debug)]
struct Verifier {
    verification: Arc<Verification>,
    /// Verifies the signatures of handshakes.
    signatures: Arc<lucarne_net::Verifier>,
    accepts_insecure: bool,
}

/// Values for hosts whose certificates are verified, and for insecure hosts: TLS settings, or TLS
/// clients.
#[derive(Clone, Debug)]
pub(crate) struct ByHost<T> {
    verified: T,
    insecure: T,
}

impl<T> ByHost<T> {
    /// Applies `convert` to both values.
    pub(crate) fn map<U>(&self, convert: impl Fn(&T) -> U) -> ByHost<U> {
        ByHost {
            verified: convert(&self.verified),
            insecure: convert(&self.insecure),
        }
    }

    /// Returns the value for this host.
    pub(crate) fn of(&self, host: &Host, verification: &Verification) -> &T {
        if verification.is_insecure(host) {
            &self.insecure
        } else {
            &self.verified
        }
    }
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

impl Verification {
    /// Remembers the likenesses of `resembled` hosts, if this is not 0.
    pub(crate) fn new(
        trust: Trust,
        observer: Option<Arc<Observer>>,
        resembled: usize,
    ) -> Arc<Self> {
        let hosts = NonZeroUsize::new(resembled);
        Arc::new(Verification {
            likenesses: hosts.map(|hosts| Mutex::new(LruCache::new(hosts))),
            trusting: Arc::new(lucarne_net::Verifier::trusting(trust.trusted.clone())),
            trust,
            observer,
            wrong: Mutex::default(),
        })
    }

    /// Returns the verifiers for TLS settings.
    pub(crate) fn verifiers(self: &Arc<Self>) -> ByHost<Arc<dyn ServerCertVerifier>> {
        let verifier = |signatures, accepts_insecure| -> Arc<dyn ServerCertVerifier> {
            Arc::new(Verifier {
                verification: self.clone(),
                signatures,
                accepts_insecure,
            })
        };
        let any = Arc::new(lucarne_net::Verifier::accepting_any());
        ByHost {
            verified: verifier(self.trusting.clone(), false),
            insecure: verifier(any, true),
        }
    }

    /// Returns whether any certificate of this host is accepted: the host is insecure, and has no
    /// configured fingerprint.
    fn is_insecure(&self, host: &Host) -> bool {
        let mut insecure = self.trust.insecure.iter();
        insecure.any(|hosts| hosts.matches_host(host)) && self.fingerprints(host).is_empty()
    }

    /// Returns the configured fingerprints of a host.
    fn fingerprints(&self, host: &Host) -> Vec<Fingerprint> {
        let all = self.trust.fingerprints.iter();
        let of_host = all.filter(|(hosts, _)| hosts.matches_host(host));
        of_host.map(|(_, fingerprint)| *fingerprint).collect()
    }

    /// Passes the certificates of a server to the observer.
    fn observe(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
    ) {
        if let Some(observer) = &self.observer {
            let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf)
                .chain(intermediates)
                .map(|der| CertificateDer::from(der.as_ref()))
                .collect();
            // rustls does not request SCTs in the TLS extension, and hardly any server sends them.
            observer.seen(&name.to_str(), &chain, ocsp, &[]);
        }
    }

    /// Returns whether minted certificates resemble those of the servers.
    pub(crate) fn resembles(&self) -> bool {
        self.likenesses.is_some()
    }

    /// Returns the properties of the last certificate of this host.
    pub(crate) fn likeness(&self, host: &Host) -> Option<Arc<Likeness>> {
        self.likenesses.as_ref()?.lock().get(host).cloned()
    }

    /// Remembers the properties of a certificate. Its names are those of the server only after a
    /// verification of its chain.
    fn resemble(&self, leaf: &CertificateDer<'_>, name: &ServerName<'_>, proven: bool) {
        if let Some(likenesses) = &self.likenesses
            && let Some(host) = host_of(name)
            && let Some(likeness) = likeness(leaf, &host, proven)
        {
            likenesses.lock().put(host, Arc::new(likeness));
        }
    }

    /// Checks a certificate by its fingerprint if the host has configured fingerprints, and
    /// otherwise by its chain.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Verified {
        let pinned = host_of(name).map_or(Vec::new(), |host| self.fingerprints(&host));
        let found = (!pinned.is_empty()).then(|| Fingerprint::of(leaf));
        let verified = match found {
            Some(found) if pinned.contains(&found) => Ok(ServerCertVerified::assertion()),
            Some(found) => Err(OtherFingerprint(found).into()),
            None => {
                let trusting = &self.trusting;
                trusting.verify_server_cert(leaf, intermediates, name, ocsp, now)
            }
        };
        self.resemble(leaf, name, verified.is_ok() && found.is_none());
        if verified.is_err() {
            self.remember(name, leaf);
        }
        verified
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

fn host_of(name: &ServerName<'_>) -> Option<Host> {
    match name {
        ServerName::IpAddress(ip) => Some(Host::from(IpAddr::from(*ip))),
        name => Host::parse(&name.to_str()).ok(),
    }
}

impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verification")
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
    ) -> Verified {
        let verification = &self.verification;
        verification.observe(leaf, intermediates, name, ocsp);
        // A second check of the host, in case a caller uses this verifier for another host.
        let is_insecure = || host_of(name).is_some_and(|host| verification.is_insecure(&host));
        if self.accepts_insecure && is_insecure() {
            verification.resemble(leaf, name, false);
            return Ok(ServerCertVerified::assertion());
        }
        verification.verify(leaf, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::internal::msgs::codec::Codec;

    /// Only the verifier of insecure hosts accepts a signature by a key of an unsupported kind.
    #[test]
    fn a_host_that_is_not_insecure_has_its_own_verifier() {
        let fingerprint = Fingerprint::of(b"another certificate");
        let verification = Verification::new(
            Trust {
                trusted: lucarne_net::Trust::none(),
                insecure: vec!["*.insecure.test".parse().unwrap()],
                fingerprints: vec![("pinned.insecure.test".parse().unwrap(), fingerprint)],
            },
            None,
            0,
        );
        let verifiers = verification.verifiers();
        let unreadable = CertificateDer::from(b"garbage".to_vec());
        let signed = [4, 3, 0, 4, 1, 2, 3, 4];
        let signed = DigitallySignedStruct::read_bytes(&signed).unwrap();
        for (host, accepted) in [
            ("www.insecure.test", true),
            ("www.other.test", false),
            ("pinned.insecure.test", false),
            ("192.0.2.1", false),
        ] {
            let verifier = verifiers.of(&Host::parse(host).unwrap(), &verification);
            let name = ServerName::try_from(host).unwrap();
            let verified =
                verifier.verify_server_cert(&unreadable, &[], &name, &[], UnixTime::now());
            assert_eq!(verified.is_ok(), accepted, "{host}");
            for signature in [
                verifier.verify_tls12_signature(b"a handshake", &unreadable, &signed),
                verifier.verify_tls13_signature(b"a handshake", &unreadable, &signed),
            ] {
                assert_eq!(signature.is_ok(), accepted, "{host}");
            }
        }
        let other = ServerName::try_from("www.other.test").unwrap();
        let insecure = &verifiers.insecure;
        let verified = insecure.verify_server_cert(&unreadable, &[], &other, &[], UnixTime::now());
        assert!(verified.is_err());
    }
}
