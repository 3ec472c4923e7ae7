//! Comparison of an issued certificate with its order.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use lucarne_ct::Certificate;
use lucarne_mint::der::{DerError, Reader};
use lucarne_mint::oid::content::{AUTHORITY_KEY_ID, SUBJECT_ALT_NAME};
use lucarne_mint::pem::{self, PemError};
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};

use super::jws::encode;

/// A certificate that the server issued.
#[derive(Clone, Debug)]
pub(super) struct IssuedCertificate {
    /// The certificate in DER.
    pub(super) leaf: Vec<u8>,
    /// Identifier for the renewal information of the certificate.
    pub(super) renewal_id: String,
}

/// The reasons why an issued certificate is not the ordered one.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("the response has no certificate")]
    Missing,
    #[error("the response is not a chain in PEM: {0}")]
    Pem(#[from] PemError),
    #[error("the certificate cannot be parsed: {0}")]
    Der(#[from] DerError),
    /// A certificate that is not the leaf. Numbers are from 1.
    #[error("certificate {number} of the response cannot be parsed: {source}")]
    Above { number: usize, source: DerError },
    /// Clients send the certificates to TLS clients as they are.
    #[error("certificate {0} of the response is the same as certificate {1}")]
    Repeated(usize, usize),
    #[error("the names of the certificate cannot be parsed")]
    MalformedNames,
    #[error("expected the names {ordered:?}, found {found:?}")]
    Names {
        found: BTreeSet<String>,
        ordered: BTreeSet<String>,
    },
    #[error("the key differs from the ordered key")]
    Key,
    #[error("the certificate has no authority key identifier")]
    NoAuthorityKey,
    #[error("the response has no certificate of the issuer")]
    NoIssuer,
    #[error("the last certificate is not a valid CA certificate: {}", lucarne_net::explain(.0))]
    Issuer(#[source] rustls::Error),
    #[error("the chain cannot be verified: {}", lucarne_net::explain(.0))]
    Chain(#[source] rustls::Error),
    /// The load test ordered a certificate for an invalid name.
    #[error("the first ordered name is invalid: {0}")]
    OrderedName(#[from] InvalidDnsNameError),
    /// The verifier of the load test cannot be created.
    #[error("the verifier of the chain cannot be created: {0}")]
    Verifier(#[from] VerifierBuilderError),
}

/// Name of a check, and its result.
pub(super) type Finding = (&'static str, Result<(), CertificateError>);

/// Parses the certificates of a PEM file, the leaf first.
///
/// # Errors
/// If the file has no valid certificate.
pub(super) fn read_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let chain = pem::certificates(text)?;
    Ok(chain.into_iter().map(CertificateDer::from).collect())
}

/// Checks a chain that was ordered for `names` and the key `spki`.
pub(super) fn check(
    chain: &[CertificateDer<'_>],
    names: &[String],
    spki: &[u8],
    now: UnixTime,
) -> [Finding; 3] {
    let Some((leaf, above)) = chain.split_first() else {
        return ["certificate_names", "certificate_key", "certificate_chain"]
            .map(|name| (name, Err(CertificateError::Missing)));
    };
    [
        ("certificate_names", check_names(leaf, names)),
        ("certificate_key", check_key(leaf, spki)),
        ("certificate_chain", check_chain(leaf, above, names, now)),
    ]
}

fn check_names(leaf: &[u8], names: &[String]) -> Result<(), CertificateError> {
    let found = names_of(leaf).ok_or(CertificateError::MalformedNames)?;
    let ordered: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
    if found == ordered {
        Ok(())
    } else {
        Err(CertificateError::Names { found, ordered })
    }
}

fn check_key(leaf: &[u8], spki: &[u8]) -> Result<(), CertificateError> {
    if Certificate::parse(leaf)?.spki() == spki {
        Ok(())
    } else {
        Err(CertificateError::Key)
    }
}

/// Verifies the signatures up to the last certificate of the chain, the usage for servers, and the
/// validity at `now`.
fn check_chain(
    leaf: &CertificateDer<'_>,
    above: &[CertificateDer<'_>],
    names: &[String],
    now: UnixTime,
) -> Result<(), CertificateError> {
    let Some((last, between)) = above.split_last() else {
        return Err(CertificateError::NoIssuer);
    };
    check_each(leaf, above)?;
    let mut roots = RootCertStore::empty();
    let added = roots.add(last.clone().into_owned());
    added.map_err(CertificateError::Issuer)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
    let name = names.first().map_or("", String::as_str).to_owned();
    let name = ServerName::try_from(name)?;
    let verified = verifier.verify_server_cert(leaf, between, &name, &[], now);
    verified.map(|_| ()).map_err(CertificateError::Chain)
}

/// Checks that each certificate can be parsed and occurs once. The verifier skips certificates that
/// the path does not need, but OpenSSL and Go refuse a chain with a malformed certificate.
fn check_each(
    leaf: &CertificateDer<'_>,
    above: &[CertificateDer<'_>],
) -> Result<(), CertificateError> {
    let mut seen = vec![leaf];
    for certificate in above {
        let number = seen.len() + 1;
        if let Some(same) = seen.iter().position(|other| *other == certificate) {
            return Err(CertificateError::Repeated(number, same + 1));
        }
        Certificate::parse(certificate)
            .map_err(|source| CertificateError::Above { number, source })?;
        seen.push(certificate);
    }
    Ok(())
}

/// Returns the names in the certificate's subjectAltName.
fn names_of(leaf: &[u8]) -> Option<BTreeSet<String>> {
    let certificate = Certificate::parse(leaf).ok()?;
    let value = certificate.extension(SUBJECT_ALT_NAME)?.value;
    let mut list = Reader::new(value).any("GeneralNames").ok()?.reader();
    let mut names = BTreeSet::new();
    while let Ok(name) = list.any("GeneralName") {
        names.insert(match name.tag {
            0x82 => String::from_utf8_lossy(name.value).to_lowercase(),
            0x87 => address(name.value)?.to_string(),
            other => format!("a name of the kind {other:#x}"),
        });
    }
    Some(names)
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).into());
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).into()))
        .ok()
}

/// Returns the identifier for the certificate's renewal information (RFC 9773, section 4.1): the
/// issuer's key identifier and the serial number.
pub(super) fn renewal_id(leaf: &[u8]) -> Option<String> {
    let certificate = Certificate::parse(leaf).ok()?;
    let authority = certificate.extension(AUTHORITY_KEY_ID)?.value;
    let key = key_identifier(authority).ok()?;
    Some(format!("{}.{}", encode(key), encode(certificate.serial())))
}

fn key_identifier(authority: &[u8]) -> Result<&[u8], DerError> {
    let mut fields = Reader::new(authority)
        .any("AuthorityKeyIdentifier")?
        .reader();
    Ok(fields.expect(0x80, "keyIdentifier")?.value)
}

#[cfg(test)]
mod tests {
    use lucarne_mint::testing::Pki;
    use lucarne_mint::{KeyPair, KeyType, LeafOptions};

    use super::*;

    fn ordered() -> (Vec<CertificateDer<'static>>, Vec<String>, Vec<u8>) {
        let names = vec!["A.example.test".to_owned(), "127.0.0.9".to_owned()];
        let options = LeafOptions::for_names(names.clone()).unwrap();
        let spki = options.key.spki().to_vec();
        let ca = &Pki::shared().p256;
        let chain = ca.chain(ca.issue(&options).unwrap());
        let chain = chain.certificates().iter().cloned().map(Into::into);
        (chain.collect(), names, spki)
    }

    fn failed(findings: [Finding; 3]) -> Vec<&'static str> {
        let failed = findings.into_iter().filter(|(_, outcome)| outcome.is_err());
        failed.map(|(name, _)| name).collect()
    }

    #[test]
    fn what_was_ordered_is_found_right_and_everything_else_wrong() {
        let (chain, names, spki) = ordered();
        let now = UnixTime::now();
        let judge = |chain: &[_], names: &[String], spki: &[u8], now| {
            failed(check(chain, names, spki, now))
        };
        assert_eq!(judge(&chain, &names, &spki, now), [""; 0]);
        // Checks with more or fewer names, another key, a signature of another CA, and after
        // expiry.
        assert_eq!(
            judge(&chain, &names[..1], &spki, now),
            ["certificate_names"]
        );
        let other = KeyPair::generate(KeyType::EcdsaP256).unwrap();
        assert_eq!(
            judge(&chain, &names, other.spki(), now),
            ["certificate_key"]
        );
        let wrong: CertificateDer<'_> = Pki::shared().p384.cert_der().to_vec().into();
        let chain_of_others = [chain[0].clone(), wrong];
        assert_eq!(
            judge(&chain_of_others, &names, &spki, now),
            ["certificate_chain"]
        );
        let later = UnixTime::since_unix_epoch(
            std::time::UNIX_EPOCH.elapsed().unwrap() + std::time::Duration::from_secs(91 * 86_400),
        );
        assert_eq!(judge(&chain, &names, &spki, later), ["certificate_chain"]);
        assert_eq!(judge(&[], &names, &spki, now).len(), 3);
        assert_eq!(
            judge(&chain[..1], &names, &spki, now),
            ["certificate_chain"]
        );
    }

    #[test]
    fn superfluous_certificates_fail_the_chain() {
        let (chain, names, spki) = ordered();
        let garbage = CertificateDer::from(b"garbage".to_vec());
        for (more, words) in [
            (
                &chain[0],
                "certificate 2 of the response is the same as certificate 1",
            ),
            (&garbage, "certificate 2 of the response cannot be parsed"),
        ] {
            let chain = [&chain[..1], std::slice::from_ref(more), &chain[1..]].concat();
            let [names, key, chain] = check(&chain, &names, &spki, UnixTime::now());
            assert!(names.1.is_ok() && key.1.is_ok());
            let error = chain.1.unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn renewal_ids_are_those_of_the_specification() {
        // RFC 9773, appendix A.
        let pem = "-----BEGIN CERTIFICATE-----\n\
MIIBQzCB66ADAgECAgUAh2VDIaA KBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt\n";
        assert!(read_pem(pem.as_bytes()).is_err());
        let options = LeafOptions {
            serial: Some(vec![0x00, 0x87, 0x65, 0x43, 0x21]),
            ..LeafOptions::for_names(["a.example.test"]).unwrap()
        };
        let ca = &Pki::shared().p256;
        let id = renewal_id(&ca.issue(&options).unwrap()).unwrap();
        let (key, serial) = id.split_once('.').unwrap();
        // The leading zero is part of the serial number.
        assert_eq!(serial, "AIdlQyE");
        assert_eq!(key, encode(ca.key().id()));
    }
}
