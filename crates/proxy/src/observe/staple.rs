//! Verification of stapled OCSP responses.

use lucarne_ct::{CertStatus, Certificate, Issuer, ocsp_status};

/// Status of a certificate according to its stapled OCSP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staple {
    /// There was no response.
    Absent,
    /// A verified response states that the certificate is not revoked.
    Good,
    /// A verified response states that the certificate is revoked.
    Revoked,
    /// The response is not verified; the reason.
    Unproven(String),
}

impl Staple {
    /// Verifies `response` (empty if there was none) for `leaf`, whose issuer may be unknown.
    pub(crate) fn of(
        response: &[u8],
        leaf: &Certificate<'_>,
        issuer: Option<&Issuer>,
        now_ms: u64,
    ) -> Self {
        if response.is_empty() {
            return Staple::Absent;
        }
        let issuer = issuer.map(|issuer| Certificate::parse(&issuer.der));
        let Some(Ok(issuer)) = issuer else {
            return Staple::Unproven("the issuer of the certificate is unknown".to_owned());
        };
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        match ocsp_status(response, leaf, &issuer, now_ms) {
            Ok(CertStatus::Good) => Staple::Good,
            Ok(CertStatus::Revoked) => Staple::Revoked,
            Ok(CertStatus::Unknown) => {
                Staple::Unproven("the responder does not know the certificate".to_owned())
            }
            Err(why) => Staple::Unproven(format!("the response {why}")),
        }
    }

    /// Returns the word for JSON; `None` without a response.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Staple::Absent => None,
            Staple::Good => Some("good"),
            Staple::Revoked => Some("revoked"),
            Staple::Unproven(_) => Some("unverified"),
        }
    }

    /// Formats the status as words for the pages.
    pub(crate) fn text(&self) -> String {
        match self {
            Staple::Absent => "none".to_owned(),
            Staple::Good => "not revoked".to_owned(),
            Staple::Revoked => "the certificate has been revoked".to_owned(),
            Staple::Unproven(why) => format!("not verified: {why}"),
        }
    }
}
