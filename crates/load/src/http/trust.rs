//! Trusted certificates.

use std::path::{Path, PathBuf};

pub use lucarne_net::Trust;
use lucarne_x509::pem;
use rustls::pki_types::CertificateDer;

use super::EndpointError;

/// Trusts the certificates of the system and of the PEM files.
///
/// # Errors
/// If a file has no certificate, or an unreadable certificate.
pub fn trust(files: &[PathBuf]) -> Result<Trust, EndpointError> {
    trust_also(Trust::system(), files)
}

/// Trusts the certificates of the PEM files alone.
///
/// # Errors
/// If a file has no certificate, or an unreadable certificate.
pub fn trust_only(files: &[PathBuf]) -> Result<Trust, EndpointError> {
    trust_also(Trust::none(), files)
}

fn trust_also(trust: Trust, files: &[PathBuf]) -> Result<Trust, EndpointError> {
    // A plan's `${NAME:-}` gives an empty name.
    let mut files = files.iter().filter(|file| !file.as_os_str().is_empty());
    files.try_fold(trust, |trust, file| {
        let named = read_certificates(file)?;
        let unusable = |error: &dyn std::fmt::Display| EndpointError::certificates(file, error);
        trust.with(named).map_err(|error| unusable(&error))
    })
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
