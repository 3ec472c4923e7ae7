//! What is trusted, and what is offered in a handshake.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{ClientOptions, EndpointError};

/// TLS as `options` want it.
pub(super) fn config(options: &ClientOptions) -> Result<Arc<ClientConfig>, EndpointError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| EndpointError::Trust(format!("TLS cannot be set up: {error}")))?;
    let mut config = if options.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth()
    } else {
        builder
            .with_root_certificates(roots(options.ca.as_deref())?)
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![options.version.alpn().to_vec()];
    if !options.resume {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// The system's roots, and those of the file.
fn roots(file: Option<&Path>) -> Result<RootCertStore, EndpointError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = file {
        let failed = |reason: &dyn std::fmt::Display| {
            let file = file.display();
            EndpointError::Trust(format!("cannot use the certificates in {file}: {reason}"))
        };
        let mut added = 0;
        for certificate in CertificateDer::pem_file_iter(file).map_err(|e| failed(&e))? {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
            added += 1;
        }
        if added == 0 {
            return Err(failed(&"there is no PEM certificate in it"));
        }
    }
    Ok(roots)
}

/// Accepts every certificate. Signatures of the handshake are still checked:
/// whoever answers holds the key of the certificate it shows.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
