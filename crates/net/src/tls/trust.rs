//! The trusted certificates: the system's, or those of the file that `SSL_CERT_FILE` names
//! instead, and those that a configuration names.

use std::sync::{Arc, OnceLock};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use super::Verifier;

/// Trusted certificates, of authorities and of servers.
///
/// A server may show a trusted certificate itself, be it self-signed, marked as a CA (`CA:TRUE`)
/// or neither, as with curl's `--cacert`. Its names and its validity are checked all the same.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    certificates: Arc<[CertificateDer<'static>]>,
}

/// A certificate that cannot be trusted because it cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("certificate {number} cannot be read: {error}")]
pub struct TrustError {
    /// The place of the certificate among those given, from 1.
    pub number: usize,
    /// The problem with it.
    pub error: Error,
}

impl Trust {
    /// Trusts no certificate.
    pub fn none() -> Self {
        Self::of(RootCertStore::empty(), Vec::new())
    }

    /// Trusts the certificates of this system, which are read once. Those that cannot be read
    /// are left out.
    pub fn system() -> Self {
        static SYSTEM: OnceLock<Trust> = OnceLock::new();
        let read = || {
            let mut found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "cannot read some of the system's certificate authorities");
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
    /// The first certificate that cannot be read.
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
    pub(super) fn names(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|named| named == certificate)
    }

    /// Checks that the certificate `leaf` is trusted, or leads to a trusted one by way of
    /// `others`, and is valid at `now`. Its names are another question.
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

/// Returns whether an error is about the certificate's own validity or purpose, and not about
/// its issuer. webpki checks the validity first.
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

/// TLS with servers whose certificates are trusted.
pub fn trusting(trust: Trust) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|_| unreachable!("the provider has ciphers for TLS 1.2 and 1.3"))
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::trusting(trust)))
        .with_no_client_auth()
}
