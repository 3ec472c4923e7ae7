use std::sync::{Arc, OnceLock};

use lucarne_x509::der::{DerError, Reader, Tlv, tag};

use crate::certificate::random_serial;
use crate::{
    Chain, Extension, KeyPair, KeyType, Lengths, MintError, Name, SignatureAlgorithm, Template,
    Time, Version, extension, oid, pem, random,
};

/// Properties of a new CA. Start from [`named`](Self::named).
#[derive(Clone, Debug)]
pub struct CaOptions {
    /// Name of the CA.
    pub name: Name,
    /// Kind of the CA's key.
    pub key: KeyType,
    /// Start of the validity period.
    pub not_before: Time,
    /// End of the validity period.
    pub not_after: Time,
    /// The pathLenConstraint: number of intermediate CAs that may follow; `None` is unlimited.
    pub path_length: Option<u8>,
    /// Algorithm of the issuer's signature; `None` for the default of the issuer's key.
    pub algorithm: Option<SignatureAlgorithm>,
}

impl CaOptions {
    /// Returns options for a CA of this common name, valid for ten years from yesterday.
    pub fn named(name: &str, key: KeyType) -> Self {
        let not_before = Time::now().plus_days(-1);
        CaOptions {
            name: Name::of_ca("XX", "Lucarne Test", name),
            key,
            not_before,
            not_after: not_before.plus_days(3652),
            path_length: None,
            algorithm: None,
        }
    }

    /// Returns options for a root for this machine, which can issue leaves only. The name of the
    /// root is unique, because clients confuse CAs of the same name.
    ///
    /// # Errors
    /// If random bytes are unavailable.
    pub fn local(key: KeyType) -> Result<Self, MintError> {
        let mut number = [0; 4];
        random(&mut number)?;
        let number = u32::from_be_bytes(number);
        let name = format!("Lucarne local CA {number:08x}");
        Ok(CaOptions {
            name: Name::of_ca("XX", "Lucarne", &name),
            path_length: Some(0),
            ..Self::named(&name, key)
        })
    }
}

/// A certificate authority: its key, its certificate, and the certificates above it.
///
/// Clones are cheap. Issuing takes `&self` and works from many threads.
#[derive(Clone, Debug)]
pub struct Authority {
    key: Arc<KeyPair>,
    name: Name,
    /// Certificates, the CA's own first and the root last.
    certificates: Arc<[Vec<u8>]>,
    /// The authorityKeyIdentifier of issued certificates, if the CA's certificate has a SKI.
    key_id: Option<Extension>,
    /// URLs and policy in issued certificates, created when first used.
    pub(crate) services: Arc<OnceLock<[Extension; 3]>>,
}

impl Authority {
    /// Creates a self-signed root.
    ///
    /// # Errors
    /// If the key type cannot be generated, or cannot sign with the requested algorithm.
    pub fn root(options: &CaOptions) -> Result<Self, MintError> {
        let key = KeyPair::generate(options.key)?;
        let mut template = ca_template(options, &key)?;
        template.issuer = options.name.clone();
        template.algorithm = options.algorithm.unwrap_or(key.default_algorithm());
        let certificate = template.sign(&key)?;
        Self::new(key, vec![certificate])
    }

    /// Creates an authority from a key and its certificate, followed by the certificates above it.
    ///
    /// # Errors
    /// If there is no certificate, the certificate cannot be parsed, or it does not have this key.
    pub fn new(key: KeyPair, certificates: Vec<Vec<u8>>) -> Result<Self, MintError> {
        let own = certificates
            .first()
            .ok_or(MintError::Certificate("the certificate is missing"))?;
        let parts =
            Parts::read(own).map_err(|_| MintError::Certificate("its DER cannot be parsed"))?;
        if parts.spki != key.spki() {
            return Err(MintError::Mismatch);
        }
        Ok(Self {
            name: Name::from_der(parts.subject),
            key_id: parts.key_id.map(extension::authority_key_id),
            services: Arc::default(),
            key: Arc::new(key),
            certificates: certificates.into(),
        })
    }

    /// Parses PEM with a PKCS#8 private key, the CA's certificate, and the certificates above it,
    /// in any order.
    ///
    /// # Errors
    /// If the text has other contents, or the key does not belong to a certificate.
    pub fn from_pem(text: &str) -> Result<Self, MintError> {
        let (mut keys, mut certificates) = (Vec::new(), Vec::new());
        for (label, der) in pem::decode(text)? {
            match label.as_str() {
                "PRIVATE KEY" => keys.push(der),
                "CERTIFICATE" => certificates.push(der),
                "ENCRYPTED PRIVATE KEY" => {
                    return Err(MintError::Encrypted);
                }
                "EC PRIVATE KEY" | "RSA PRIVATE KEY" => {
                    return Err(MintError::OldKeyFormat { label });
                }
                "EC PARAMETERS" => {}
                _ => return Err(MintError::UnexpectedBlock { label }),
            }
        }
        match &keys[..] {
            [key] => {
                let key = KeyPair::from_pkcs8(key)?;
                own_first(&mut certificates, &key);
                Self::new(key, certificates)
            }
            _ => Err(MintError::KeyCount { found: keys.len() }),
        }
    }

    /// Formats the CA as PEM: private key, certificate, and the certificates above it. **Secret.**
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn to_pem(&self) -> Result<String, MintError> {
        let mut text = pem::encode("PRIVATE KEY", &self.key.to_pkcs8()?);
        for certificate in self.certificates.iter() {
            text.push_str(&pem::encode("CERTIFICATE", certificate));
        }
        Ok(text)
    }

    /// Returns the CA's certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", self.cert_der())
    }

    /// Returns the CA's certificate in DER.
    pub fn cert_der(&self) -> &[u8] {
        &self.certificates[0]
    }

    /// Returns the CA's certificate and the certificates above it, the root last.
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }

    /// Returns the key pair that signs the CA's certificates.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }

    /// Returns the authorityKeyIdentifier of issued certificates.
    pub(crate) fn authority_key_id(&self) -> Option<&Extension> {
        self.key_id.as_ref()
    }

    /// Returns the name of the CA, which is the issuer in its certificates.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns `leaf` and the certificates above it, without the root, which clients have.
    pub fn chain(&self, leaf: Vec<u8>) -> Chain {
        let certificates = self.certificates.iter();
        let above = certificates.take_while(|der| !is_root(der)).cloned();
        Chain::new(std::iter::once(leaf).chain(above).collect())
    }

    /// Returns the certificate that clients must trust in PEM: the root, or the highest known CA.
    pub fn trusted_pem(&self) -> String {
        let highest = self.certificates.last();
        pem::encode(
            "CERTIFICATE",
            highest.map_or(self.cert_der(), Vec::as_slice),
        )
    }

    /// Returns `leaf` and the certificates up to the root, including the root.
    pub fn full_chain(&self, leaf: Vec<u8>) -> Chain {
        Chain::new([&[leaf], &self.certificates[..]].concat())
    }

    /// Signs a template unchanged.
    ///
    /// # Errors
    /// If the algorithm does not fit the CA's key.
    pub fn sign(&self, template: &Template) -> Result<Vec<u8>, MintError> {
        template.sign(&self.key)
    }
}

/// Moves the certificate of `key` to the front, if there is one.
fn own_first(certificates: &mut [Vec<u8>], key: &KeyPair) {
    let own = |der: &Vec<u8>| Parts::read(der).is_ok_and(|parts| parts.spki == key.spki());
    if let Some(place) = certificates.iter().position(own) {
        certificates[..=place].rotate_right(1);
    }
}

/// Returns whether issuer and subject of a certificate are equal.
fn is_root(certificate: &[u8]) -> bool {
    Parts::read(certificate).is_ok_and(|parts| parts.issuer == parts.subject)
}

/// Returns the template of a CA certificate without the parts that depend on the issuer.
pub(crate) fn ca_template(options: &CaOptions, key: &KeyPair) -> Result<Template, MintError> {
    Ok(Template {
        version: Version::V3,
        serial: random_serial()?,
        algorithm: key.default_algorithm(),
        inner_algorithm: None,
        outer_algorithm: None,
        issuer: Name::empty(),
        not_before: options.not_before,
        not_after: options.not_after,
        subject: options.name.clone(),
        spki: key.spki().to_vec(),
        extensions: vec![
            extension::ca_key_usage(),
            extension::ca(options.path_length),
            extension::subject_key_id(key.id()),
        ],
        lengths: Lengths::Minimal,
    })
}

/// The parts of its own certificate that a CA needs.
struct Parts<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    spki: &'a [u8],
    key_id: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn read(certificate: &'a [u8]) -> Result<Self, DerError> {
        let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
        let mut tbs = certificate.any("tbsCertificate")?.reader();
        tbs.optional(tag::context(0), "version")?;
        tbs.any("serialNumber")?;
        tbs.any("signature")?;
        let issuer = tbs.any("issuer")?.raw;
        tbs.any("validity")?;
        let subject = tbs.any("subject")?.raw;
        let spki = tbs.any("subjectPublicKeyInfo")?.raw;
        let mut key_id = None;
        while let Ok(element) = tbs.any("extensions") {
            if element.tag == tag::context(3) {
                key_id = subject_key_id(element).ok().flatten();
            }
        }
        Ok(Self {
            issuer,
            subject,
            spki,
            key_id,
        })
    }
}

fn subject_key_id(extensions: Tlv<'_>) -> Result<Option<&[u8]>, DerError> {
    let mut list = extensions.reader().any("extensions")?.reader();
    while let Ok(extension) = list.any("Extension") {
        let mut fields = extension.reader();
        if fields.any("extnID")?.value == oid::content::SUBJECT_KEY_ID {
            fields.optional(tag::BOOLEAN, "critical")?;
            let octets = fields.any("extnValue")?;
            return Ok(Some(octets.reader().any("KeyIdentifier")?.value));
        }
    }
    Ok(None)
}
