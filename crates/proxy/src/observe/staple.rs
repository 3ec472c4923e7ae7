//! The worth of a stapled OCSP response.

use lucarne_ct::{CertStatus, Certificate, Issuer, ocsp_status};

/// The verdict of the stapled OCSP response on a certificate, if that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staple {
    /// No response.
    Absent,
    /// A proof that the certificate is not revoked.
    Good,
    /// A proof that it is.
    Revoked,
    /// A response that proves nothing; why.
    Unproven(String),
}

impl Staple {
    /// The verdict on `response` (empty: none) for `leaf`, whose issuer may not be known.
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
            return Staple::Unproven("the issuer, whose word it is, is not known".to_owned());
        };
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        match ocsp_status(response, leaf, &issuer, now_ms) {
            Ok(CertStatus::Good) => Staple::Good,
            Ok(CertStatus::Revoked) => Staple::Revoked,
            Ok(CertStatus::Unknown) => {
                Staple::Unproven("the responder does not know the certificate".to_owned())
            }
            Err(why) => Staple::Unproven(format!("it {why}")),
        }
    }

    /// The word for JSON; `None`: there is no staple.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Staple::Absent => None,
            Staple::Good => Some("good"),
            Staple::Revoked => Some("revoked"),
            Staple::Unproven(_) => Some("unverified"),
        }
    }

    /// The words for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Staple::Absent => "none".to_owned(),
            Staple::Good => "not revoked".to_owned(),
            Staple::Revoked => "the certificate has been revoked".to_owned(),
            Staple::Unproven(why) => format!("not verified: {why}"),
        }
    }
}
