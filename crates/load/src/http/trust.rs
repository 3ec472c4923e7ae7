//! The certificates that are trusted.

use std::path::Path;
use std::sync::Arc;

use lucarne_net::system_roots;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::EndpointError;

/// The certificates that are trusted: the system's, and those of a PEM file.
///
/// A certificate that is itself in the file is trusted as it is, whether it is self-signed,
/// says that it is an authority, or not: who names it means it, as with curl's `--cacert`.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    named: Arc<[CertificateDer<'static>]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    /// The system's, and those of `file`.
    ///
    /// # Errors
    /// If there is none in the file, or one that is none.
    pub fn load(file: Option<&Path>) -> Result<Self, EndpointError> {
        let mut roots = RootCertStore::clone(&system_roots().store);
        let mut named = Vec::new();
        if let Some(file) = file {
            for certificate in CertificateDer::pem_file_iter(file)
                .map_err(|e| EndpointError::certificates(file, &e))?
            {
                let certificate =
                    certificate.map_err(|error| EndpointError::certificates(file, &error))?;
                roots
                    .add(certificate.clone())
                    .map_err(|error| EndpointError::certificates(file, &error))?;
                named.push(certificate);
            }
            if named.is_empty() {
                return Err(EndpointError::certificates(
                    file,
                    &"there is no PEM certificate in it",
                ));
            }
        }
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Ok(Self {
            roots: Arc::new(roots),
            named: named.into(),
            algorithms: provider.signature_verification_algorithms,
        })
    }

    /// Returns whether the certificate `der` leads to one that is trusted, by way of `others`,
    /// and is valid at `now`. Its name is another question.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(
        &self,
        der: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(der)?;
        let outcome = verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            others,
            now,
            self.algorithms.all,
        );
        match outcome {
            Err(error) if self.names(der) && is_about_issuers(&error) => Ok(()),
            outcome => outcome,
        }
    }

    fn names(&self, der: &CertificateDer<'_>) -> bool {
        self.named.iter().any(|named| named == der)
    }
}

/// Returns whether an error is about who issued a certificate, and not about the certificate: its
/// validity is looked at before either.
fn is_about_issuers(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // An authority that serves with its own certificate.
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            let cause = other.0.downcast_ref::<webpki::Error>();
            matches!(cause, Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// A server's certificate must be trusted, and be for the name that was asked for.
#[derive(Debug)]
pub(super) struct Trusted(pub(super) Trust);

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}
