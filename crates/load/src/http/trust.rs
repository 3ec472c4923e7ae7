//! Trusted certificates.

use std::path::Path;

pub use lucarne_net::Trust;
use lucarne_x509::pem;
use rustls::pki_types::CertificateDer;

use super::EndpointError;

/// Trusts the system's certificates, and those of the PEM file.
///
/// # Errors
/// The file has no certificate, or one that cannot be parsed.
pub fn trust(file: Option<&Path>) -> Result<Trust, EndpointError> {
    let system = Trust::system();
    let Some(file) = file else { return Ok(system) };
    let named = read_certificates(file)?;
    let unusable = |error: &dyn std::fmt::Display| EndpointError::certificates(file, error);
    system.with(named).map_err(|error| unusable(&error))
}

/// Reads the certificates of a PEM file, at least one.
pub(super) fn read_certificates(
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, EndpointError> {
    let unusable = |error: &dyn std::fmt::Display| EndpointError::certificates(file, error);
    let text = std::fs::read(file).map_err(|error| unusable(&error))?;
    let certificates = pem::certificates(&text).map_err(|error| unusable(&error))?;
    Ok(certificates.into_iter().map(CertificateDer::from).collect())
}
