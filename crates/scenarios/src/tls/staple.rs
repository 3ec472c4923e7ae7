//! Checks of stapled OCSP responses (RFC 6066, section 8), and of certificates that require them
//! (RFC 7633).

use lucarne_ct::{CertStatus, Certificate, OcspError, ocsp_status, sct_list_of_ocsp};
use lucarne_mint::der::Reader;
use lucarne_mint::oid::content::TLS_FEATURE;

/// The reasons why clients refuse a certificate because of its stapled response.
#[derive(Debug, thiserror::Error)]
pub(super) enum StapleError {
    #[error("the certificate requires a stapled OCSP response (must-staple), found none")]
    Missing,
    #[error("the stapled OCSP response {0}")]
    Response(#[from] OcspError),
    #[error("the stapled OCSP response states that the certificate is revoked")]
    Revoked,
    #[error("the responder of the stapled OCSP response does not know the certificate")]
    Unknown,
}

/// Checks the stapled response for `leaf`, which one of `issuers` has issued. Returns `None`
/// without a response, unless the certificate requires one. Without issuers, only the structure of
/// the response is checked.
pub(super) fn check<'i>(
    response: &[u8],
    leaf: &Certificate<'_>,
    issuers: impl Iterator<Item = Certificate<'i>>,
    now_ms: i64,
) -> Option<Result<(), StapleError>> {
    if response.is_empty() {
        return requires_staple(leaf).then_some(Err(StapleError::Missing));
    }
    // Issuers of the same name may have different keys.
    let mut found = issuers.map(|issuer| ocsp_status(response, leaf, &issuer, now_ms));
    let status = match found.next() {
        Some(Err(error)) => found.find(Result::is_ok).or(Some(Err(error))),
        first => first,
    };
    Some(match status {
        None => sct_list_of_ocsp(response).map(drop).map_err(Into::into),
        Some(Ok(CertStatus::Good)) => Ok(()),
        Some(Ok(CertStatus::Revoked)) => Err(StapleError::Revoked),
        Some(Ok(CertStatus::Unknown)) => Err(StapleError::Unknown),
        Some(Err(error)) => Err(error.into()),
    })
}

/// Returns whether the certificate has the TLS feature status_request (RFC 7633, section 4).
fn requires_staple(certificate: &Certificate<'_>) -> bool {
    /// Content of the INTEGER of status_request.
    const STATUS_REQUEST: &[u8] = &[5];
    let extension = certificate.extension(TLS_FEATURE);
    let list = extension.and_then(|it| Reader::new(it.value).any("Features").ok());
    let Some(mut features) = list.map(|list| list.reader()) else {
        return false;
    };
    std::iter::from_fn(|| features.any("TLS feature").ok())
        .any(|feature| feature.value == STATUS_REQUEST)
}
