//! The summary of a server's certificate, for people.

use lucarne_ct::{Certificate, display_name};
use rustls_pki_types::CertificateDer;

use crate::time::time;

/// The summary of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The name of whom it is for.
    pub subject: String,
    /// The name of its issuer.
    pub issuer: String,
    /// Validity, from.
    pub not_before: String,
    /// Validity, through.
    pub not_after: String,
}

impl CertificateSummary {
    /// Of a certificate in DER, if it can be read.
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
