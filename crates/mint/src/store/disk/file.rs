//! Content of a certificate's file: a line with the host, then in PEM the private key, the chain
//! that a server sends, and the CA certificate that issued the leaf.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::store::{Fingerprint, Host, Minted, StoreKey};
use crate::{MintError, pem};

/// Reasons why the content of a file is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the file is damaged: {0}")]
    Damaged(#[from] MintError),
    #[error("the file has no {0}")]
    Lacks(&'static str),
    #[error("the certificate was issued by another CA")]
    OtherCa,
    #[error("the certificate cannot be verified for {host}: {}", reason(source))]
    Unverified { host: Host, source: webpki::Error },
    #[error("the clock is before 1970")]
    Clock,
}

/// Formats why a certificate is not valid for its host.
fn reason(error: &webpki::Error) -> &'static str {
    use webpki::Error as E;
    match error {
        E::CertNotValidForName(_) => "it is for other names",
        E::UnknownIssuer | E::InvalidSignatureForPublicKey => "its CA did not sign it",
        E::CertExpired { .. } => "it has expired",
        E::CertNotValidYet { .. } => "it is not valid yet",
        E::RequiredEkuNotFoundContext(_) => "it is not meant for servers",
        _ => "it cannot be read, or is not meant for servers",
    }
}

pub(super) fn write(key: &StoreKey, minted: &Minted) -> String {
    let mut text = format!("{}\n", key.host);
    text.push_str(&pem::encode("PRIVATE KEY", minted.key.secret_der()));
    for certificate in minted.chain.iter().chain([&minted.issuer]) {
        text.push_str(&pem::encode("CERTIFICATE", certificate));
    }
    text
}

/// Parses a file. The certificate may have expired, but must be valid otherwise.
pub(super) fn parse(
    text: &str,
    key: &StoreKey,
    now: SystemTime,
    alpn: &[String],
) -> Result<Minted, FileError> {
    let (mut private, mut chain) = (None, Vec::new());
    for (label, der) in pem::decode(text).map_err(MintError::from)? {
        match label.as_str() {
            "PRIVATE KEY" => private = PrivateKeyDer::try_from(der).ok(),
            "CERTIFICATE" => chain.push(CertificateDer::from(der)),
            _ => (),
        }
    }
    let private = private.ok_or(FileError::Lacks("private key"))?;
    let issuer = chain.pop().ok_or(FileError::Lacks("certificate"))?;
    if chain.is_empty() {
        return Err(FileError::Lacks("certificate of a CA"));
    }
    if Fingerprint::of(&issuer) != key.ca {
        return Err(FileError::OtherCa);
    }
    // `Minted::new` also fails if the key does not belong to the certificate.
    let minted = Minted::new(chain, issuer, private, alpn)?;
    let unverified = |source| FileError::Unverified {
        host: key.host.clone(),
        source,
    };
    // The time is clamped to the validity period, because the caller checks the expiry.
    let at = now.clamp(minted.not_before, minted.not_after.max(minted.not_before));
    verify(&minted, &key.host, at).map_err(|source| source.map_or(FileError::Clock, unverified))?;
    Ok(minted)
}

/// Verifies that the CA issued the leaf for this host. The error is `None` if the time is invalid.
fn verify(minted: &Minted, host: &Host, at: SystemTime) -> Result<(), Option<webpki::Error>> {
    let at = at.duration_since(UNIX_EPOCH).map_err(|_| None)?;
    let anchor = webpki::anchor_from_trusted_cert(&minted.issuer)?;
    let leaf = EndEntityCert::try_from(&minted.chain[0])?;
    leaf.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &[anchor],
        &[],
        UnixTime::since_unix_epoch(at),
        KeyUsage::server_auth(),
        None,
        None,
    )?;
    // A wildcard is checked with a name that it covers.
    let name = host.as_str().replacen('*', "any", 1);
    let name = ServerName::try_from(name).map_err(|_| webpki::Error::MalformedDnsIdentifier)?;
    leaf.verify_is_valid_for_subject_name(&name)?;
    Ok(())
}
