//! Trusted certificates: the certificates of the system or of the file in `SSL_CERT_FILE`, and
//! configured certificates.

use std::sync::{Arc, OnceLock};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::verifier::{KeyError, RsaKey, is_supported, spki};
use super::{explain, weak_rsa};

/// Trusted certificates of authorities and of servers.
///
/// A server may present a trusted certificate itself, as with curl's `--cacert`: a self-signed
/// certificate, a CA certificate (`CA:TRUE`), or any other certificate. The names and the validity
/// of the certificate are checked nevertheless.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    certificates: Arc<[CertificateDer<'static>]>,
}

/// A certificate that cannot be trusted, because it cannot be parsed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("certificate {number} cannot be parsed: {}", explain(error))]
pub struct TrustError {
    /// Index of the certificate in the list, from 1.
    pub number: usize,
    /// The first error in the certificate.
    pub error: Error,
}

impl Trust {
    /// Trusts no certificate.
    pub fn none() -> Self {
        Self::of(RootCertStore::empty(), Vec::new())
    }

    /// Trusts the certificates of this system, which are read once. Invalid certificates are
    /// ignored.
    pub fn system() -> Self {
        static SYSTEM: OnceLock<Trust> = OnceLock::new();
        let read = || {
            let mut found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "reading some of the system's CA certificates failed");
            }
            let mut roots = RootCertStore::empty();
            found.certs.retain(|der| roots.add(der.clone()).is_ok());
            Self::of(roots, found.certs)
        };
        SYSTEM.get_or_init(read).clone()
    }

    /// Trusts these certificates as well.
    ///
    /// # Errors
    /// The first certificate that cannot be parsed.
    pub fn with(
        self,
        more: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::clone(&self.roots);
        let mut certificates = self.certificates.to_vec();
        for (index, certificate) in more.into_iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|error| TrustError {
                number: index + 1,
                error,
            })?;
            certificates.push(certificate);
        }
        Ok(Self::of(roots, certificates))
    }

    fn of(roots: RootCertStore, certificates: Vec<CertificateDer<'static>>) -> Self {
        Trust {
            roots: Arc::new(roots),
            certificates: certificates.into(),
        }
    }

    /// Returns whether no certificate is trusted.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Returns the trusted certificates.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Returns whether `certificate` is one of the trusted certificates.
    fn names(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|named| named == certificate)
    }

    /// Checks that the key of a certificate is long enough, and of a supported kind. A certificate
    /// that is itself trusted may have a short key.
    ///
    /// # Errors
    /// The reason why the key is refused.
    pub fn check_key(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let known = default_provider().signature_verification_algorithms;
        let key = spki(certificate).map_err(|_| KeyError::Unknown)?;
        if !is_supported(key, &known) {
            return Err(KeyError::Unknown.into());
        }
        match RsaKey::of_spki(key) {
            Ok(Some(key)) if key.bits() < weak_rsa::STRONG && !self.names(certificate) => {
                Err(KeyError::Weak(key.bits()).into())
            }
            Ok(_) => Ok(()),
            Err(_) => Err(KeyError::Unknown.into()),
        }
    }

    /// Checks that `leaf` is trusted, or chains to a trusted certificate through `others`, and is
    /// valid at `now`. Names are not checked.
    ///
    /// # Errors
    /// The reason why the certificate is not trusted.
    pub fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let named = self.names(leaf);
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(leaf)?,
            &self.roots,
            if named { &[] } else { others },
            now,
            default_provider().signature_verification_algorithms.all,
        );
        match verified {
            Err(Error::InvalidCertificate(error)) if named && !is_own(&error) => Ok(()),
            verified => verified,
        }
    }
}

/// Returns whether an error is about the certificate's own validity or purpose, and not about its
/// issuer. webpki checks the validity first.
fn is_own(error: &CertificateError) -> bool {
    use CertificateError::{
        Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidYet,
        NotValidYetContext,
    };
    matches!(
        error,
        Expired
            | ExpiredContext { .. }
            | NotValidYet
            | NotValidYetContext { .. }
            | InvalidPurpose
            | InvalidPurposeContext { .. }
    )
}
