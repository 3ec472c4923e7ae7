//! Summary of a server's certificate for people.

use lucarne_ct::{Certificate, display_name};
use rustls_pki_types::CertificateDer;

use crate::time::time;

/// Names and validity period of a certificate, as text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Name of the certificate's subject.
    pub subject: String,
    /// Name of the certificate's issuer.
    pub issuer: String,
    /// Start of the validity period.
    pub not_before: String,
    /// End of the validity period.
    pub not_after: String,
}

impl CertificateSummary {
    /// Summarizes a certificate in DER. Returns `None` if the certificate cannot be parsed.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::parse(certificate).ok()?;
        Some(CertificateSummary {
            subject: display_name(certificate.subject()),
            issuer: display_name(certificate.issuer()),
            not_before: shown(certificate.not_before()),
            not_after: shown(certificate.not_after()),
        })
    }
}

fn shown(ms: Option<i64>) -> String {
    ms.map_or_else(|| "not readable".to_owned(), time)
}
