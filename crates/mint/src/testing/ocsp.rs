//! OCSP responses as responders sign them (RFC 6960, section 4.2.1).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::der::{DerError, Reader, tag};
use crate::{Authority, Der, KeyPair, MintError, Time, TimeForm, oid};

const ENUMERATED: u8 = 0x0a;

/// Status of a certificate in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    /// The certificate is not revoked.
    Good,
    /// The certificate is revoked, since the creation of the response.
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

/// An unsigned response about one certificate, with all fields accessible.
#[derive(Clone, Debug)]
pub struct OcspResponse {
    /// Status of the certificate.
    pub status: OcspStatus,
    /// Content octets of the serial number.
    pub serial: Vec<u8>,
    /// Start of the response's validity.
    pub this_update: Time,
    /// End of the response's validity; `None` omits the field.
    pub next_update: Option<Time>,
    /// SignedCertificateTimestampList (RFC 6962, section 3.3); `None` omits the extension.
    pub scts: Option<Vec<u8>>,
    /// Certificate of the responder, if it is not the issuer.
    pub responder: Option<Vec<u8>>,
}

impl OcspResponse {
    /// Creates a response about `certificate`, valid from an hour ago for a week. Returns `None` if
    /// the certificate cannot be parsed.
    pub fn about(certificate: &[u8], status: OcspStatus) -> Option<Self> {
        let now = Time::now();
        Some(OcspResponse {
            status,
            serial: serial(certificate).ok()?.to_vec(),
            this_update: Time::from_unix(now.unix() - 3600),
            next_update: Some(now.plus_days(7)),
            scts: None,
            responder: None,
        })
    }

    /// Signs the response for a certificate of `issuer` with `key`.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn sign(&self, issuer: &Authority, key: &KeyPair) -> Result<Vec<u8>, MintError> {
        let data = Der::build(|der| {
            der.sequence(|der| {
                der.context(2, |der| der.octet_string(&sha1(public_key(key))));
                time(der, self.this_update);
                der.sequence(|der| der.sequence(|der| self.single(issuer, der)));
            });
        });
        let algorithm = key.default_algorithm();
        let signature = key.sign(algorithm, &data)?;
        let basic = Der::build(|der| {
            der.sequence(|der| {
                der.raw(&data);
                der.raw(&algorithm.identifier());
                der.bit_string(&signature);
                if let Some(responder) = &self.responder {
                    der.context(0, |der| der.sequence(|der| der.raw(responder)));
                }
            });
        });
        Ok(successful(&basic))
    }

    fn single(&self, issuer: &Authority, der: &mut Der) {
        der.sequence(|der| {
            der.sequence(|der| {
                der.oid(&oid::SHA1);
                der.null();
            });
            der.octet_string(&sha1(issuer.name().as_der()));
            der.octet_string(&sha1(public_key(issuer.key())));
            der.integer_bytes(&self.serial);
        });
        match self.status {
            OcspStatus::Good => der.context_primitive(0, &[]),
            OcspStatus::Revoked => der.context(1, |der| time(der, self.this_update)),
            OcspStatus::Unknown => der.context_primitive(2, &[]),
        }
        time(der, self.this_update);
        if let Some(next) = self.next_update {
            der.context(0, |der| time(der, next));
        }
        if let Some(list) = &self.scts {
            der.context(1, |der| {
                der.sequence(|der| {
                    der.sequence(|der| {
                        der.oid(&oid::OCSP_SCT_LIST);
                        der.octet_string(&Der::build(|der| der.octet_string(list)));
                    });
                });
            });
        }
    }
}

fn successful(basic: &[u8]) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.put(ENUMERATED, &[0]);
            der.context(0, |der| {
                der.sequence(|der| {
                    der.oid(&oid::OCSP_BASIC);
                    der.octet_string(basic);
                });
            });
        });
    })
}

fn time(der: &mut Der, time: Time) {
    time.with_form(TimeForm::Generalized).write(der);
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// Returns the content of a SubjectPublicKeyInfo's BIT STRING.
fn public_key(key: &KeyPair) -> &[u8] {
    let bits = subject_public_key(key.spki()).ok();
    bits.and_then(|bits| bits.get(1..)).unwrap_or_default()
}

fn subject_public_key(spki: &[u8]) -> Result<&[u8], DerError> {
    let mut fields = Reader::new(spki).any("SubjectPublicKeyInfo")?.reader();
    fields.any("algorithm")?;
    Ok(fields.any("subjectPublicKey")?.value)
}

fn serial(certificate: &[u8]) -> Result<&[u8], DerError> {
    let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
    let mut tbs = certificate.any("tbsCertificate")?.reader();
    tbs.optional(tag::context(0), "version")?;
    Ok(tbs.any("serialNumber")?.value)
}
