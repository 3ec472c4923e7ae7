//! What a server's certificate says, for people.

use jiff::Timestamp;
use lucarne_ct::{Certificate, display_name};
use rustls_pki_types::CertificateDer;

/// What stands in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whom it is for.
    pub subject: String,
    /// Who issued it.
    pub issuer: String,
    /// Validity, from.
    pub not_before: String,
    /// Validity, through.
    pub not_after: String,
}

impl Facts {
    /// Of a certificate in DER, if it can be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::parse(certificate).ok()?;
        Some(Facts {
            subject: display_name(certificate.subject()),
            issuer: display_name(certificate.issuer()),
            not_before: time(certificate.not_before()),
            not_after: time(certificate.not_after()),
        })
    }
}

fn time(seconds: Option<i64>) -> String {
    seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(|| "not readable".to_owned(), |time| time.to_string())
}
