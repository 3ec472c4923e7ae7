//! Stapled OCSP responses (RFC 6960, section 4.2.1): the status of a certificate, and embedded SCTs
//! (RFC 6962, section 3.3).

use aws_lc_rs::digest::{self, digest};
use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use lucarne_x509::{oid, time};

use crate::algorithm::SignatureAlgorithm;
use crate::certificate::Certificate;
use crate::signature::is_issued_by;
use crate::signature::{IssuerKey, key_bits};

/// The tag of ENUMERATED, which only OCSP uses here.
const ENUMERATED: u8 = 0x0a;
/// Tolerated clock difference in milliseconds.
const SKEW_MS: i64 = 300_000;
/// Validity of a response without nextUpdate, in milliseconds.
const UNLIMITED_MS: i64 = 7 * 86_400_000;
/// Maximum number of certificates in a response that are checked.
const MOST_CERTIFICATES: usize = 4;

/// The status of a certificate according to its responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertStatus {
    /// The certificate is not revoked.
    Good,
    /// The certificate is revoked.
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

/// The reasons why a response proves nothing about a certificate. Each text follows "the OCSP
/// response".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcspError {
    /// A field violates RFC 6960.
    #[error("cannot be read: {0}")]
    Der(#[from] DerError),
    /// The responder returned an error: its OCSPResponseStatus.
    #[error("is an error of the responder (status {0})")]
    NotSuccessful(u8),
    /// The response is not a BasicOCSPResponse.
    #[error("has an unknown type")]
    Kind,
    /// The signer is neither the issuer nor a responder delegated by the issuer.
    #[error("is signed neither by the issuer of the certificate nor by a responder of the issuer")]
    Signature,
    /// The response is about another certificate.
    #[error("is about another certificate")]
    OtherCertificate,
    /// The response is expired or not yet valid.
    #[error("is expired or not yet valid")]
    Time,
}

/// Returns the status of `certificate`, issued by `issuer`, according to `response` at `now_ms`, in
/// milliseconds since 1970.
///
/// The response must be signed by the issuer, or by a responder with a certificate that the issuer
/// has issued for this purpose (RFC 6960, section 4.2.2.2).
///
/// # Errors
/// [`OcspError`]: the response proves nothing.
pub fn ocsp_status(
    response: &[u8],
    certificate: &Certificate<'_>,
    issuer: &Certificate<'_>,
    now_ms: i64,
) -> Result<CertStatus, OcspError> {
    let response = Response::read(response)?;
    if !response.is_signed(issuer, now_ms) {
        return Err(OcspError::Signature);
    }
    let mut found = Err(OcspError::OtherCertificate);
    for single in response.singles()? {
        let single = single?;
        if !single.is_about(certificate, issuer)? {
            continue;
        }
        match (single.holds(now_ms), single.status) {
            (true, CertStatus::Revoked) => return Ok(CertStatus::Revoked),
            (true, status) => found = Ok(status),
            (false, _) if found.is_err() => found = Err(OcspError::Time),
            (false, _) => {}
        }
    }
    found
}

/// Returns the first SignedCertificateTimestampList in an OCSPResponse, for
/// [`SctList::parse`](crate::SctList::parse). Returns `None` if the response has none or reports an
/// error.
///
/// The signature of the response is not verified: see [`ocsp_status`].
///
/// # Errors
/// [`OcspError::Der`], [`OcspError::Kind`].
pub fn sct_list_of_ocsp(response: &[u8]) -> Result<Option<&[u8]>, OcspError> {
    let response = match Response::read(response) {
        Err(OcspError::NotSuccessful(_)) => return Ok(None),
        response => response?,
    };
    for single in response.singles()? {
        if let Some(list) = single?.scts {
            return Ok(Some(list));
        }
    }
    Ok(None)
}

/// A BasicOCSPResponse.
struct Response<'a> {
    /// tbsResponseData.
    data: Tlv<'a>,
    algorithm: Tlv<'a>,
    /// The BIT STRING.
    signature: Tlv<'a>,
    certificates: Option<Tlv<'a>>,
}

impl<'a> Response<'a> {
    fn read(response: &'a [u8]) -> Result<Self, OcspError> {
        let mut outer = Reader::new(response);
        let mut fields = outer.expect(tag::SEQUENCE, "OCSPResponse")?.reader();
        let status = fields.expect(ENUMERATED, "responseStatus")?.value;
        let Some(bytes) = fields.optional(tag::context(0), "responseBytes")? else {
            return Err(OcspError::NotSuccessful(*status.last().unwrap_or(&0)));
        };
        let mut bytes = bytes
            .reader()
            .expect(tag::SEQUENCE, "ResponseBytes")?
            .reader();
        if bytes.expect(tag::OID, "responseType")?.value != oid::content::OCSP_BASIC {
            return Err(OcspError::Kind);
        }
        let basic = bytes.expect(tag::OCTET_STRING, "response")?;
        let mut basic = basic
            .reader()
            .expect(tag::SEQUENCE, "BasicOCSPResponse")?
            .reader();
        Ok(Response {
            data: basic.expect(tag::SEQUENCE, "tbsResponseData")?,
            algorithm: basic.expect(tag::SEQUENCE, "signatureAlgorithm")?,
            signature: basic.expect(tag::BIT_STRING, "signature")?,
            certificates: basic.optional(tag::context(0), "certs")?,
        })
    }

    /// Returns `true` if a permitted signer has signed the response. The responderID is ignored,
    /// because it only helps to find the signer: the issuer and the first certificates in the
    /// response are tried.
    fn is_signed(&self, issuer: &Certificate<'_>, now_ms: i64) -> bool {
        let Some(algorithm) = SignatureAlgorithm::read(self.algorithm.raw) else {
            return false;
        };
        let signature = self.signature.value.get(1..).unwrap_or_default();
        let has_signed = |signer: &Certificate<'_>| {
            let key = IssuerKey::new(signer);
            key.verify_message(self.data.raw, signature, algorithm)
                .is_ok()
        };
        let may = |responder: &Certificate<'_>| {
            let usages = responder.extended_key_usages();
            usages.is_some_and(|mut usages| usages.any(|usage| usage == oid::content::OCSP_SIGNING))
                && responder.not_before().is_some_and(|from| from <= now_ms)
                && responder.not_after().is_some_and(|until| now_ms <= until)
                && is_issued_by(responder, issuer)
        };
        has_signed(issuer) || self.responders().any(|one| may(&one) && has_signed(&one))
    }

    fn responders(&self) -> impl Iterator<Item = Certificate<'a>> + use<'a> {
        let list = self
            .certificates
            .and_then(|list| list.reader().expect(tag::SEQUENCE, "certs").ok());
        let mut list = list.map(|list| list.reader());
        let next = move || list.as_mut()?.expect(tag::SEQUENCE, "Certificate").ok();
        std::iter::from_fn(next)
            .take(MOST_CERTIFICATES)
            .filter_map(|der| Certificate::parse(der.raw).ok())
    }

    /// Returns the SingleResponses.
    fn singles(
        &self,
    ) -> Result<impl Iterator<Item = Result<Single<'a>, DerError>> + use<'a>, DerError> {
        let mut data = self.data.reader();
        data.optional(tag::context(0), "version")?;
        data.any("responderID")?;
        data.expect(tag::GENERALIZED_TIME, "producedAt")?;
        let mut list = data.expect(tag::SEQUENCE, "responses")?.reader();
        let mut failed = false;
        Ok(std::iter::from_fn(move || {
            if list.is_empty() || failed {
                return None;
            }
            let single = list.expect(tag::SEQUENCE, "SingleResponse");
            let single = single.and_then(Single::read);
            failed = single.is_err();
            Some(single)
        }))
    }
}

/// The part of a response about one certificate.
struct Single<'a> {
    /// certID.
    id: Tlv<'a>,
    status: CertStatus,
    this_update: Tlv<'a>,
    next_update: Option<Tlv<'a>>,
    /// The SignedCertificateTimestampList.
    scts: Option<&'a [u8]>,
}

impl<'a> Single<'a> {
    fn read(single: Tlv<'a>) -> Result<Self, DerError> {
        let mut fields = single.reader();
        let id = fields.expect(tag::SEQUENCE, "certID")?;
        let status = match fields.any("certStatus")?.tag {
            0x80 => CertStatus::Good,
            0xa1 | 0x81 => CertStatus::Revoked,
            _ => CertStatus::Unknown,
        };
        let this_update = fields.expect(tag::GENERALIZED_TIME, "thisUpdate")?;
        let next_update = match fields.optional(tag::context(0), "nextUpdate")? {
            Some(wrapper) => Some(wrapper.reader().any("nextUpdate")?),
            None => None,
        };
        let scts = match fields.optional(tag::context(1), "singleExtensions")? {
            Some(wrapper) => sct_list(wrapper)?,
            None => None,
        };
        Ok(Single {
            id,
            status,
            this_update,
            next_update,
            scts,
        })
    }

    /// Returns `true` if the certID names this certificate of this issuer.
    fn is_about(
        &self,
        certificate: &Certificate<'_>,
        issuer: &Certificate<'_>,
    ) -> Result<bool, DerError> {
        let mut id = self.id.reader();
        let algorithm = id.expect(tag::SEQUENCE, "hashAlgorithm")?;
        let hash = match algorithm.reader().expect(tag::OID, "algorithm")?.value {
            oid::content::SHA1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            oid::content::SHA256 => &digest::SHA256,
            _ => return Ok(false),
        };
        let name = id.expect(tag::OCTET_STRING, "issuerNameHash")?.value;
        let key = id.expect(tag::OCTET_STRING, "issuerKeyHash")?.value;
        let serial = id.expect(tag::INTEGER, "serialNumber")?.value;
        Ok(serial == certificate.serial()
            && name == digest(hash, certificate.issuer()).as_ref()
            && key == digest(hash, key_bits(issuer)?).as_ref())
    }

    fn holds(&self, now_ms: i64) -> bool {
        let Some(from) = time::milliseconds(self.this_update) else {
            return false;
        };
        let until = match self.next_update {
            Some(next) => time::milliseconds(next),
            None => Some(from.saturating_add(UNLIMITED_MS)),
        };
        from.saturating_sub(SKEW_MS) <= now_ms
            && until.is_some_and(|until| now_ms <= until.saturating_add(SKEW_MS))
    }
}

fn sct_list(extensions: Tlv<'_>) -> Result<Option<&[u8]>, DerError> {
    let mut extensions = extensions
        .reader()
        .expect(tag::SEQUENCE, "Extensions")?
        .reader();
    while !extensions.is_empty() {
        let mut extension = extensions.expect(tag::SEQUENCE, "Extension")?.reader();
        let named = extension.expect(tag::OID, "extnID")?.value == oid::content::OCSP_SCT_LIST;
        extension.optional(tag::BOOLEAN, "critical")?;
        let value = extension.expect(tag::OCTET_STRING, "extnValue")?;
        if named {
            let list = value
                .reader()
                .expect(tag::OCTET_STRING, "SignedCertificateTimestampList")?;
            return Ok(Some(list.value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_mint::Der;

    const TIME: &[u8] = b"20260701000000Z";

    /// Returns a typical OCSPResponse: no version, key hash, good, and these extensions of the
    /// single SingleResponse.
    fn response(extensions: Option<&dyn Fn(&mut Der)>) -> Vec<u8> {
        let single = |der: &mut Der| {
            der.sequence(|der| der.put(tag::OCTET_STRING, b"certID"));
            der.put(0x80, &[]);
            der.put(tag::GENERALIZED_TIME, TIME);
            let next = Der::build(|der| der.put(tag::GENERALIZED_TIME, TIME));
            der.put(tag::context(0), &next);
            if let Some(extensions) = extensions {
                let list = Der::build(|der| der.sequence(|der| extensions(der)));
                der.put(tag::context(1), &list);
            }
        };
        let basic = Der::build(|der| {
            der.sequence(|der| {
                der.sequence(|der| {
                    der.put(tag::context(2), b"\x04\x01k");
                    der.put(tag::GENERALIZED_TIME, TIME);
                    der.sequence(|der| der.sequence(single));
                });
                der.sequence(|der| der.put(tag::OID, &[0x2b, 1]));
                der.bit_string(b"signature");
            });
        });
        let bytes = Der::build(|der| {
            der.sequence(|der| {
                der.put(tag::OID, &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1]);
                der.put(tag::OCTET_STRING, &basic);
            });
        });
        Der::build(|der| {
            der.sequence(|der| {
                der.put(ENUMERATED, &[0]);
                der.put(tag::context(0), &bytes);
            });
        })
    }

    fn extension(der: &mut Der, oid: &[u8], value: &[u8]) {
        der.sequence(|der| {
            der.put(tag::OID, oid);
            der.put(tag::OCTET_STRING, value);
        });
    }

    #[test]
    fn the_list_is_found_among_others() {
        let found = response(Some(&|der: &mut Der| {
            extension(der, &[0x2b, 1], b"other");
            let list = Der::build(|der| der.put(tag::OCTET_STRING, b"the list"));
            extension(der, oid::content::OCSP_SCT_LIST, &list);
        }));
        assert_eq!(sct_list_of_ocsp(&found).unwrap(), Some(&b"the list"[..]));
        for without in [
            response(None),
            response(Some(&|der: &mut Der| extension(der, &[0x2b, 1], b"other"))),
            vec![0x30, 3, ENUMERATED, 1, 6], // unauthorized
        ] {
            assert_eq!(sct_list_of_ocsp(&without).unwrap(), None);
        }
        for length in 0..found.len() {
            assert!(
                sct_list_of_ocsp(&found[..length]).is_err(),
                "{length} bytes"
            );
        }
    }

    use lucarne_mint::testing::{OcspResponse, OcspStatus, Pki};
    use lucarne_mint::{KeyPair, KeyType, LeafOptions, Time};

    fn leaf(name: &str) -> LeafOptions {
        Pki::shared().leaf(name)
    }

    /// Returns the current status of `leaf` according to a response.
    fn status(leaf: &[u8], response: &[u8]) -> Result<CertStatus, OcspError> {
        let now_ms = Time::now().unix() * 1000;
        let issuer = Certificate::parse(Pki::shared().p256.cert_der()).unwrap();
        ocsp_status(
            response,
            &Certificate::parse(leaf).unwrap(),
            &issuer,
            now_ms,
        )
    }

    #[test]
    fn what_the_issuer_says_counts() {
        for ca in [&Pki::shared().p256, &Pki::shared().rsa] {
            let issuer = Certificate::parse(ca.cert_der()).unwrap();
            let leaf = ca.issue(&leaf("stapled.example")).unwrap();
            for (said, expected) in [
                (OcspStatus::Good, CertStatus::Good),
                (OcspStatus::Revoked, CertStatus::Revoked),
                (OcspStatus::Unknown, CertStatus::Unknown),
            ] {
                let response = OcspResponse::about(&leaf, said).unwrap();
                let response = response.sign(ca, ca.key()).unwrap();
                let certificate = Certificate::parse(&leaf).unwrap();
                let now_ms = Time::now().unix() * 1000;
                let status = ocsp_status(&response, &certificate, &issuer, now_ms);
                assert_eq!(status, Ok(expected));
            }
        }
    }

    #[test]
    fn what_proves_nothing() {
        let ca = &Pki::shared().p256;
        let leaf = ca.issue(&leaf("stapled.example")).unwrap();
        let good = OcspResponse::about(&leaf, OcspStatus::Good).unwrap();
        let signed = |response: OcspResponse| response.sign(ca, ca.key()).unwrap();
        let now = Time::now();
        let at = |from: i64, until: Option<i64>| OcspResponse {
            this_update: now.plus_days(from),
            next_update: until.map(|days| now.plus_days(days)),
            ..good.clone()
        };
        assert_eq!(status(&leaf, &signed(at(-2, None))), Ok(CertStatus::Good));
        let other = OcspResponse {
            serial: vec![1],
            ..good.clone()
        };
        let by_other_ca = good.sign(&Pki::shared().p384, ca.key()).unwrap();
        let stranger = KeyPair::generate(KeyType::EcdsaP256).unwrap();
        let mut altered = signed(OcspResponse {
            status: OcspStatus::Unknown,
            ..good.clone()
        });
        let unknown = altered.windows(3).position(|at| at == [0x82, 0, 0x18]);
        altered[unknown.unwrap()] = 0x80;
        for (response, why) in [
            (signed(other), OcspError::OtherCertificate),
            (by_other_ca, OcspError::OtherCertificate),
            (good.sign(ca, &stranger).unwrap(), OcspError::Signature),
            (altered, OcspError::Signature),
            (signed(at(-9, Some(-2))), OcspError::Time),
            (signed(at(2, Some(9))), OcspError::Time),
            (signed(at(-8, None)), OcspError::Time),
            (vec![0x30, 3, ENUMERATED, 1, 6], OcspError::NotSuccessful(6)),
        ] {
            assert_eq!(status(&leaf, &response), Err(why));
        }
        let whole = signed(good);
        for length in 0..whole.len() {
            assert!(status(&leaf, &whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_responder_counts_whom_the_issuer_made_one() {
        let ca = &Pki::shared().p256;
        let subject = ca.issue(&leaf("stapled.example")).unwrap();
        let key = std::sync::Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap());
        let responder = LeafOptions {
            eku: vec![lucarne_mint::oid::OCSP_SIGNING],
            ..LeafOptions::with_key(["responder.example"], key.clone())
        };
        let stale = LeafOptions {
            not_after: Time::now().plus_days(-1),
            not_before: Time::now().plus_days(-9),
            ..responder.clone()
        };
        let server = LeafOptions::with_key(["responder.example"], key.clone());
        for (certificate, expected) in [
            (ca.issue(&responder), Ok(CertStatus::Revoked)),
            (ca.issue(&server), Err(OcspError::Signature)),
            (ca.issue(&stale), Err(OcspError::Signature)),
            (
                Pki::shared().p384.issue(&responder),
                Err(OcspError::Signature),
            ),
        ] {
            let response = OcspResponse {
                responder: Some(certificate.unwrap()),
                ..OcspResponse::about(&subject, OcspStatus::Revoked).unwrap()
            };
            let response = response.sign(ca, &key).unwrap();
            assert_eq!(status(&subject, &response), expected);
        }
    }
}
