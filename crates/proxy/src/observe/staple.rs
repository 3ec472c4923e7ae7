//! What a stapled OCSP response is worth.

use lucarne_ct::{CertStatus, Certificate, Issuer, ocsp_status};

/// What the stapled OCSP response says of a certificate, if that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staple {
    /// There is none.
    Absent,
    /// The certificate is not revoked.
    Good,
    /// It is.
    Revoked,
    /// Nothing is proven; why.
    Unproven(String),
}

impl Staple {
    /// Of `response` (empty: none) for `leaf`, whose issuer may not be known.
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

    /// A word for JSON; `None`: there is no staple.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Staple::Absent => None,
            Staple::Good => Some("good"),
            Staple::Revoked => Some("revoked"),
            Staple::Unproven(_) => Some("unverified"),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        match self {
            Staple::Absent => "none".to_owned(),
            Staple::Good => "not revoked".to_owned(),
            Staple::Revoked => "the certificate has been revoked".to_owned(),
            Staple::Unproven(why) => format!("not verified: {why}"),
        }
    }
}
